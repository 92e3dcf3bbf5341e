//! A connection to the device API, kept open as agents do: TLS 1.3 with a client certificate, h1 or h2.
//!
//! It is opened anew when it has ended, and when the device shows another certificate than before.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, HOST, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::credential::Credential;

/// All paths are below it.
pub const BASE: &str = "/api/flotta-management/v1";
const REASON: &str = "x-flashjob-reason";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    H1,
    H2,
}

impl Protocol {
    pub(super) fn alpn(self) -> &'static [u8] {
        match self {
            Self::H1 => b"http/1.1",
            Self::H2 => b"h2",
        }
    }
}

/// A request.
#[derive(Debug, Clone)]
pub struct Call {
    pub method: Method,
    /// Below [`BASE`], with the slash.
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Call {
    pub fn get(path: impl Into<String>) -> Self {
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        Self { method: Method::GET, path: path.into(), headers, body }
    }

    /// With a body of JSON.
    pub fn post(path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        let headers = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let (headers, body) = (HeaderMap::from_iter(headers), body.into());
        Self { method: Method::POST, path: path.into(), headers, body }
    }

    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn code(&self) -> u16 {
        self.status.as_u16()
    }

    pub fn header(&self, name: impl AsRef<str>) -> Option<&str> {
        self.headers.get(name.as_ref())?.to_str().ok()
    }

    /// The sentence of a refusal: in a header, or else the message of the body.
    pub fn reason(&self) -> Option<String> {
        if let Some(reason) = self.header(REASON) {
            return Some(reason.to_owned());
        }
        let body = serde_json::from_slice::<Value>(&self.body);
        let refused = self.status.is_client_error() || self.status.is_server_error();
        body.ok().filter(|_| refused)?["message"].as_str().map(str::to_owned)
    }

    /// As it stands in the header, quotes included.
    pub fn etag(&self) -> Option<&str> {
        self.header(ETAG)
    }

    /// Whether it was held for as long as was asked.
    pub fn was_held(&self) -> bool {
        self.header("preference-applied").is_some_and(|applied| applied.starts_with("wait"))
    }

    pub fn retry_after(&self) -> Option<Duration> {
        self.header(RETRY_AFTER)?.parse().ok().map(Duration::from_secs)
    }

    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        let text = || format!("a body that is not understood: {}", self.text());
        serde_json::from_slice(&self.body).with_context(text)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub struct Client {
    server: SocketAddr,
    name: ServerName<'static>,
    protocol: Protocol,
    open: Mutex<Option<Arc<Connection>>>,
}

impl Client {
    /// For a server that is there under `name`, whatever its address is.
    pub fn new(server: SocketAddr, name: &str, protocol: Protocol) -> Result<Self> {
        let name = ServerName::try_from(name.to_owned())
            .with_context(|| format!("{name} is no name of a server"))?;
        Ok(Self { server, name, protocol, open: Mutex::new(None) })
    }

    /// Sends it, and waits so long for all of the answer. A connection with which something went wrong is not used again.
    pub async fn send(
        &self,
        credential: &Arc<Credential>,
        call: &Call,
        deadline: Duration,
    ) -> Result<Answer> {
        match timeout(deadline, self.exchange(credential, call)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                self.close().await;
                Err(error)
            }
            Err(_) => {
                self.close().await;
                bail!("no answer from {} within {deadline:?}", self.server)
            }
        }
    }

    /// Sees to it that there is a connection.
    pub async fn open(&self, credential: &Arc<Credential>, deadline: Duration) -> Result<()> {
        let opened = timeout(deadline, self.connection(credential)).await;
        opened
            .with_context(|| format!("no connection to {} within {deadline:?}", self.server))??;
        Ok(())
    }

    /// Ends the connection. Who is in the middle of a request on it may finish that.
    pub async fn close(&self) {
        *self.open.lock().await = None;
    }

    async fn exchange(&self, credential: &Arc<Credential>, call: &Call) -> Result<Answer> {
        let (connection, kept) = self.connection(credential).await?;
        match connection.ask(self.request(call)?).await {
            // The server has ended a connection that was not in use, as it may at any time. Go's client does the same.
            Err(error) if kept && was_not_heard(&error, call) => {
                self.close().await;
                let (connection, _) = self.connection(credential).await?;
                Ok(connection.ask(self.request(call)?).await?)
            }
            answered => Ok(answered?),
        }
    }

    /// The connection, and whether it was open already.
    async fn connection(&self, credential: &Arc<Credential>) -> Result<(Arc<Connection>, bool)> {
        let mut open = self.open.lock().await;
        if let Some(connection) = &*open
            && connection.is_for(credential)
        {
            return Ok((connection.clone(), true));
        }
        let connection = Arc::new(self.connect(credential.clone()).await?);
        *open = Some(connection.clone());
        Ok((connection, false))
    }

    async fn connect(&self, credential: Arc<Credential>) -> Result<Connection> {
        let tls = TlsConnector::from(credential.tls(self.protocol)?);
        let stream = TcpStream::connect(self.server)
            .await
            .with_context(|| format!("nobody listens at {}", self.server))?;
        stream.set_nodelay(true)?;
        let stream = tls.connect(self.name.clone(), stream).await;
        let stream = stream.with_context(|| format!("no TLS with {}", self.server))?;
        let io = TokioIo::new(stream);
        let (sender, task) = match self.protocol {
            Protocol::H1 => {
                let (sender, connection) = http1::handshake(io).await?;
                (Sender::H1(Mutex::new(sender)), tokio::spawn(ends(connection)))
            }
            Protocol::H2 => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
                (Sender::H2(sender), tokio::spawn(ends(connection)))
            }
        };
        Ok(Connection { sender, credential, task: task.abort_handle() })
    }

