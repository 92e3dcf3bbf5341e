//! What may stand between us and a registry: something that cuts connections, answers in its stead, or asks for tokens.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use flashjob_pki::{CertifiedKey, PrivateKey, Profile};
use jiff::Timestamp;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// What happens to a request.
pub enum RequestFate {
    /// The registry answers it.
    Pass,
    /// The registry answers it, and the connection breaks after so many bytes.
    Cut(u64),
    /// The registry answers it as if no range had been asked for.
    Whole,
    /// This is the answer: the status, headers, and the body.
    Answer(&'static str, String, String),
}

/// Decides about a request by its number and its head.
pub trait Decide: Fn(usize, &str) -> RequestFate + Send + Sync + 'static {}
impl<F: Fn(usize, &str) -> RequestFate + Send + Sync + 'static> Decide for F {}

/// A server that decides about each request by its number and its head. It ends with the runtime of the test.
pub struct Front {
    pub host: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Front {
    pub async fn start(registry: &str, decide: impl Decide) -> Result<Self> {
        Self::listen(registry, decide, None).await
    }

    /// One that speaks TLS; its certificate is its own CA.
    pub async fn start_tls(registry: &str, decide: impl Decide) -> Result<(Self, String)> {
        let names = vec!["127.0.0.1".to_owned()];
        let profile = Profile::leaf("front", Timestamp::UNIX_EPOCH, Timestamp::MAX);
        let own =
            CertifiedKey::self_signed(PrivateKey::generate()?, &Profile { names, ..profile })?;
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(own.chain().ders(), own.key().der().clone_key())?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok((Self::listen(registry, decide, Some(acceptor)).await?, own.chain().pem()))
    }

    async fn listen(registry: &str, decide: impl Decide, tls: Option<TlsAcceptor>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let host = listener.local_addr()?.to_string();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, registry, decide) = (heads.clone(), registry.to_owned(), Arc::new(decide));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, registry, decide) = (seen.clone(), registry.clone(), decide.clone());
                let tls = tls.clone();
                tokio::spawn(async move {
                    match tls {
                        Some(tls) => {
                            serve(tls.accept(stream).await?, &registry, &seen, &*decide).await
                        }
                        None => serve(stream, &registry, &seen, &*decide).await,
                    }
                });
            }
        });
        Ok(Self { host, heads })
    }

    /// The heads of all requests so far.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// One request per connection.
async fn serve(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    registry: &str,
    seen: &Mutex<Vec<String>>,
    decide: &impl Decide,
) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8(head)?;
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.push(head.clone());
        seen.len() - 1
    };
    let verdict = decide(number, &head);
    let plain = |head: &str| {
        let lines = head.split_inclusive("\r\n");
        lines.filter(|line| !line.to_ascii_lowercase().starts_with("range:")).collect::<String>()
    };
    let head = if matches!(verdict, RequestFate::Whole) { plain(&head) } else { head };
    let limit = match verdict {
        RequestFate::Pass | RequestFate::Whole => u64::MAX,
        RequestFate::Cut(bytes) => bytes,
        RequestFate::Answer(status, headers, body) => {
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
            client.write_all(answer.as_bytes()).await?;
            return Ok(client.shutdown().await?);
        }
    };
    let mut upstream = TcpStream::connect(registry).await?;
    let head = head.strip_suffix("\r\n").context("a head has an end")?;
    upstream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).await?;
    copy(&mut upstream.take(limit), &mut client).await?;
    Ok(client.shutdown().await?)
}
