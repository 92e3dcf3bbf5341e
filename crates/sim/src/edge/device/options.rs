//! What kind of device is played.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use flashjob_pki::CertifiedKey;
use tokio::sync::mpsc::UnboundedSender;

use crate::edge::bundle::Bundle;
use crate::edge::client::Protocol;
use crate::edge::credential::Clock;
use crate::edge::ledger::News;
use crate::edge::wire::WireOptions;

/// Between two polls in the field. All other waits of a device are to this as they are in the field.
pub const FIELD_POLL: Duration = Duration::from_secs(5);

/// Whose agent it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// The original's: gives up after a second, makes a new key for each try, never renews, keeps nothing it was told of
    /// CAs or versions.
    Flotta,
    /// Ours.
    Ours,
}

/// A device to be made.
#[derive(Debug, Clone)]
pub struct DeviceOptions {
    /// Its id, and so the name of its EdgeDevice.
    pub id: String,
    pub server: SocketAddr,
    /// The name that the server's certificate must have.
    pub server_name: String,
    pub bundle: Bundle,
    /// A certificate it has already.
    pub own: Option<Arc<CertifiedKey>>,
    pub manner: Manner,
    pub protocol: Protocol,
    pub wire: WireOptions,
    /// For all it leaves to chance, but for its keys.
    pub seed: u64,
    /// Between two polls; 5 s in the field. With a shorter one all waits are shorter, but for the deadline.
    pub poll: Duration,
    /// How long a request may take, beside what the server holds it.
    pub deadline: Duration,
    /// For how long ours asks the server to hold the question for its configuration, in the field.
    pub wait: Duration,
    /// The namespace it asks to be in.
    pub target_namespace: String,
    /// The original's agent registers once more 10 s after it has succeeded.
    pub registers_again: bool,
    pub clock: Clock,
    /// Where all that is new in its ledger is sent, too.
    pub news: Option<UnboundedSender<News>>,
}

impl DeviceOptions {
    /// As in the field, on a net that does nothing wrong.
    pub fn new(id: impl Into<String>, server: SocketAddr, bundle: Bundle, manner: Manner) -> Self {
        let deadline = match manner {
            Manner::Flotta => Duration::from_secs(1),
            Manner::Ours => Duration::from_secs(20),
        };
        Self {
            id: id.into(),
            server,
            server_name: "project-flotta.io".to_owned(),
            bundle,
            own: None,
            manner,
            protocol: Protocol::H2,
            wire: WireOptions::default(),
            seed: 1,
            poll: FIELD_POLL,
            deadline,
            wait: Duration::from_secs(60),
            target_namespace: "default".to_owned(),
            registers_again: manner == Manner::Flotta,
            clock: Clock::default(),
            news: None,
        }
    }

    /// What it asks for, in the whole seconds that the header has.
    pub(super) fn held(&self) -> Duration {
        Duration::from_secs(self.scaled(self.wait).as_secs().max(1))
    }

    /// A wait of the field, as long as it is for this device.
    pub fn scaled(&self, in_the_field: Duration) -> Duration {
        in_the_field.mul_f64(self.poll.as_secs_f64() / FIELD_POLL.as_secs_f64())
    }
}
