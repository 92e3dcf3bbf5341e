//! A GET for tests, without anything that would retry or follow, and a port to be served on.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::{PATIENCE, eventually};

/// Status and body of the answer; an error while nobody listens.
pub async fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let status = answer.split(' ').nth(1).context("no status line")?.parse()?;
    let body = answer.split_once("\r\n\r\n").context("no body")?.1;
    Ok((status, body.to_owned()))
}

/// A port that is free now.
pub async fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0").await?.local_addr()?)
}

/// Waits until a path answers so.
pub async fn answers(address: SocketAddr, path: &str, status: u16, words: &str) -> Result<()> {
    let mut last = None;
    let what = format!("{path} to answer {status} {words:?}");
    let reached = eventually(&what, PATIENCE, async || {
        last = get(address, path).await.ok();
        Ok(last.as_ref().filter(|(s, body)| *s == status && body.contains(words)).map(|_| ()))
    })
    .await;
    reached.with_context(|| format!("the last answer was {last:?}"))
}
