//! The listener of the device API: it is what faces the internet.
//!
//! ```text
//!   socket ──▶ listener ──▶ connection ──▶ request ──▶ Handler
//!              how many     TLS, h1, h2     route, limits,
//!              how long     (tls)           body, answer
//! ```
//!
//! It knows sockets, TLS, HTTP and how much of each anybody may have. Who may do what is the [`Handler`]'s to say: a client
//! comes with any certificate, and has proved no more than that it has the key of it. So whatever is read here may have been
//! made up by anybody. Nothing of it reaches a log or a header unescaped, and nothing is without a bound: connections, the time
//! for each step, bytes of headers and bodies, streams, requests a second.

mod body;
mod connection;
mod files;
mod frames;
mod hold;
mod listener;
mod metrics;
mod noted;
mod prefer;
mod rate;
mod reply;
mod request;
mod route;
mod text;
mod tls;
mod usage;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flashjob_api::edge::wire::Message;
use flashjob_plan::edge::device_id::DeviceId;
use http::StatusCode;
use rustls::pki_types::CertificateDer;

use super::waiting::Waiter;
pub use listener::{listen, serve};
pub use metrics::ServerMetrics;
pub use tls::ServerKey;

/// What decides and answers.
pub trait Handler: Send + Sync + 'static {
    /// What is known of a client; made once for each connection.
    type Peer: Send + Sync + 'static;

    /// A client has shown this chain, leaf first, and proved that it has the leaf's key. Nothing else of it is checked.
    fn meet(&self, chain: Vec<CertificateDer<'static>>) -> Self::Peer;

    /// Before a body is read: who may do nothing at all here is told so at once.
    fn admit(&self, peer: &Self::Peer, device: &DeviceId) -> Result<(), DeviceAnswer>;

    /// With what a client's requests are counted together, for the rate limits. `None`: they are not limited.
    fn bucket(&self, peer: &Self::Peer, device: &DeviceId) -> Option<[u8; 32]>;

    /// Wakes a request of this device when it may be answered in another way. `None`: enough of them wait already.
    fn follow(&self, device: &DeviceId) -> Option<Waiter>;

    /// A request that is held is answered anew each time it is woken.
    fn answer(
        &self,
        request: DeviceRequest<Self::Peer>,
    ) -> impl Future<Output = DeviceAnswer> + Send;
}

pub struct DeviceRequest<P> {
    pub peer: Arc<P>,
    pub device: DeviceId,
    pub operation: Operation,
}

impl<P> Clone for DeviceRequest<P> {
    fn clone(&self) -> Self {
        let Self { peer, device, operation } = self;
        Self { peer: peer.clone(), device: device.clone(), operation: operation.clone() }
    }
}

/// What a device asks for or says.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    DataIn { if_none_match: Option<String> },
    ControlIn,
    DataOut(Message),
    ControlOut(Message),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceAnswer {
    pub status: StatusCode,
    /// A sentence for people. The server bounds and escapes it.
    pub reason: Option<String>,
    /// JSON. On `…/in` it is sent with 200 alone: yggd takes any body for a message.
    pub body: Option<Bytes>,
    /// As it stands in the header, quotes included.
    pub etag: Option<String>,
    /// In seconds.
    pub retry_after: Option<u32>,
    /// The server has held it for so many seconds, as it was asked to.
    pub held: Option<u32>,
}

impl DeviceAnswer {
    /// Nothing but a status.
    pub fn empty(status: StatusCode) -> Self {
        Self { status, reason: None, body: None, etag: None, retry_after: None, held: None }
    }

    /// A refusal, and why.
    pub fn refusal(status: StatusCode, reason: impl Into<String>) -> Self {
        Self { reason: Some(reason.into()), ..Self::empty(status) }
    }

    /// A success with a body.
    pub fn json(status: StatusCode, body: Bytes) -> Self {
        Self { body: Some(body), ..Self::empty(status) }
    }
}

/// How much anybody may have. The default is what the device API promises.
#[derive(Debug, Clone)]
pub struct Settings {
    /// At once; fewer if the process may not open as many files.
    pub max_connections: usize,
    /// From the connection to the end of its TLS handshake.
    pub handshake: Duration,
    /// From the first byte of a request to the end of its headers.
    pub headers: Duration,
    /// From the headers of a request to the end of its body.
    pub body: Duration,
    /// How long the handler may take. What the server holds is not counted.
    pub answer: Duration,
    /// Without a request, or with an answer that is not taken.
    pub idle: Duration,
    /// For what is under way when the server stops.
    pub grace: Duration,
    /// Of one body.
    pub max_body: usize,
    /// Of all bodies that are being read, beyond the first few KiB of each.
    pub max_bodies: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_connections: 20_000,
            handshake: Duration::from_secs(10),
            headers: Duration::from_secs(10),
            body: Duration::from_secs(30),
            answer: Duration::from_secs(60),
            idle: Duration::from_secs(120),
            grace: Duration::from_secs(5),
            max_body: 1 << 20,
            max_bodies: 64 << 20,
        }
    }
}
