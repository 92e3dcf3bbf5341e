//! The listener as its clients see it: real sockets, real TLS, and a handler that answers by the device's name.

mod apart;
mod bad_input;
mod client;
mod floods;
mod frames;
mod fuzz;
mod hostile;
mod limits;
mod memory;
mod serving;
mod shares;
mod tls;
mod waiting;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flashjob_pki::{CertifiedKey, KeyPurpose, PrivateKey, Profile};
use http::StatusCode;
use jiff::Timestamp;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::body::Bodies;
use super::listener::serve_with;
use super::metrics::Cause;
use super::request::Server;
use super::*;
use crate::edge::waiting::Waiting;

use client::{BASE, BOTH, Client, Manner, get, post, tls_config, tls_config_of};

/// Longer than anything here takes, on any machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until it is so.
async fn wait_for(condition: impl Fn() -> bool) {
    let so = async || Ok(condition().then_some(()));
    flashjob_sim::eventually("what the test waits for", PATIENCE, so).await.unwrap();
}

/// Keys for one test: a CA, the server's and a device's.
struct Keys {
    ca: CertifiedKey,
    server: CertifiedKey,
    device: CertifiedKey,
}

fn profile(name: &str) -> Profile {
    Profile::leaf(name, Timestamp::UNIX_EPOCH, Timestamp::constant(4_102_444_800, 0))
}

impl Keys {
    fn new() -> Self {
        let ca = Profile { ca: true, ..profile("ca") };
        let ca = CertifiedKey::self_signed(PrivateKey::generate().unwrap(), &ca).unwrap();
        let server = server_key(&ca, "server");
        let device = signed(&ca, &profile("device"));
        Self { ca, server, device }
    }
}

fn signed(ca: &CertifiedKey, profile: &Profile) -> CertifiedKey {
    let key = PrivateKey::generate().unwrap();
    let certificate = ca.sign(&key.public(), profile).unwrap();
    CertifiedKey::from_pem(certificate.pem().as_bytes(), key.pem().as_bytes()).unwrap()
}

fn server_key(ca: &CertifiedKey, name: &str) -> CertifiedKey {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let purposes = vec![KeyPurpose::ServerAuth];
    signed(ca, &Profile { names, purposes, ..profile(name) })
}

fn for_rustls(key: &CertifiedKey) -> Arc<rustls::sign::CertifiedKey> {
    let (chain, private) = (key.chain().ders(), key.key().der().clone_key());
    let loaded = rustls::sign::CertifiedKey::from_der(chain, private, &ring::default_provider());
    Arc::new(loaded.unwrap())
}

/// A server under test. It ends when this is dropped.
struct Api {
    keys: Keys,
    address: SocketAddr,
    key: ServerKey,
    metrics: ServerMetrics,
    bodies: Bodies,
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<(), rustls::Error>>,
}

impl Api {
    async fn start(settings: Settings) -> Self {
        Self::with(Stub, settings).await
    }

    async fn with(handler: impl Handler, settings: Settings) -> Self {
        let keys = Keys::new();
        let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let (key, metrics) = (ServerKey::new(for_rustls(&keys.server)), ServerMetrics::default());
        let (stop, stopped) = watch::channel(false);
        let server = Arc::new(Server::new(Arc::new(handler), settings, metrics.clone()));
        let bodies = server.bodies.clone();
        let task = tokio::spawn(serve_with(listener, key.clone(), server, stopped));
        Self { keys, address, key, metrics, bodies, stop, task }
    }

    /// A client with the device's certificate.
    async fn client(&self, manner: Manner) -> Client {
        let config = tls_config(&self.keys.ca, Some(&self.keys.device), manner);
        Client::connect(self.address, config).await.expect("a connection")
    }
}

/// Answers by the device's name.
struct Stub;

impl Handler for Stub {
    type Peer = Vec<CertificateDer<'static>>;

    fn meet(&self, chain: Vec<CertificateDer<'static>>) -> Self::Peer {
        chain
    }

    fn admit(&self, _: &Self::Peer, device: &DeviceId) -> Result<(), DeviceAnswer> {
        match device.as_str() {
            "refused" => Err(DeviceAnswer::refusal(StatusCode::FORBIDDEN, "not\r\nyou \u{1b}[1m")),
            "panics-at-once" => panic!("admitted in {}", "haste"),
            _ => Ok(()),
        }
    }

    fn bucket(&self, _: &Self::Peer, device: &DeviceId) -> Option<[u8; 32]> {
        let device = device.as_str();
        device.starts_with("limited").then(|| {
            let mut bucket = [0; 32];
            for (place, byte) in bucket.iter_mut().zip(device.bytes()) {
                *place = byte;
            }
            bucket
        })
    }

    /// There is never any news.
    fn follow(&self, device: &DeviceId) -> Option<Waiter> {
        Waiting::default().follow(device.as_str())
    }

    async fn answer(&self, request: DeviceRequest<Self::Peer>) -> DeviceAnswer {
        match request.device.as_str() {
            "panics" => panic!("answered in {}", "haste"),
            "slow" => tokio::time::sleep(Duration::from_secs(2)).await,
            "hangs" => std::future::pending().await,
            "large" => return DeviceAnswer::json(StatusCode::OK, Bytes::from(vec![b' '; 8 << 20])),
            _ => {}
        }
        let said = |text: String| DeviceAnswer::json(StatusCode::OK, Bytes::from(text));
        match request.operation {
            Operation::DataIn { if_none_match: Some(known) } if known == "\"v1\"" => {
                DeviceAnswer::empty(StatusCode::NOT_MODIFIED)
            }
            Operation::DataIn { .. } => DeviceAnswer {
                etag: Some("\"v1\"".into()),
                ..said(format!(
                    "{{\"device\":\"{}\",\"chain\":{}}}",
                    request.device,
                    request.peer.len()
                ))
            },
            Operation::ControlIn | Operation::ControlOut(_) => DeviceAnswer::empty(StatusCode::OK),
            Operation::DataOut(message) => match message.directive.as_str() {
                "enrolment" => DeviceAnswer::empty(StatusCode::ALREADY_REPORTED),
                "registration" | "heartbeat" => {
                    said(format!("{{\"message_id\":{:?}}}", message.message_id))
                }
                other => {
                    DeviceAnswer::refusal(StatusCode::BAD_REQUEST, format!("directive {other}"))
                }
            },
        }
    }
}
