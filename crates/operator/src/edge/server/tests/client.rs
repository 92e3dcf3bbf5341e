//! A client of the device API, over h1 or h2.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use flashjob_pki::CertifiedKey;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ALL_VERSIONS, ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub const BASE: &str = "/api/flotta-management/v1";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    H1,
    H2,
}

pub const BOTH: [Manner; 2] = [Manner::H1, Manner::H2];

pub type Sent = BoxBody<Bytes, std::io::Error>;

/// What came back.
#[derive(Debug)]
pub struct Got {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Got {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The message of an error, whose code has to be that of the answer.
    pub fn message(&self) -> String {
        assert_eq!(self.header("content-type"), "application/json");
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(body["code"], self.status.as_u16());
        body["message"].as_str().unwrap().to_owned()
    }
}

pub fn tls_config(ca: &CertifiedKey, key: Option<&CertifiedKey>, manner: Manner) -> ClientConfig {
    tls_config_of(ALL_VERSIONS, ca, key, manner)
}

pub fn tls_config_of(
    versions: &[&'static SupportedProtocolVersion],
    ca: &CertifiedKey,
    key: Option<&CertifiedKey>,
    manner: Manner,
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(ca.leaf().der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match key {
        Some(key) => {
            let (chain, private) = (key.chain().ders(), key.key().der().clone_key());
            builder.with_client_auth_cert(chain, private).unwrap()
        }
        None => builder.with_no_client_auth(),
    };
    let alpn: &[u8] = if manner == Manner::H2 { b"h2" } else { b"http/1.1" };
    config.alpn_protocols = vec![alpn.to_vec()];
    config
}

pub async fn tls(address: SocketAddr, config: ClientConfig) -> Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("localhost")?;
    Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
}

enum Sender {
    H1(http1::SendRequest<Sent>),
    H2(http2::SendRequest<Sent>),
}

pub struct Client {
    sender: Sender,
    /// The certificate that the server has shown.
    pub shown: CertificateDer<'static>,
}

impl Client {
    pub async fn connect(address: SocketAddr, config: ClientConfig) -> Result<Self> {
        let stream = tls(address, config).await?;
        let (_, session) = stream.get_ref();
        let h2 = session.alpn_protocol() == Some(b"h2");
        let shown = session.peer_certificates().unwrap()[0].clone().into_owned();
        let io = TokioIo::new(stream);
        let sender = if h2 {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
            tokio::spawn(connection);
            Sender::H2(sender)
        } else {
            let (sender, connection) = http1::handshake(io).await?;
            tokio::spawn(connection);
            Sender::H1(sender)
        };
        Ok(Self { sender, shown })
    }

    pub async fn send(&mut self, request: Request<Sent>) -> Result<Got> {
        let response = match &mut self.sender {
            Sender::H1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Sender::H2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        };
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Got { status: head.status, headers: head.headers, body })
    }

    pub async fn ask(&mut self, request: Request<Sent>) -> Got {
        self.send(request).await.expect("an answer")
    }
}

/// A request for a path below the base, unless it begins with "http".
pub fn request(method: &str, path: &str) -> http::request::Builder {
    let whole = path.starts_with("http");
    let uri = if whole { path.to_owned() } else { format!("https://localhost{BASE}{path}") };
    Request::builder().method(method).uri(uri).header("host", "localhost")
}

pub fn whole(body: impl Into<Bytes>) -> Sent {
    Full::new(body.into()).map_err(|never| match never {}).boxed()
}

pub fn get(path: &str) -> Request<Sent> {
    request("GET", path).body(whole("")).unwrap()
}

pub fn post(path: &str, body: impl Into<Bytes>) -> Request<Sent> {
    let request = request("POST", path).header("content-type", "application/json");
    request.body(whole(body)).unwrap()
}
