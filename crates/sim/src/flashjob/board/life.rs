//! A board from one start to the next: what it holds, and what goes when the power goes.

use std::net::SocketAddrV4;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_rustls::TlsConnector;
use tracing::{debug, warn};

use super::fault::{Fault, Faults};
use super::flash::FlashMemory;
use super::ledger::{BoardLedger, Boot, Update};
use super::options::BoardOptions;
use super::{http, ota, pin};
use crate::clock::now;
use crate::flashjob::esp_image::{App, Firmware, chip};

/// ESP-IDF's HTTP server lets so many callers wait.
const BACKLOG: u32 = 5;

/// What runs, and what is remembered across restarts.
#[derive(Debug)]
pub(super) struct BoardState {
    pub(super) flash: FlashMemory,
    pub(super) ledger: BoardLedger,
    pub(super) faults: Faults,
    /// The certificate for `/onboard` has been made since the last start.
    pub(super) certificate_made: bool,
    /// Sessions that came to read since the last start.
    pub(super) sessions: u32,
}

/// The parts of a board that its tasks share.
pub(super) struct Core {
    pub(super) options: BoardOptions,
    pub(super) tls: TlsConnector,
    pub(super) orders: mpsc::UnboundedSender<Order>,
    state: Mutex<BoardState>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("options", &self.options).finish_non_exhaustive()
    }
}

/// An update to be done.
#[derive(Debug, Clone)]
pub(super) struct Job {
    /// Its place in the ledger.
    pub(super) number: usize,
    pub(super) server: String,
    pub(super) faults: Vec<Fault>,
    /// Without TLS.
    pub(super) raw: bool,
}

/// What a board is told to do.
#[derive(Debug)]
pub(super) enum Order {
    Update(Job),
    /// Restart, and take this much longer than usual.
    Restart(Duration),
    /// Be off for so long; say when it is.
    Off(Duration, oneshot::Sender<()>),
}

impl Core {
    pub(super) fn new(options: BoardOptions, orders: mpsc::UnboundedSender<Order>) -> Result<Self> {
        ensure!(options.speed > 0.0, "a board's speed is {}", options.speed);
        let chip = chip(&options.device);
        let factory = Firmware::new(&options.version)
            .device(&options.device)
            .project(&options.application)
            .size(0)
            .build();
        let factory = App::read(&factory, chip).context("the factory image")?;
        let mut faults = Faults::default();
        for (fault, times) in &options.faults {
            faults.add(fault.clone(), *times);
        }
        let state = BoardState {
            flash: FlashMemory::new(factory, options.partition, chip),
            ledger: BoardLedger::new(options.mac),
            faults,
            certificate_made: false,
            sessions: 0,
        };
        let tls = TlsConnector::from(Arc::new(pin::client(&options.pinned)?));
        Ok(Self { options, tls, orders, state: Mutex::new(state) })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, BoardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes one update's record.
    pub(super) fn note(&self, job: &Job, change: impl FnOnce(&mut Update)) {
        if let Some(update) = self.state().ledger.updates.get_mut(job.number) {
            change(update);
        }
    }

    pub(super) fn version(&self) -> String {
        self.state().flash.app().map(|app| app.version.clone()).unwrap_or_default()
    }

    /// A wait of the firmware, at this board's speed.
    pub(super) async fn wait(&self, time: Duration) {
        sleep(self.scaled(time)).await;
    }

    /// A time of the firmware, at this board's speed.
    pub(super) fn scaled(&self, time: Duration) -> Duration {
        time.div_f64(self.options.speed)
    }

    /// Starts from the slot that is chosen.
    pub(super) fn boot(&self) {
        let mut state = self.state();
        let (slot, as_asked) = state.flash.boot();
        let version = state.flash.app().map(|app| app.version.clone()).unwrap_or_default();
        debug!(mac = %self.options.mac, slot, version, "a board starts");
        state.ledger.boots.push(Boot { at: now(), slot, version, fell_back: !as_asked });
        state.certificate_made = false;
        state.sessions = 0;
    }
}

/// Opens a board's HTTP port. No port is shared: a second board on the same address is a mistake of the test.
pub(super) fn listen(address: SocketAddrV4) -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    // Connections of the life before may linger in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address.into())?;
    socket.listen(BACKLOG)
}

/// Runs a board that has just been started, until it is dropped.
pub(super) async fn live(
    core: Arc<Core>,
    mut listener: TcpListener,
    mut orders: mpsc::UnboundedReceiver<Order>,
) {
    loop {
        // All of these end with the power.
        let mut tasks = JoinSet::new();
        tasks.spawn(http::serve(core.clone(), listener));
        let (dark, tell) = loop {
            tokio::select! {
                order = orders.recv() => match order {
                    None => return,
                    Some(Order::Update(job)) => {
                        tasks.spawn(ota::update(core.clone(), job));
                    }
                    Some(Order::Restart(extra)) => {
                        break (core.scaled(core.options.restart_takes + extra), None);
                    }
                    Some(Order::Off(time, tell)) => break (time, Some(tell)),
                },
                Some(_) = tasks.join_next() => {}
            }
        };
        tasks.shutdown().await;
        core.state().ledger.power_lost();
        if let Some(tell) = tell {
            let _ = tell.send(());
        }
        sleep(dark).await;
        forget_updates(&mut orders, &core);
        listener = listen_again(core.options.address).await;
        core.boot();
    }
}

/// What was ordered in the life before is forgotten, except to be off, which comes from outside.
fn forget_updates(orders: &mut mpsc::UnboundedReceiver<Order>, core: &Core) {
    let mut kept = Vec::new();
    while let Ok(order) = orders.try_recv() {
        if matches!(order, Order::Off(..)) {
            kept.push(order);
        }
    }
    for order in kept {
        let _ = core.orders.send(order);
    }
}

/// Nobody else should want this address; whoever does must let go of it some time.
async fn listen_again(address: SocketAddrV4) -> TcpListener {
    loop {
        match listen(address) {
            Ok(listener) => return listener,
            Err(error) => warn!(%address, %error, "a board cannot come back yet"),
        }
        sleep(Duration::from_millis(50)).await;
    }
}
