//! What the processes of Pods say, and the part of a kubelet's own server that `kubectl logs` is answered from.
//!
//! The API server asks it over TLS and, as it was told of no CA for kubelets, checks no certificate. A real kubelet asks
//! who is calling; this one answers anybody on this machine.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use flashjob_pki::{CertifiedKey, PrivateKey};
use futures::stream::{self, BoxStream, StreamExt};
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use crate::pki;

/// How often a log that is followed is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// The logs of all containers, by namespace, Pod and name, one for each start. Those of Pods that are gone are kept: this
/// node lives for minutes.
#[derive(Debug, Clone, Default)]
pub(super) struct Logs(Arc<Mutex<HashMap<Key, Vec<Entry>>>>);

type Key = [String; 3];

#[derive(Debug, Clone)]
struct Entry {
    path: PathBuf,
    ended: Arc<AtomicBool>,
}

/// The log of a container that runs. When this is dropped, it has said everything.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) path: PathBuf,
    ended: Arc<AtomicBool>,
}

impl Drop for Log {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
    }
}

type Body = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

impl Logs {
    fn all(&self) -> MutexGuard<'_, HashMap<Key, Vec<Entry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A container begins to speak.
    pub(super) fn open(&self, key: Key, path: PathBuf) -> Log {
        let ended = Arc::new(AtomicBool::new(false));
        let entry = Entry { path: path.clone(), ended: ended.clone() };
        self.all().entry(key).or_default().push(entry);
        Log { path, ended }
    }

    /// What a container says, or what the one before it said.
    fn get(&self, key: &Key, previous: bool) -> Option<Entry> {
        self.all().get(key)?.iter().rev().nth(previous.into()).cloned()
    }

    /// Opens the server on a free loopback port.
    pub(super) async fn serve(&self) -> Result<u16> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port for the kubelet")?;
        let port = listener.local_addr()?.port();
        let profile = pki::server("kubelet", &[super::NODE]);
        let made = CertifiedKey::self_signed(PrivateKey::generate()?, &profile)
            .context("cannot make the kubelet's certificate")?;
        let acceptor = pki::acceptor(&made)?;
        let logs = self.clone();
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        drop(tokio::spawn(logs.clone().talk(acceptor.clone(), stream)))
                    }
                    Err(_) => sleep(LOOK).await,
                }
            }
        });
        Ok(port)
    }

    async fn talk(self, acceptor: TlsAcceptor, stream: TcpStream) {
        let Ok(stream) = acceptor.accept(stream).await else { return };
        let service = service_fn(|request| {
            let answer = self.answer(&request);
            async move { Ok::<_, Infallible>(answer) }
        });
        // Whoever hangs up has heard enough.
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }

    /// `/containerLogs/<namespace>/<pod>/<container>`
    fn answer(&self, request: &Request<Incoming>) -> Response<Body> {
        let query = request.uri().query().unwrap_or_default();
        let option = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let is_set = |name: &str| option(name) == Some("true");
        let path: Vec<&str> = request.uri().path().trim_matches('/').split('/').collect();
        let found = match path.as_slice() {
            ["containerLogs", key @ ..] => <[&str; 3]>::try_from(key).ok(),
            _ => None,
        };
        let found = found.and_then(|key| self.get(&key.map(str::to_owned), is_set("previous")));
        let Some(entry) = found else {
            let words = Bytes::from_static(b"there is no log of that container\n");
            let body = StreamBody::new(stream::once(async { Ok(Frame::data(words)) }).boxed());
            let mut answer = Response::new(body);
            *answer.status_mut() = StatusCode::NOT_FOUND;
            return answer;
        };
        let lines = option("tailLines").and_then(|lines| lines.parse().ok());
        Response::new(StreamBody::new(entry.read(is_set("follow"), lines)))
    }
}

impl Entry {
    fn read(
        self,
        follow: bool,
        lines: Option<usize>,
    ) -> BoxStream<'static, Result<Frame<Bytes>, Infallible>> {
        stream::unfold(
            (self, 0_u64, lines, false),
            move |(log, mut place, lines, last)| async move {
                if last {
                    return None;
                }
                loop {
                    // Asked before the file is read: what comes in between is in it then.
                    let last = log.ended.load(Ordering::Acquire) || !follow;
                    let mut text = since(&log.path, place);
                    place += text.len() as u64;
                    if let Some(lines) = lines {
                        text = last_lines(&text, lines);
                    }
                    if last || !text.is_empty() {
                        let frame = Frame::data(Bytes::from(text));
                        return Some((Ok(frame), (log, place, None, last)));
                    }
                    sleep(LOOK).await;
                }
            },
        )
        .boxed()
    }
}

/// What a file has from this place on; nothing if it cannot be read any more.
fn since(path: &PathBuf, place: u64) -> Vec<u8> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(place))?;
        file.read_to_end(&mut text)
    });
    if read.is_err() {
        text.clear();
    }
    text
}

fn last_lines(text: &[u8], count: usize) -> Vec<u8> {
    let all: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    all[all.len().saturating_sub(count)..].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_the_last() {
        assert_eq!(last_lines(b"a\nb\nc", 2), b"b\nc");
        assert_eq!(last_lines(b"a\n", 5), b"a\n");
        assert_eq!(last_lines(b"", 1), b"");
    }

    #[tokio::test]
    async fn a_log_is_followed_to_its_end_and_the_one_before_can_still_be_had() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let logs = Logs::default();
        let key = ["n", "p", "c"].map(str::to_owned);
        let paths = ["0", "1"].map(|name| folder.path().join(name));
        std::fs::write(&paths[0], "first")?;
        std::fs::write(&paths[1], "second")?;
        let first = logs.open(key.clone(), paths[0].clone());
        let followed = logs.get(&key, false).context("no log")?.read(true, None);
        drop(first);
        let _second = logs.open(key.clone(), paths[1].clone());
        let said = |entry: Option<Entry>, follow| async move {
            let entry = entry.context("no log")?;
            text(entry.read(follow, None)).await
        };
        assert_eq!(text(followed).await?, "first");
        assert_eq!(said(logs.get(&key, true), true).await?, "first");
        assert_eq!(said(logs.get(&key, false), false).await?, "second");
        Ok(())
    }

    async fn text(frames: BoxStream<'static, Result<Frame<Bytes>, Infallible>>) -> Result<String> {
        let all: Vec<Bytes> =
            frames.filter_map(async |frame| frame.ok()?.into_data().ok()).collect().await;
        Ok(String::from_utf8(all.concat())?)
    }
}
