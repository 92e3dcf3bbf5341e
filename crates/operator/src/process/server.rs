//! Health and metrics over HTTP: three paths.
//!
//! Both ports ask nobody who they are, so anybody who reaches them may open connections and say nothing. Each port has
//! its own connections, and when there are too many the oldest goes: a kubelet's probe, which asks at once, is answered
//! whoever else is connected. The kubelet restarts an operator that does not answer.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// More than a kubelet and a Prometheus ever open. With one more, the oldest is closed.
const MOST_CONNECTIONS: usize = 128;
/// How long a request may take to come in.
const REQUEST: Duration = Duration::from_secs(2);
/// How long a connection may last: also an answer has to be read in time.
const CONNECTION: Duration = Duration::from_secs(10);

/// What a path answers: status, content type, body.
pub type Answer = (StatusCode, &'static str, String);

/// Listens, and from then on answers every path by `answer`, which gets the path and says `None` to what it does not know.
pub async fn start(
    what: &'static str,
    address: SocketAddr,
    answer: impl Fn(&str) -> Option<Answer> + Send + Sync + 'static,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("cannot serve {what} on {address}"))?;
    tracing::info!(%address, "serving {what}");
    tokio::spawn(serve(listener, answer));
    Ok(())
}

async fn serve(
    listener: TcpListener,
    answer: impl Fn(&str) -> Option<Answer> + Send + Sync + 'static,
) {
    let answer = Arc::new(answer);
    let mut open: VecDeque<JoinHandle<()>> = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        open.retain(|connection| !connection.is_finished());
        if open.len() >= MOST_CONNECTIONS
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        open.push_back(tokio::spawn(converse(stream, answer.clone())));
        // What has come in on the connections there are goes before the next of them.
        tokio::task::yield_now().await;
    }
}

/// One request, one answer.
async fn converse(
    stream: TcpStream,
    answer: Arc<impl Fn(&str) -> Option<Answer> + Send + Sync + 'static>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answered = match *request.method() {
            Method::GET | Method::HEAD => answer(request.uri().path()),
            _ => Some((StatusCode::METHOD_NOT_ALLOWED, "text/plain", "GET only\n".into())),
        };
        let unknown = || (StatusCode::NOT_FOUND, "text/plain", "not found\n".into());
        let (status, content_type, body) = answered.unwrap_or_else(unknown);
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = status;
        let content_type = header::HeaderValue::from_static(content_type);
        response.headers_mut().insert(header::CONTENT_TYPE, content_type);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST)
        .keep_alive(false)
        .max_buf_size(8192)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(CONNECTION, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection ended early"),
        Err(_) => tracing::debug!("a connection lasted too long"),
    }
}
