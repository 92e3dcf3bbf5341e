//! Carrying calls from the program to the API server, and answers back.

use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::warn;

use super::view::{self, Lists};
use super::{Call, CallFate, EventJudge, Judge};
use crate::cluster::Cluster;
use crate::lock;

/// A read's answer is a stream, a write's is whole.
type Answer = Response<Either<UnsyncBoxBody<Bytes, anyhow::Error>, Full<Bytes>>>;

pub(super) struct Wire {
    client: Client,
    judge: Arc<Judge>,
    pub(super) read_judge: Mutex<Option<Arc<Judge>>>,
    pub(super) event_judge: Mutex<Option<Arc<EventJudge>>>,
    lists: Lists,
    pub(super) calls: Mutex<Vec<Call>>,
    pub(super) answers: Mutex<Vec<(Call, u16)>>,
    pub(super) held: Mutex<Vec<(Call, oneshot::Sender<UnderWay>)>>,
    /// Changes with each call that is held.
    pub(super) holding: watch::Sender<()>,
    pub(super) under_way: watch::Sender<usize>,
    pub(super) cut: watch::Sender<bool>,
}

/// Counts a call that goes to the server, until it is answered.
pub(super) struct UnderWay(Arc<Wire>);

impl UnderWay {
    pub(super) fn new(wire: &Arc<Wire>) -> Self {
        wire.under_way.send_modify(|count| *count += 1);
        Self(wire.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.send_modify(|count| *count -= 1);
    }
}

pub(super) async fn accept(listener: TcpListener, wire: Arc<Wire>) {
    // Owned here, so that the connections end with this task.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(connection(stream, wire.clone()))),
                Err(error) => warn!(%error, "the gate cannot accept"),
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, wire: Arc<Wire>) {
    let mut cut = wire.cut.subscribe();
    let service = service_fn(|request| serve(wire.clone(), request));
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // An error here is a connection that one side has closed, which is what a gate is for.
    tokio::select! {
        biased;
        _ = cut.wait_for(|cut| *cut) => {}
        _ = served => {}
    }
}

/// An error makes hyper close the connection without an answer.
async fn serve(wire: Arc<Wire>, request: Request<Incoming>) -> Result<Answer> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.context("the caller went away")?;
    let mut call = Call {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().map(str::to_owned),
        number: 0,
        body: body.to_bytes(),
    };
    if !call.is_mutating() {
        return wire.read(call, parts).await;
    }
    wire.count(&mut call);
    // In its own task: hyper drops this future when the caller goes away, and the call is on the wire.
    let (sender, receiver) = oneshot::channel();
    tokio::spawn(wire.carry(call, parts, sender));
    receiver.await.context("the answer is lost")
}

impl Wire {
    pub(super) fn new(cluster: &Cluster, judge: Arc<Judge>) -> Result<Self> {
        // Nobody's: the caller's own token passes through.
        let mut config = cluster.config("");
        // A call goes out once, and whatever comes back goes to the caller.
        config.default_retry = false;
        let client = Client::try_from(config).context("cannot make a client for the gate")?;
        Ok(Self {
            client,
            judge,
            read_judge: Mutex::new(None),
            event_judge: Mutex::new(None),
            lists: Lists::default(),
            calls: Mutex::new(Vec::new()),
            answers: Mutex::new(Vec::new()),
            held: Mutex::new(Vec::new()),
            holding: watch::Sender::new(()),
            under_way: watch::Sender::new(0),
            cut: watch::Sender::new(false),
        })
    }

    fn count(&self, call: &mut Call) {
        let mut calls = lock(&self.calls);
        if !call.is_lease() {
            let counted = calls.iter().rfind(|call| call.number > 0);
            call.number = counted.map_or(0, |call| call.number) + 1;
        }
        calls.push(call.clone());
    }

