//! What the processes of Pods say, and the part of a kubelet's own server that `kubectl logs` is answered from.
//!
//! The API server asks it over TLS and, as it was told of no CA for kubelets, checks no certificate. A real kubelet asks
//! who is calling; this one answers anybody on this machine.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
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
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;

use crate::pki;

/// How often a log that is followed is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// The logs of all Pods, by namespace and name. Those of Pods that are gone are kept: this node lives for minutes.
#[derive(Debug, Clone, Default)]
pub(super) struct Logs(Arc<Mutex<HashMap<(String, String), Log>>>);

#[derive(Debug, Clone)]
struct Log {
    path: PathBuf,
    ended: bool,
}

type Body = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

impl Logs {
    fn all(&self) -> MutexGuard<'_, HashMap<(String, String), Log>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process begins to speak.
    pub(super) fn open(&self, namespace: &str, pod: &str, path: PathBuf) {
        self.all().insert((namespace.into(), pod.into()), Log { path, ended: false });
    }

    /// It has said everything.
    pub(super) fn close(&self, namespace: &str, pod: &str) {
        if let Some(log) = self.all().get_mut(&(namespace.to_owned(), pod.to_owned())) {
            log.ended = true;
        }
    }

    fn get(&self, namespace: &str, pod: &str) -> Option<Log> {
        self.all().get(&(namespace.to_owned(), pod.to_owned())).cloned()
    }

    /// Opens the server on a free loopback port.
    pub(super) async fn serve(&self) -> Result<u16> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port for the kubelet")?;
        let port = listener.local_addr()?.port();
        let profile = pki::server("kubelet", &[super::NODE]);
        let made = CertifiedKey::self_signed(PrivateKey::generate()?, &profile)
            .context("cannot make the kubelet's certificate")?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(made.chain().ders(), made.key().der().clone_key())?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
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
        let path: Vec<&str> = request.uri().path().trim_matches('/').split('/').collect();
        let log = match path.as_slice() {
            ["containerLogs", namespace, pod, _] => {
                self.get(namespace, pod).map(|_| (*namespace, *pod))
            }
            _ => None,
        };
        let Some((namespace, pod)) = log else {
            let words = Bytes::from_static(b"there is no log of that Pod\n");
            let body = StreamBody::new(stream::once(async { Ok(Frame::data(words)) }).boxed());
            let mut answer = Response::new(body);
            *answer.status_mut() = StatusCode::NOT_FOUND;
            return answer;
        };
        let query = request.uri().query().unwrap_or_default();
        let option = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let lines = option("tailLines").and_then(|lines| lines.parse().ok());
        let follow = option("follow") == Some("true");
        Response::new(StreamBody::new(self.clone().read(namespace, pod, follow, lines)))
    }

    fn read(
        self,
        namespace: &str,
        pod: &str,
        follow: bool,
        lines: Option<usize>,
    ) -> BoxStream<'static, Result<Frame<Bytes>, Infallible>> {
        let key = (namespace.to_owned(), pod.to_owned());
        let state = (self, key, 0_u64, lines, false);
        stream::unfold(state, move |(logs, key, mut place, lines, last)| async move {
            if last {
                return None;
            }
            loop {
                let log = logs.get(&key.0, &key.1)?;
                let mut text = since(&log.path, place);
                place += text.len() as u64;
                let last = log.ended || !follow;
                if let Some(lines) = lines {
                    text = last_lines(&text, lines);
                }
                if last || !text.is_empty() {
                    let frame = Frame::data(Bytes::from(text));
                    return Some((Ok(frame), (logs, key, place, None, last)));
                }
                sleep(LOOK).await;
            }
        })
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
}
