//! A board's HTTP server, as ESP-IDF's: one task, so one request at a time, and seven connections.
//!
//! Written out and not taken from a library, because its limits matter. A request is read and answered even when its
//! caller has given up in the meantime: a POST that waited behind a slow `/onboard` still begins an update. And whoever
//! sends half a request has the server to himself until it loses patience.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::life::Core;
use super::pages::{self, RECEIVE_TIMEOUT};

const MAX_CONNECTIONS: usize = 7;
/// A request line and headers longer than this are refused.
const MAX_HEAD: usize = 1024;

/// What a handler makes of a request.
pub(super) enum Answer {
    /// An answer; the connection stays open or not.
    Some { status: &'static str, kind: &'static str, body: Vec<u8>, close: bool },
    /// The connection is closed without a word: what a handler's failure means on a board.
    None,
}

impl Answer {
    /// With the content type a handler's answer has when it names none.
    pub(super) fn html(status: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self::Some { status, kind: "text/html", body: body.into(), close: false }
    }

    pub(super) fn json(body: Vec<u8>) -> Self {
        Self::Some { status: "200 OK", kind: "application/json", body, close: false }
    }

    /// The server's own errors end the connection.
    pub(super) fn failure(status: &'static str, body: &str) -> Self {
        Self::Some { status, kind: "text/html", body: body.into(), close: true }
    }
}

/// A request whose body is still to be read.
pub(super) struct Request<'a> {
    pub(super) method: String,
    pub(super) path: String,
    stream: &'a mut TcpStream,
    /// Bytes that came with the head.
    ahead: Vec<u8>,
    /// Bytes of the body that were not taken yet, those ahead included.
    left: usize,
    close: bool,
}

impl Request<'_> {
    /// The next bytes of the body, at most so many; fewer at its end, or when the caller is gone.
    pub(super) async fn body(&mut self, most: usize) -> Vec<u8> {
        let want = most.min(self.left);
        while self.ahead.len() < want {
            match self.stream.read_buf(&mut self.ahead).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        let body: Vec<u8> = self.ahead.drain(..want.min(self.ahead.len())).collect();
        self.left -= body.len();
        body
    }

    /// Reads over what the handler did not want.
    async fn skip(&mut self) {
        while self.left > 0 && !self.body(MAX_HEAD).await.is_empty() {}
    }
}

pub(super) async fn serve(core: Arc<Core>, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let turn = Arc::new(Mutex::new(()));
    // Owned here, so that connections end with the power.
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        let (core, turn) = (core.clone(), turn.clone());
        connections.spawn(async move {
            connection(&core, &turn, stream).await;
            drop(place);
        });
    }
}

async fn connection(core: &Core, turn: &Mutex<()>, mut stream: TcpStream) {
    let mut ahead = Vec::new();
    loop {
        // An open connection costs the server nothing until something comes.
        if ahead.is_empty() && stream.readable().await.is_err() {
            return;
        }
        let _turn = turn.lock().await;
        match one(core, &mut stream, ahead).await {
            Some(next) => ahead = next,
            None => return,
        }
    }
}

/// Reads and answers one request. Returns what came after it, or nothing when the connection is over.
async fn one(core: &Core, stream: &mut TcpStream, ahead: Vec<u8>) -> Option<Vec<u8>> {
    let patience = core.scaled(RECEIVE_TIMEOUT);
    let read = timeout(patience, read(stream, ahead)).await;
    let mut request = match read {
        Ok(Ok(request)) => request,
        Ok(Err(None)) => return None,
        Ok(Err(Some(failure))) => {
            let _ = send(stream, failure).await;
            return None;
        }
        Err(_) => {
            let failure = Answer::failure("408 Request Timeout", "Server closed this connection");
            let _ = send(stream, failure).await;
            return None;
        }
    };
    let answer = pages::answer(core, &mut request).await;
    let open = send(request.stream, answer).await.is_some_and(|open| open) && !request.close;
    if !open {
        return None;
    }
    timeout(patience, request.skip()).await.ok()?;
    Some(request.ahead)
}

async fn read(stream: &mut TcpStream, mut ahead: Vec<u8>) -> Result<Request<'_>, Option<Answer>> {
    let end = loop {
        if let Some(end) = ahead.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if ahead.len() > MAX_HEAD {
            let status = "431 Request Header Fields Too Large";
            return Err(Some(Answer::failure(status, "Header fields are too long")));
        }
        match stream.read_buf(&mut ahead).await {
            Ok(0) | Err(_) => return Err(None),
            Ok(_) => {}
        }
    };
    let head = String::from_utf8_lossy(&ahead[..end]).into_owned();
    ahead.drain(..end + 4);
    let mut words = head.lines().next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0")) =
        (words.next(), words.next(), words.next())
    else {
        return Err(Some(Answer::failure("400 Bad Request", "Bad request syntax")));
    };
    let header = |name: &str| {
        let mut headers = head.lines().skip(1).filter_map(|line| line.split_once(':'));
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    Ok(Request {
        method: method.to_owned(),
        path: target.split('?').next().unwrap_or_default().to_owned(),
        left: header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0),
        close: header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")),
        stream,
        ahead,
    })
}

/// Sends an answer and says whether the connection stays open.
async fn send(stream: &mut TcpStream, answer: Answer) -> Option<bool> {
    let Answer::Some { status, kind, body, close } = answer else { return None };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), &body].concat()).await.ok()?;
    Some(!close)
}
