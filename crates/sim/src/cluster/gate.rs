//! A network one can hold, put between one program and the API server.
//!
//! It is plain HTTP on a loopback port in front and TLS to the API server behind; tokens pass through, watches stream.
//! Each mutating call is read whole and then judged by the test: it may pass, wait, get lost, or lose its answer. From
//! the moment it is judged a call is on the wire: it reaches the API server even when its caller is dead by then,
//! which is how a late write of a dead leader is made. Reads, and every event of a watch, are judged when a test asks for
//! it: lists may be those of the past, and a watch may lag, lose an event, or be told that the past is gone. It differs
//! from a real network in that calls and events are whole: none is ever cut in two.

mod call;
mod view;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use self::call::Call;
pub use self::view::{Event, EventFate};
use self::wire::{UnderWay, Wire};
use crate::cluster::Cluster;
use crate::lock;

/// What happens to a call.
pub enum CallFate {
    /// It goes through, and its answer comes back.
    Pass,
    /// It waits until [`Gate::release`].
    Hold,
    /// It gets lost: the connection is closed and the server never sees it.
    Drop,
    /// The server does it, and the answer gets lost.
    PassThenDrop,
    /// The server does it, and the answer never comes: the connection stays open and says nothing.
    PassThenHang,
    /// The server does it, and the answer comes this much later.
    PassThenDelay(Duration),
    /// The server never sees it; this status and body come back.
    Answer(u16, String),
    /// It goes through this much later.
    Delay(Duration),
    /// A list is answered as it was when it was asked for the first time; anything else passes.
    Replay,
}

/// What a test thinks of a call.
type Judge = dyn Fn(&Call) -> CallFate + Send + Sync;
/// What a test thinks of an event.
type EventJudge = dyn Fn(&Event) -> EventFate + Send + Sync;

/// A running gate. It stops when dropped, and calls that were held are lost.
pub struct Gate {
    wire: Arc<Wire>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Gate {
    /// Opens a gate to the cluster, on the current runtime. `judge` is asked for every mutating call that is not about
    /// a Lease, before it is forwarded.
    pub async fn start(
        cluster: &Cluster,
        judge: impl Fn(&Call) -> CallFate + Send + Sync + 'static,
    ) -> Result<Self> {
        let wire = Arc::new(Wire::new(cluster, Arc::new(judge))?);
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.context("no port for the gate")?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(wire::accept(listener, wire.clone()));
        Ok(Self { wire, address, task })
    }

    /// The address to give to the program, for example by [`Cluster::kubeconfig`].
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on reads (watches included) are judged too, except those of Leases.
    pub fn judge_reads(&self, judge: impl Fn(&Call) -> CallFate + Send + Sync + 'static) {
        *lock(&self.wire.read_judge) = Some(Arc::new(judge));
    }

    /// From now on every event of a watch is judged before it comes through.
    pub fn judge_events(&self, judge: impl Fn(&Event) -> EventFate + Send + Sync + 'static) {
        *lock(&self.wire.event_judge) = Some(Arc::new(judge));
    }

    /// All mutating calls seen, in order. Those about Leases have number 0.
    pub fn calls(&self) -> Vec<Call> {
        lock(&self.wire.calls).clone()
    }

    /// The mutating calls the server has answered, with the HTTP status, in the order of the answers.
    pub fn answers(&self) -> Vec<(Call, u16)> {
        lock(&self.wire.answers).clone()
    }

    /// Waits until a call is held, and returns the first of them.
    pub async fn held(&self) -> Call {
        let mut holding = self.wire.holding.subscribe();
        loop {
            if let Some((call, _)) = lock(&self.wire.held).first() {
                return call.clone();
            }
            // The sender is ours, so the wait cannot fail.
            let _ = holding.changed().await;
        }
    }

    /// Lets the held calls go on to the server, whether or not their callers still live.
    pub fn release(&self) {
        for (_, release) in lock(&self.wire.held).drain(..) {
            // Counted from here, so that a `settled` right after this waits for it.
            let _ = release.send(UnderWay::new(&self.wire));
        }
    }

    /// Waits until every mutating call that went to the server has been answered. Held ones are not waited for.
    pub async fn settled(&self) {
        let mut under_way = self.wire.under_way.subscribe();
        let _ = under_way.wait_for(|count| *count == 0).await;
    }

    /// Takes the program off the network: every connection is closed, now and from now on. What is held stays held,
    /// and what is on its way arrives.
    pub fn cut(&self) {
        self.wire.cut.send_replace(true);
    }

    /// Puts the program back on the network.
    pub fn mend(&self) {
        self.wire.cut.send_replace(false);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
        lock(&self.wire.held).clear();
    }
}