    /// Reads go through as a stream, and end when the caller goes away.
    async fn read(self: Arc<Self>, call: Call, parts: Parts) -> Result<Answer> {
        let judge = lock(&self.read_judge).clone();
        let judged = judge.is_some();
        let verdict = match judge {
            Some(judge) if !call.is_lease() => judge(&call),
            _ => CallFate::Pass,
        };
        match verdict {
            CallFate::Pass => {}
            // A read that is answered late and one that is asked late differ in nothing that can be seen.
            CallFate::Delay(time) | CallFate::PassThenDelay(time) => sleep(time).await,
            CallFate::Hold => {
                self.hold(call.clone()).await.context("the gate is gone")?;
            }
            CallFate::Drop => bail!("dropped"),
            CallFate::PassThenDrop => {
                self.forward(parts, call.body).await?;
                bail!("dropped");
            }
            CallFate::PassThenHang => {
                self.forward(parts, call.body).await?;
                return std::future::pending().await;
            }
            CallFate::Answer(code, body) => return canned(code, body),
            CallFate::Replay => {
                if let Some(past) = self.lists.first(&call) {
                    return canned(200, past);
                }
            }
        }
        let answer = self.forward(parts, call.body.clone()).await?;
        let judge = lock(&self.event_judge).clone();
        if call.is_watch() && answer.status().is_success() && judge.is_some() {
            let resource = call.resource().to_owned();
            return Ok(answer.map(|body| Either::Left(view::judged(body, resource, judge))));
        }
        if call.is_list() && answer.status().is_success() && judged {
            let (parts, body) = answer.into_parts();
            let body = body.collect_bytes().await?;
            self.lists.remember(&call, &body);
            return Ok(Response::from_parts(parts, Either::Right(Full::new(body))));
        }
        Ok(answer.map(|body| Either::Left(body.map_err(anyhow::Error::from).boxed_unsync())))
    }

    /// Carries a mutating call to its end. The sender is dropped when the answer is to be lost.
    async fn carry(self: Arc<Self>, call: Call, parts: Parts, reply: oneshot::Sender<Answer>) {
        let verdict = if call.is_lease() { CallFate::Pass } else { (self.judge)(&call) };
        let answer = match verdict {
            CallFate::Pass | CallFate::Replay => self.pass(call, parts, UnderWay::new(&self)).await,
            CallFate::Delay(time) => {
                let under_way = UnderWay::new(&self);
                sleep(time).await;
                self.pass(call, parts, under_way).await
            }
            CallFate::Hold => match self.hold(call.clone()).await {
                Some(under_way) => self.pass(call, parts, under_way).await,
                None => return,
            },
            CallFate::Drop => return,
            CallFate::PassThenDrop => {
                return drop(self.pass(call, parts, UnderWay::new(&self)).await);
            }
            CallFate::PassThenHang => {
                drop(self.pass(call, parts, UnderWay::new(&self)).await);
                // Until the caller has given up, or the gate ends.
                let mut reply = reply;
                return reply.closed().await;
            }
            CallFate::PassThenDelay(time) => {
                let answer = self.pass(call, parts, UnderWay::new(&self)).await;
                sleep(time).await;
                answer
            }
            CallFate::Answer(code, body) => canned(code, body),
        };
        match answer {
            // A caller that is gone does not get its answer.
            Ok(answer) => drop(reply.send(answer)),
            Err(error) => warn!(error = format!("{error:#}"), "a call through the gate failed"),
        }
    }

    /// Waits for the release. `None`: the gate is gone.
    async fn hold(&self, call: Call) -> Option<UnderWay> {
        let (release, released) = oneshot::channel();
        lock(&self.held).push((call, release));
        self.holding.send_replace(());
        released.await.ok()
    }

    /// To the server and back, whole.
    async fn pass(&self, call: Call, parts: Parts, under_way: UnderWay) -> Result<Answer> {
        let answer = self.forward(parts, call.body.clone()).await?;
        let (parts, body) = answer.into_parts();
        let body = body.collect_bytes().await?;
        lock(&self.answers).push((call, parts.status.as_u16()));
        drop(under_way);
        Ok(Response::from_parts(parts, Either::Right(Full::new(body))))
    }

    async fn forward(&self, mut parts: Parts, body: Bytes) -> Result<Response<Body>> {
        // These are about one connection only, and each side has its own.
        for hop in [HOST, CONNECTION, TRANSFER_ENCODING, CONTENT_LENGTH] {
            parts.headers.remove(hop);
        }
        let request = Request::from_parts(parts, Body::from(body));
        let answer = self.client.send(request).await;
        let mut answer = answer.context("the API server is not there")?;
        for hop in [CONNECTION, TRANSFER_ENCODING, CONTENT_LENGTH] {
            answer.headers_mut().remove(hop);
        }
        Ok(answer)
    }
}

fn canned(code: u16, body: String) -> Result<Answer> {
    Response::builder()
        .status(code)
        .header(CONTENT_TYPE, "application/json")
        .body(Either::Right(Full::new(Bytes::from(body))))
        .context("not an answer")
}
