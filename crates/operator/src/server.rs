//! Health and metrics over HTTP: three paths.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// More than a kubelet and a Prometheus ever open.
const MOST_CONNECTIONS: usize = 64;

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
    let connections = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(permit) = connections.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            }
        };
        let answer = answer.clone();
        tokio::spawn(async move {
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
                .header_read_timeout(std::time::Duration::from_secs(30))
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
            drop(permit);
        });
    }
}
