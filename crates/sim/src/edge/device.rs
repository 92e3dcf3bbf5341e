//! Plays a Linux device as the device API sees it: the original's agent, or ours.
//!
//! It does single things when it is told to, so that tests can judge each answer, or lives by itself in [`Device::run`]. It
//! runs no pods: whatever it is to run runs at once, unless a test says otherwise.

mod back_off;
mod flotta;
mod life;
mod message;
mod operations;
mod options;
mod ours;
mod state;

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_api::edge::wire::{Event, S3, UpgradeStatus, WorkloadStatus};
use tokio::sync::watch;

pub use self::message::hardware;
pub use self::operations::As;
pub use self::options::{DeviceOptions, FIELD_POLL, Manner};
use self::state::State;
use super::client::{Answer, Client, Protocol};
use super::credential::Credential;
use super::ledger::{DeviceLedger, News};
use super::operation::Operation;
use super::wire::{Wire, WireOptions};
use crate::lock;
use crate::wait::eventually;

/// Which certificate a device shows.
#[derive(Debug, Clone)]
pub enum Identity {
    /// Its own, and the registration certificate as long as it has none.
    Current,
    /// The registration certificate.
    Registration,
    /// Its own.
    Own,
    /// One of its own that it had before: 0 is the one that was replaced last.
    Older(usize),
    /// Somebody else's.
    Given(Arc<Credential>),
    /// None at all.
    Nobody,
}

/// A device. Copies of it are the same device.
#[derive(Clone)]
pub struct Device(Arc<Core>);

struct Core {
    options: DeviceOptions,
    wire: Wire,
    data: Client,
    /// Where a connection carries one request at a time: the original has two poll loops, and ours beats while a question
    /// of its is held.
    second: Client,
    state: Mutex<State>,
    ledger: Mutex<DeviceLedger>,
    /// Not from the moment it is told to disconnect.
    joined: watch::Sender<bool>,
}

impl Device {
    pub fn new(options: DeviceOptions) -> Result<Self> {
        let (ca, key) = (options.bundle.ca().clone(), options.bundle.key().clone());
        let registration = Credential::new(key, ca, options.clock.clone());
        Self::with_registration(options, registration)
    }

    /// Shares the TLS settings of registration with others.
    pub(super) fn with_registration(
        options: DeviceOptions,
        registration: Arc<Credential>,
    ) -> Result<Self> {
        let client = || Client::new(options.server, &options.server_name, options.protocol);
        let (data, second) = (client()?, client()?);
        let mut ledger = DeviceLedger::new(&options.id);
        let own = options.own.clone().map(|own| {
            ledger.came_registered();
            Credential::new(own, registration.trusted().clone(), options.clock.clone())
        });
        Ok(Self(Arc::new(Core {
            wire: Wire::new(options.wire.clone(), options.seed),
            data,
            second,
            state: Mutex::new(State::new(&options.id, registration, own, options.seed)),
            ledger: Mutex::new(ledger),
            joined: watch::Sender::new(true),
            options,
        })))
    }

    pub fn id(&self) -> &str {
        &self.0.options.id
    }

    pub fn options(&self) -> &DeviceOptions {
        &self.0.options
    }

    /// What it was told so far.
    pub fn ledger(&self) -> DeviceLedger {
        self.read(DeviceLedger::clone)
    }

    /// Looks into its ledger without copying it.
    pub fn read<T>(&self, look: impl FnOnce(&DeviceLedger) -> T) -> T {
        look(&lock(&self.0.ledger))
    }

    /// Waits until the ledger is as wished.
    pub async fn until(
        &self,
        what: &str,
        limit: Duration,
        wish: impl Fn(&DeviceLedger) -> bool,
    ) -> Result<()> {
        let waited = eventually(what, limit, async || Ok(self.read(&wish).then_some(())));
        waited.await.with_context(|| format!("{:#?}", self.ledger()))
    }

    /// Its own certificate and key, and whom it trusts.
    pub fn credential(&self) -> Option<Arc<Credential>> {
        lock(&self.0.state).own.clone()
    }

