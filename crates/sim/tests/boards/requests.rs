//! HTTP with nothing between the test and the bytes.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::LIMIT;

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub async fn get(server: SocketAddr, path: &str) -> Result<Answer> {
    request(server, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await
}

pub async fn post(server: SocketAddr, path: &str, body: &str) -> Result<Answer> {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}");
    request(server, &format!("{head}\r\nConnection: close\r\n\r\n{body}")).await
}

/// Sends this and reads until the other side closes.
pub async fn request(server: SocketAddr, request: &str) -> Result<Answer> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut read = Vec::new();
    timeout(LIMIT, stream.read_to_end(&mut read)).await??;
    let end = read.windows(4).position(|four| four == b"\r\n\r\n").context("no answer")?;
    let head = String::from_utf8_lossy(&read[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok(Answer { status: status.context("no status")?, head, body: read[end + 4..].to_vec() })
}
