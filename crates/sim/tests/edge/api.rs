//! A stand-in for the device API: it lets in whom it is told to, signs, and answers polls. It keeps no rules of its own, so
//! that a test can have any answer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use bytes::Bytes;
use flashjob_pki::{CertifiedKey, KeyPurpose, PrivateKey, Profile, csr};
use flashjob_sim::edge::Bundle;
use flashjob_sim::lock;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use rustls::crypto::ring;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// What a request was.
#[derive(Debug, Clone)]
pub struct Heard {
    /// The last two parts of the path, or the directive.
    pub what: String,
    /// The common name of the certificate shown.
    pub who: String,
    pub body: Value,
}

pub struct Api {
    pub address: SocketAddr,
    pub bundle: Bundle,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    ca: CertifiedKey,
    heard: Mutex<Vec<Heard>>,
    /// Instead of the usual answer, by what is asked.
    answers: Mutex<BTreeMap<String, (u16, String)>>,
    /// Who waits for news of what it has gets none yet.
    holding: watch::Sender<bool>,
}

fn profile(name: &str) -> Profile {
    let year_2100 = Timestamp::constant(4_102_444_800, 0);
    let purposes = vec![KeyPurpose::ClientAuth, KeyPurpose::ServerAuth];
    Profile { purposes, ..Profile::leaf(name, Timestamp::UNIX_EPOCH, year_2100) }
}

impl Api {
    pub async fn start() -> Result<Self> {
        let ca = Profile { ca: true, purposes: Vec::new(), ..profile("ca") };
        let ca = CertifiedKey::self_signed(PrivateKey::generate()?, &ca)?;
        let (server, register) = (PrivateKey::generate()?, PrivateKey::generate()?);
        let names = vec!["project-flotta.io".to_owned()];
        let certificate = ca.sign(&server.public(), &Profile { names, ..profile("*") })?;
        let bundle = ca.sign(&register.public(), &profile("register"))?;
        let bundle = Bundle::from_pem(&ca.leaf().pem(), &bundle.pem(), &register.pem())?;

        let mut roots = RootCertStore::empty();
        roots.add(ca.leaf().der().clone())?;
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone()).build()?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate.der().clone()], server.der().clone_key())?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];

        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (heard, answers) = Default::default();
        let shared = Arc::new(Shared { ca, heard, answers, holding: watch::Sender::new(false) });
        let accept = TlsAcceptor::from(Arc::new(config));
        let task = tokio::spawn(serve(listener, accept, shared.clone()));
        Ok(Self { address, bundle, shared, task })
    }

    /// From now on this is answered so.
    pub fn answer(&self, what: &str, status: u16, body: &str) {
        lock(&self.shared.answers).insert(what.to_owned(), (status, body.to_owned()));
    }

    /// From now on this is answered as usual.
    pub fn answer_as_usual(&self, what: &str) {
        lock(&self.shared.answers).remove(what);
    }

    /// From now on, or no longer, those are held that say what they have and would wait.
    pub fn hold(&self, holding: bool) {
        self.shared.holding.send_replace(holding);
    }

    pub fn heard(&self, what: &str) -> Vec<Heard> {
        lock(&self.shared.heard).iter().filter(|heard| heard.what == what).cloned().collect()
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, accept: TlsAcceptor, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (accept, shared) = (accept.clone(), shared.clone());
        tokio::spawn(async move {
            let Ok(stream) = accept.accept(stream).await else { return };
            let session = stream.get_ref().1;
            let h2 = session.alpn_protocol() == Some(b"h2");
            let shown = session.peer_certificates().and_then(|chain| chain.first().cloned());
            let who = shown.and_then(|der| name(&der)).unwrap_or_default();
            let service = service_fn(move |request| {
                let (shared, who) = (shared.clone(), who.clone());
                async move { shared.reply(request, who).await }
            });
            let io = TokioIo::new(stream);
            if h2 {
                let _ =
                    http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await;
            } else {
                let _ = http1::Builder::new().serve_connection(io, service).await;
            }
        });
    }
}

/// The last common name in it.
fn name(der: &[u8]) -> Option<String> {
    use x509_cert::der::Decode;
    let read = x509_cert::Certificate::from_der(der).ok()?;
    let subject = read.tbs_certificate().subject().to_string();
    subject.split(',').find_map(|part| part.trim().strip_prefix("CN=")).map(str::to_owned)
}

impl Shared {
    async fn reply(
        &self,
        request: Request<Incoming>,
        who: String,
    ) -> Result<Response<Full<Bytes>>> {
        let path = request.uri().path().to_owned();
        let known = request.headers().get("if-none-match").cloned();
        let prefer = request.headers().get("prefer").cloned();
        let parts: Vec<&str> = path.split('/').collect();
        let [.., channel, device, direction] = parts[..] else { anyhow::bail!("{path}") };
        let body = request.into_body().collect().await?.to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let what = match body["directive"].as_str() {
            Some(directive) if !directive.is_empty() => directive.to_owned(),
            _ => format!("{channel} {direction}"),
        };
        let heard = Heard { what: what.clone(), who, body: body["content"].clone() };
        lock(&self.heard).push(heard);
        let waits = what == "data in" && known.is_some() && prefer.is_some();
        let applied = prefer.filter(|_| waits && *self.holding.borrow());
        if applied.is_some() {
            let _ = self.holding.subscribe().wait_for(|holding| !holding).await;
        }
        let answer = lock(&self.answers).get(&what).cloned();
        let (status, text) = match answer {
            Some(answer) => answer,
            None => self.usual(&what, device, &body, known.is_some())?,
        };
        let mut response = Response::builder().status(StatusCode::from_u16(status)?);
        if let Some(applied) = applied {
            response = response.header("preference-applied", applied);
        }
        let response = if what == "data in" { response.header("etag", "\"v1\"") } else { response };
        Ok(response.body(Full::new(Bytes::from(text)))?)
    }

    fn usual(&self, what: &str, device: &str, body: &Value, known: bool) -> Result<(u16, String)> {
        let text = match what {
            "enrolment" => return Ok((208, String::new())),
            "data in" if known => return Ok((304, String::new())),
            "registration" => {
                let request = body["content"]["certificate_request"].as_str().context("a CSR")?;
                let key = csr::read(request.as_bytes())?;
                let certificate = self.ca.sign(&key, &profile(device))?.pem();
                json!({"directive": "registration", "content": {"certificate": certificate}})
            }
            "data in" => json!({"type": "data", "directive": "device", "content": {
                "device_id": device, "version": "v1",
                "configuration": {"heartbeat": {"period_seconds": 5}},
                "workloads": [{"name": "nginx"}],
            }}),
            _ => return Ok((200, String::new())),
        };
        Ok((200, text.to_string()))
    }
}