    /// The bucket that the last configuration it took over names, if it names one.
    pub fn bucket(&self) -> Option<S3> {
        lock(&self.0.state).configuration.as_ref()?.bucket.clone()
    }

    /// From now on the net is like this.
    pub fn set_wire(&self, options: WireOptions) {
        self.0.wire.set(options);
    }

    /// From now on its heartbeats say this of a workload, in Podman's words, whose word is Running otherwise.
    pub fn set_workload(&self, name: &str, status: &str) {
        let status = status.to_owned();
        self.set_workload_status(name, WorkloadStatus { status, ..WorkloadStatus::default() });
    }

    /// The same with all else that there is to say of it. The original's agent has no word for exit codes, messages and restarts.
    pub fn set_workload_status(&self, name: &str, said: WorkloadStatus) {
        let said = WorkloadStatus { name: name.to_owned(), ..said };
        lock(&self.0.state).workloads.insert(name.to_owned(), said);
    }

    /// Something happens on it. Its next heartbeat says so.
    pub fn say_event(&self, reason: &str, message: &str, type_: &str) {
        let [reason, message, type_] = [reason, message, type_].map(str::to_owned);
        lock(&self.0.state).events.push(Event { reason, message, type_ });
    }

    /// From now on its heartbeats say this of its operating system.
    pub fn set_upgrade(&self, upgrade: UpgradeStatus) {
        lock(&self.0.state).upgrade = upgrade;
    }

    /// From now on it has another name as a host.
    pub fn set_hostname(&self, hostname: &str) {
        lock(&self.0.state).mutable_hardware.hostname = hostname.to_owned();
    }

    /// After it was told to disconnect it asks to be let in again: ours is told to by hand, the original's is restarted.
    pub fn rejoin(&self) {
        self.0.joined.send_replace(true);
    }

    /// Shows another certificate for once.
    pub fn with(&self, identity: Identity) -> As<'_> {
        As { core: &self.0, identity }
    }

    fn itself(&self) -> As<'_> {
        self.with(Identity::Current)
    }

    /// Asks to be let in: 200 is not yet, 208 is yes.
    pub async fn enrol(&self) -> Result<Answer> {
        self.itself().enrol().await
    }

    /// Asks for a certificate, and takes it into use.
    pub async fn register(&self) -> Result<Answer> {
        self.itself().register().await
    }

    /// Asks for another certificate with its own, and takes it into use.
    pub async fn renew(&self) -> Result<Answer> {
        self.with(Identity::Own).renew().await
    }

    /// Says how it is.
    pub async fn heartbeat(&self) -> Result<Answer> {
        self.itself().heartbeat().await
    }

    /// Asks what it is to run, and takes that over.
    pub async fn fetch_configuration(&self) -> Result<Answer> {
        self.itself().fetch_configuration().await
    }

    /// The same, but the server is asked to hold the answer until there is something new.
    pub async fn await_configuration(&self) -> Result<Answer> {
        self.itself().await_configuration().await
    }

    /// Asks what its gateway is to do, and does it.
    pub async fn fetch_commands(&self) -> Result<Answer> {
        self.itself().fetch_commands().await
    }

    /// Its gateway says that it is there.
    pub async fn say_connection_status(&self) -> Result<Answer> {
        self.itself().say_connection_status().await
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.id()).finish()
    }
}

impl Core {
    /// The connection for it.
    fn client(&self, operation: Operation) -> &Client {
        let control = [Operation::FetchCommands, Operation::SayConnectionStatus];
        let polls = self.options.manner == Manner::Flotta && control.contains(&operation);
        if polls { self.other_client() } else { &self.data }
    }

    fn other_client(&self) -> &Client {
        if self.options.protocol == Protocol::H1 { &self.second } else { &self.data }
    }

    fn note(&self, news: impl FnOnce(&mut DeviceLedger) -> Option<News>) {
        let news = news(&mut lock(&self.ledger));
        if let (Some(listener), Some(news)) = (&self.options.news, news) {
            // Nobody listens any more: it is in the ledger all the same.
            let _ = listener.send(news);
        }
    }
}
