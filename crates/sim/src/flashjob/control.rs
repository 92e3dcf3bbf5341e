//! A way for programs other than tests to ask boards what they have lived through: `GET /ledger`.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::flashjob::board::Board;

/// A running control port. It stops when dropped.
#[derive(Debug)]
pub struct Control {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Control {
    /// Opens the port for these boards, on the current runtime.
    pub async fn start(address: SocketAddr, boards: Arc<[Board]>) -> Result<Self> {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("the control port cannot be {address}"))?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(serve(listener, boards));
        Ok(Self { address, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, boards: Arc<[Board]>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        };
        let boards = boards.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let answer = answer(&request, &boards);
                async move { answer }
            });
            // A connection that breaks is the other side's affair.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn answer(request: &Request<Incoming>, boards: &[Board]) -> Result<Response<Full<Bytes>>> {
    let mut response = Response::new(Full::default());
    if request.method() == Method::GET && request.uri().path() == "/ledger" {
        let ledgers: Result<Vec<Value>, _> = boards.iter().map(ledger).collect();
        *response.body_mut() =
            Full::new(serde_json::to_vec(&json!({ "boards": ledgers? }))?.into());
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, json);
    } else {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    Ok(response)
}

fn ledger(board: &Board) -> serde_json::Result<Value> {
    let mut ledger = serde_json::to_value(board.ledger())?;
    ledger["address"] = board.endpoint().into();
    ledger["version"] = board.version().into();
    Ok(ledger)
}