    fn request(&self, call: &Call) -> Result<Request<Full<Bytes>>> {
        let host = format!("{}:{}", self.name.to_str(), self.server.port());
        let path = format!("{BASE}{}", call.path);
        let mut request = Request::new(Full::new(call.body.clone()));
        *request.method_mut() = call.method.clone();
        *request.headers_mut() = call.headers.clone();
        match self.protocol {
            Protocol::H1 => {
                *request.uri_mut() = path.parse()?;
                request.headers_mut().insert(HOST, host.parse()?);
            }
            Protocol::H2 => *request.uri_mut() = format!("https://{host}{path}").parse()?,
        }
        Ok(request)
    }
}

/// Whether the server cannot have acted on the request, or may be asked twice.
fn was_not_heard(error: &hyper::Error, call: &Call) -> bool {
    let harmless = call.method == Method::GET && error.is_incomplete_message();
    error.is_canceled() || error.is_closed() || harmless
}

/// Why a connection ended is told to whoever has a request on it.
async fn ends(connection: impl Future<Output = hyper::Result<()>>) {
    let _ = connection.await;
}

/// Open until nobody uses it.
struct Connection {
    sender: Sender,
    credential: Arc<Credential>,
    task: AbortHandle,
}

enum Sender {
    /// One request after the other.
    H1(Mutex<http1::SendRequest<Full<Bytes>>>),
    H2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    fn is_for(&self, credential: &Arc<Credential>) -> bool {
        Arc::ptr_eq(&self.credential, credential) && !self.task.is_finished()
    }

    async fn ask(&self, request: Request<Full<Bytes>>) -> hyper::Result<Answer> {
        match &self.sender {
            Sender::H1(sender) => {
                let mut sender = sender.lock().await;
                sender.ready().await?;
                read(sender.send_request(request).await?).await
            }
            Sender::H2(sender) => {
                let mut sender = sender.clone();
                sender.ready().await?;
                read(sender.send_request(request).await?).await
            }
        }
    }
}

async fn read(response: hyper::Response<hyper::body::Incoming>) -> hyper::Result<Answer> {
    let (head, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Answer { status: head.status, headers: head.headers, body })
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}
