//! The floor of requests: a bare server, a process of its own so that its CPU can be told from ours.
//!
//! It has the same TLS as the device API (1.3 and ring alone, a certificate demanded and any taken), the same hyper, and one
//! thread. It reads the body of whatever it is asked, and says the bytes that the operator has said to a request of that kind. It **is** the price of TLS and HTTP on this machine, now. It is **not** something an operator could reach: it
//! does not look at who asks, for what, or how often.

use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use flashjob_sim::edge::{Answer, EdgeSite, site};
use flashjob_sim::{PATIENCE, Running, Usage, eventually};
use http::header::{CONTENT_LENGTH, DATE};
use http::{HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme, version,
};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// What the benchmark starts itself with, as the floor.
pub const ARGUMENT: &str = "floor-server";
const LISTENS: &str = "the floor listens at ";
const CERTIFICATE: &str = "server.crt";
const KEY: &str = "server.key";
const SAID: &str = "answer.json";

/// What it says to requests whose path has these two in it.
#[derive(Serialize, Deserialize)]
struct Said {
    path: (String, String),
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

/// A floor at work. It ends when dropped.
pub struct Floor {
    pub address: SocketAddr,
    process: Running,
    _folder: TempDir,
}

impl Floor {
    /// Starts one that shows the certificate of this site's operator and says the same as these answers, to requests with such
    /// a path. The last is for all others.
    pub async fn start<'a>(
        site: &EdgeSite,
        answers: impl IntoIterator<Item = ((&'a str, &'a str), &'a Answer)>,
    ) -> Result<Floor> {
        let folder = TempDir::new()?;
        let server = site.secrets().get("flotta-host-certificate").await?;
        for part in [CERTIFICATE, KEY] {
            let text = site::text(&server, part).with_context(|| format!("no {part}"))?;
            fs::write(folder.path().join(part), text)?;
        }
        let said: Vec<Said> =
            answers.into_iter().map(|(path, answer)| Said::of(path, answer)).collect();
        fs::write(folder.path().join(SAID), serde_json::to_vec(&said)?)?;
        let args = [ARGUMENT.to_owned(), folder.path().display().to_string()];
        let log = folder.path().join("log");
        let process = Running::start_with(&std::env::current_exe()?, &args, None, log)?;
        let address = eventually("the floor to listen", PATIENCE, async || {
            let said = process.last_words();
            let line = said.lines().find_map(|line| line.strip_prefix(LISTENS));
            Ok(line.and_then(|address| address.parse().ok()))
        });
        let address = address.await.with_context(|| process.last_words())?;
        Ok(Floor { address, process, _folder: folder })
    }

    pub fn usage(&self) -> Result<Usage> {
        Usage::of(self.process.pid().unsigned_abs())
    }

    pub fn pid(&self) -> i32 {
        self.process.pid()
    }
}

impl Said {
    fn of((first, second): (&str, &str), answer: &Answer) -> Said {
        // hyper adds these itself.
        let own = |name: &HeaderName| name != DATE && name != CONTENT_LENGTH;
        let headers = answer.headers.iter().filter(|(name, _)| own(name));
        let headers = headers.map(|(name, value)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        let path = (first.to_owned(), second.to_owned());
        Said { path, status: answer.code(), headers: headers.collect(), body: answer.text() }
    }

    fn response(self) -> Result<Saying> {
        let mut response = Response::builder().status(self.status);
        for (name, value) in self.headers {
            response = response.header(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
        }
        Ok((self.path, response.body(Full::new(Bytes::from(self.body)))?))
    }
}

type Saying = ((String, String), Response<Full<Bytes>>);

fn answer(all: &[Saying], path: &str) -> Response<Full<Bytes>> {
    let is_for = |((first, second), _): &&Saying| {
        path.contains(first.as_str()) && path.contains(second.as_str())
    };
    let found = all.iter().find(is_for).or(all.last());
    found.map(|(_, response)| response.clone()).unwrap_or_default()
}

/// Serves until the process is ended.
pub async fn serve(folder: &Path) -> Result<()> {
    let said: Vec<Said> = serde_json::from_slice(&fs::read(folder.join(SAID))?)?;
    let all: Arc<[Saying]> = said.into_iter().map(Said::response).collect::<Result<_>>()?;
    let acceptor = TlsAcceptor::from(Arc::new(tls(folder)?));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{LISTENS}{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(converse(stream, acceptor.clone(), all.clone()));
    }
}

async fn converse(stream: TcpStream, acceptor: TlsAcceptor, all: Arc<[Saying]>) {
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request: Request<Incoming>| {
        let response = answer(&all, request.uri().path());
        async move {
            let _ = request.into_body().collect().await;
            Ok::<_, Infallible>(response)
        }
    });
    let io = TokioIo::new(stream);
    // The client says how it ended.
    let _ = if h2 {
        http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await
    } else {
        http1::Builder::new().serve_connection(io, service).await
    };
}

fn tls(folder: &Path) -> Result<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(folder.join(CERTIFICATE))?;
    let key = PrivateKeyDer::from_pem_file(folder.join(KEY))?;
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&version::TLS13])?
        .with_client_cert_verifier(Arc::new(AnyCertificate(provider)))
        .with_single_cert(chain.collect::<Result<_, _>>()?, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Takes any certificate, as the device API does during the handshake.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ClientCertVerifier for AnyCertificate {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("there is no TLS 1.2".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
