//! Plays an ESP32 board with the original's firmware (esp32-akri and ota-service), on a loopback address.
//!
//! It is told over HTTP where to fetch its firmware, calls there with TLS 1.2, shows its DICE certificate, reads until
//! the end, checks the image and restarts with it; or keeps the old one and tells nobody. Oddities that matter are
//! played too: one request at a time, an `/info` cut at its buffer, updates that run into each other, a reset that is
//! noticed late, and a second session in one boot that has less patience than the first.
//!
//! It differs in that a board that is off refuses connections at once (a real one is silent), that its handshakes are
//! fast, and that firmware decides only its version: device and application stay as they were.

mod dice;
mod fault;
mod flash;
mod http;
mod ledger;
mod life;
mod options;
mod ota;
mod pages;
mod pin;
mod session;

use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

pub use self::dice::{Identity, MacAddress};
pub use self::fault::{Fault, Times};
pub use self::ledger::{BoardLedger, Boot, SessionEnd, Update};
use self::life::{Core, Order};
pub use self::options::{BoardOptions, OTA_PORT};
pub use self::pin::SERVER_NAME;
use crate::wait::eventually;

/// A running board. It stops when dropped.
#[derive(Debug)]
pub struct Board {
    core: Arc<Core>,
    task: JoinHandle<()>,
}

impl Board {
    /// Starts a board on the current runtime. Its HTTP server listens when this returns.
    pub async fn start(mut options: BoardOptions) -> Result<Self> {
        let listener = life::listen(options.address)
            .with_context(|| format!("a board cannot listen on {}", options.address))?;
        options.address.set_port(listener.local_addr()?.port());
        let (orders, receiver) = mpsc::unbounded_channel();
        let core = Arc::new(Core::new(options, orders)?);
        core.boot();
        let task = tokio::spawn(life::live(core.clone(), listener, receiver));
        Ok(Self { core, task })
    }

    /// Where its HTTP server is.
    pub fn address(&self) -> SocketAddrV4 {
        self.core.options.address
    }

    /// Its HTTP server as a FlashJob's `hostEndpoint` names it.
    pub fn endpoint(&self) -> String {
        self.address().to_string()
    }

    /// What it says it is.
    pub fn device(&self) -> &str {
        &self.core.options.device
    }

    /// Its MAC address.
    pub fn mac(&self) -> MacAddress {
        self.core.options.mac
    }

    /// Its DICE certificates.
    pub fn identity(&self) -> Result<Identity> {
        Identity::of(self.mac())
    }

    /// The version it runs, or will run when it is back.
    pub fn version(&self) -> String {
        self.core.version()
    }

    /// What it has lived through so far.
    pub fn ledger(&self) -> BoardLedger {
        self.core.state().ledger.clone()
    }

    /// Waits until the ledger is as wished.
    pub async fn until(
        &self,
        what: &str,
        limit: Duration,
        wish: impl Fn(&BoardLedger) -> bool,
    ) -> Result<BoardLedger> {
        let waited = eventually(what, limit, async || {
            let ledger = self.ledger();
            Ok(wish(&ledger).then_some(ledger))
        });
        waited.await.with_context(|| format!("board {}: {:#?}", self.mac(), self.ledger()))
    }

    /// From now on this goes wrong too.
    pub fn inject(&self, fault: Fault, times: Times) {
        self.core.state().faults.add(fault, times);
    }

    /// From now on nothing goes wrong.
    pub fn heal(&self) {
        self.core.state().faults.clear();
    }

    /// Switches it off for so long, at any speed. It is off when this returns.
    pub async fn switch_off(&self, time: Duration) {
        self.switch().off(time).await;
    }

    /// Its switch, for a task of its own.
    pub fn switch(&self) -> Switch {
        Switch(self.core.clone())
    }
}

/// Switches a board off.
#[derive(Debug, Clone)]
pub struct Switch(Arc<Core>);

impl Switch {
    /// For so long, at any speed. It is off when this returns.
    pub async fn off(&self, time: Duration) {
        let (off, is_off) = oneshot::channel();
        // An error means that the board is gone, and then it is off as well.
        let _ = self.0.orders.send(Order::Off(time, off));
        let _ = is_off.await;
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        self.task.abort();
    }
}
