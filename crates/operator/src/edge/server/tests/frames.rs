//! h2 by hand, for clients that no library would be: any frame, whole or half, in any order.

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::client::{BASE, Manner, tls};
use super::*;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

pub const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// What every connection begins with.
pub fn opening() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
}

/// Headers as HPACK has them at its simplest: nothing is remembered, nothing is squeezed.
pub fn block(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(0);
        for text in [name, value] {
            // 7 bits, and then 7 more at a time.
            match text.len().checked_sub(127) {
                None => block.push(text.len() as u8),
                Some(mut more) => {
                    block.push(127);
                    while more >= 128 {
                        block.push(more as u8 | 128);
                        more >>= 7;
                    }
                    block.push(more as u8);
                }
            }
            block.extend(text.as_bytes());
        }
    }
    block
}

/// The headers of a request for a path below the base.
pub fn asking(method: &str, path: &str) -> Vec<u8> {
    let path = format!("{BASE}{path}");
    block(&[
        (":method", method),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", &path),
        ("content-type", "application/json"),
    ])
}

/// A GET with all that belongs to it.
pub fn getting(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &asking("GET", path))
}

/// Gives a stream up.
pub fn reset(stream: u32) -> Vec<u8> {
    const CANCEL: u32 = 8;
    frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
}

#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// Of an RST_STREAM.
    pub fn reason(&self) -> u32 {
        u32::from_be_bytes(self.payload[..4].try_into().unwrap())
    }
}

/// A connection over which nothing goes that was not asked for.
pub struct Raw(pub TlsStream<TcpStream>);

impl Raw {
    pub async fn connect(api: &Api, manner: Manner) -> Self {
        let config = tls_config(&api.keys.ca, Some(&api.keys.device), manner);
        Self(tls(api.address, config).await.expect("a connection"))
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.expect("an open connection");
        self.0.flush().await.expect("an open connection");
    }

    /// The next frame that has come; the acknowledgements that it needs are sent.
    pub async fn frame(&mut self) -> Result<Frame> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).await?;
        let (kind, flags) = (head[3], head[4]);
        if matches!(kind, SETTINGS | PING) && flags & ACK == 0 {
            let said = if kind == PING { &payload[..] } else { &[] };
            self.0.write_all(&frame(kind, ACK, 0, said)).await?;
        }
        let stream = u32::from_be_bytes(head[5..].try_into()?);
        Ok(Frame { kind, stream, payload })
    }

    /// The next frame of this kind.
    pub async fn frame_of(&mut self, kind: u8) -> Frame {
        let found = async {
            loop {
                let frame = self.frame().await.context("no such frame before the end")?;
                if frame.kind == kind {
                    return anyhow::Ok(frame);
                }
            }
        };
        tokio::time::timeout(PATIENCE, found).await.expect("in time").expect("a frame")
    }

    /// All that comes until the server has ended it; an error if it did not do so in good order.
    pub async fn end(&mut self) -> std::io::Result<Vec<u8>> {
        let mut all = Vec::new();
        let read = tokio::time::timeout(PATIENCE, self.0.read_to_end(&mut all));
        read.await.expect("an end").map(|_| all)
    }
}
