//! The Edge controller: one task that owns what is written about devices and workloads.
//!
//! A name is a key of the work queue: all EdgeDevices, requests for approval and tombstones of that name. One write is under
//! way for each; devices that ask for something wait behind it, and are answered from what is on record then. Statuses have
//! writes of their own beside these. Workloads are keys, too.

mod absent;
mod beats;
mod burials;
mod device;
mod requests;
mod sets;
mod status;
mod storage;
mod workloads;

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use flashjob_plan::edge::configuration::{Fragment, Lack};
use flashjob_plan::edge::facts::{EdgeDeviceFacts, SignedRequestFacts};
use flashjob_plan::edge::heartbeat::events::EventLimits;
use flashjob_plan::edge::heartbeat::flips::Flips;
use flashjob_plan::edge::heartbeat::liveness::Liveness;
use flashjob_plan::edge::heartbeat::roll::Roll;
use flashjob_plan::edge::sets::{SetKind, Sets};
use flashjob_plan::edge::storage::StorageSettings;
use flashjob_plan::edge::workloads::absent::Absent;
use flashjob_plan::edge::workloads::{WorkloadKind, Workloads};
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::claims::Claims;
use super::input::Input;
use super::observe::Named;
use super::shared::Shared;
use super::sources::{SourceKind, Sources};
use super::tombstones::{Place, Tombstones};
use crate::engine::Controller;
use crate::engine::fair_queue::Flow;
use crate::engine::panics;
use crate::engine::pool::Pool;
use crate::engine::queue::Queue;
use crate::engine::watch::WatchEvent;
use crate::process::clock;
use crate::process::metrics::SystemMetrics;

use absent::Recording;
pub use absent::WORKLOAD_CRDS;
pub use burials::TOMBSTONES;
use device::DeviceState;
use requests::KeyState;
pub use requests::outcome_without_write;
pub use workloads::WorkloadKey;
use workloads::{WorkloadRecord, queue_key, workload_of};

/// What it works with.
pub struct Surroundings {
    pub shared: Arc<Shared>,
    /// How buckets are claimed.
    pub storage: StorageSettings,
    pub inputs: mpsc::Sender<Input>,
    pub pool: Pool,
    pub metrics: SystemMetrics,
    /// Our own namespace.
    pub home: String,
}

pub struct EdgeController {
    shared: Arc<Shared>,
    inputs: mpsc::Sender<Input>,
    pool: Pool,
    metrics: SystemMetrics,
    home: String,
    queue: Queue,
    /// When this process began to serve all devices.
    started: Timestamp,
    /// When it was counted last what devices lack.
    surveyed: Option<Instant>,
    /// What is not known yet, so that less is decided than will be.
    unlisted: HashSet<Unlisted>,
    /// Names for which something is under way or waits.
    keys: HashMap<String, KeyState>,
    tombstones: Tombstones,
    /// Of each EdgeDevice that is not about to go. Boxed: a table of so many has as much again of free places.
    states: HashMap<Place, Box<DeviceState>>,
    workloads: Workloads,
    absent: Absent,
    recording: Recording,
    records: HashMap<WorkloadKey, WorkloadRecord>,
    /// The devices that a workload is for, by namespace and name.
    members: HashMap<(String, String), BTreeSet<String>>,
    /// Workloads as they are sent, by namespace and name.
    fragments: HashMap<(String, String), Result<Arc<Fragment>, Lack>>,
    sets: Sets,
    sources: Sources,
    storage: StorageSettings,
    claims: Claims,
    event_limits: EventLimits,
    flips: Flips,
    roll: Roll,
    /// A shard of the roll is being written.
    roll_busy: bool,
    /// What the roll says of devices that were not looked at yet.
    remembered: HashMap<String, Liveness>,
}

/// What has to be listed at the start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Unlisted {
    /// The EdgeDevices of this namespace.
    Devices(String),
    Requests,
    Tombstones,
    Workloads(WorkloadKind, String),
    Sets(SetKind, String),
    Sources(SourceKind, String),
    /// The ObjectBucketClaims of all namespaces, or that the cluster has none.
    Claims,
    /// The Route to the server of buckets, or that there is none.
    Route,
    Roll,
    /// The record of CRDs.
    Crds,
}

impl Controller for EdgeController {
    type Input = Input;

    fn take(&mut self, input: Input) {
        match input {
            Input::Device(namespace, event) => self.take_device(&namespace, event),
            Input::Request(event) => self.take_request(event),
            Input::Asked(asked) => self.take_asked(asked),
            Input::Disconnected { name, namespace } => self.disconnected(&name, &namespace),
            Input::Written(name, written) => self.written(&name, *written),
            Input::TombstonesLoaded(loaded) => {
                self.tombstones.load(&loaded);
                let mut devices = self.shared.change();
                loaded.tombstones.into_iter().for_each(|t| devices.put_tombstone(t));
                drop(devices);
                self.known(Unlisted::Tombstones);
            }
            Input::Flushed(flushed) => self.flushed(*flushed),
            Input::Tombstones => self.sweep(),
            Input::Workload(kind, namespace, event) => self.take_workload(kind, &namespace, event),
            Input::WorkloadLeft(facts, crd) => self.workload_left(&facts, crd.as_ref()),
            Input::CrdLooked { kind, listed, crd } => self.crd_looked(kind, listed, crd),
            Input::CrdsLoaded(record) => self.crds_loaded(&record),
            Input::CrdsRecorded(written) => self.crds_recorded(written),
            Input::WorkloadWritten(key, written) => self.workload_written(&key, written),
            Input::Set(kind, namespace, event) => self.take_set(kind, &namespace, event),
            Input::Source(kind, namespace, event) => self.take_source(kind, &namespace, event),
            Input::HasClaims(there) => self.has_claims(there),
            Input::Claim(namespace, event) => self.take_claim(&namespace, event),
            Input::ClaimMade(place, made) => self.claim_made(&place, made),
            Input::Route(route) => self.take_route(route),
            Input::SourceRead(read) => self.source_read(*read),
            Input::SourceAgain(source) => self.source_again(&source),
            Input::Heartbeat(heartbeat) => self.heartbeat(*heartbeat),
            Input::DeviceStatus(place, written) => self.status_written(&place, *written),
            Input::RollLoaded(loaded) => self.roll_loaded(&loaded),
            Input::RollWritten(shard, written) => self.roll_written(shard, written),
            Input::Tick if self.all_is_listed() => self.tick(),
            Input::Tick => self.wait_no_longer_for_buckets(),
        }
    }

    /// All that configurations are made of was listed. The EdgeDevices need not be, which may be very many: each is served as
    /// soon as it was listed. Nothing is written before all of them were.
    fn is_ready(&self) -> bool {
        self.unlisted.iter().all(|unlisted| matches!(unlisted, Unlisted::Devices(_)))
    }

    fn begin(&mut self) {
        tracing::info!("workloads and sets are listed; devices are served as they are listed");
        self.shared.set_serving();
    }

    fn order(&self, one: &str, other: &str) -> Ordering {
        one.cmp(other)
    }

    fn reconcile(&mut self, key: &str) -> Duration {
        let began = clock::boottime();
        let reconciled = panics::caught(|| match workload_of(key) {
            Some(workload) => self.reconcile_workload(&workload),
            None => self.reconcile_name(key),
        });
        self.metrics.reconciled(clock::boottime().saturating_sub(began));
        if let Err(panic) = reconciled {
            self.metrics.panicked();
            tracing::error!(key, panic, "a reconcile ended in a panic");
            self.fail(key, "the operator has made a mistake; its log has more");
        }
        Duration::ZERO
    }

    fn flow(&self, key: &str) -> Option<Flow> {
        if let Some((_, namespace, _)) = workload_of(key) {
            return Some(Flow { namespace, key: key.to_owned() });
        }
        let devices = self.shared.devices();
        let namespace = devices.entry(key).and_then(|entry| entry.devices.first());
        let namespace = namespace.map(|device| device.namespace.as_str());
        let namespace = namespace.unwrap_or(self.shared.settings.first_namespace()).to_owned();
        Some(Flow { namespace, key: key.to_owned() })
    }

    fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }

    fn pool(&self) -> &Pool {
        &self.pool
    }
}

impl EdgeController {
    pub fn new(surroundings: Surroundings) -> Self {
        let Surroundings { shared, storage, inputs, pool, metrics, home } = surroundings;
        let mut unlisted = HashSet::from([
            Unlisted::Requests,
            Unlisted::Tombstones,
            Unlisted::Roll,
            Unlisted::Claims,
            Unlisted::Crds,
        ]);
        if storage.server.address.is_none() {
            unlisted.insert(Unlisted::Route);
        }
        for namespace in &shared.settings.namespaces {
            let here = || namespace.clone();
            unlisted.insert(Unlisted::Devices(here()));
            unlisted.extend(WorkloadKind::ALL.map(|kind| Unlisted::Workloads(kind, here())));
            unlisted.extend(SetKind::ALL.map(|kind| Unlisted::Sets(kind, here())));
            unlisted.extend(SourceKind::ALL.map(|kind| Unlisted::Sources(kind, here())));
        }
        let started = shared.beats.now();
        Self {
            shared,
            inputs,
            pool,
            metrics,
            home,
            queue: Queue::default(),
            started,
            surveyed: None,
            unlisted,
            keys: HashMap::new(),
            tombstones: Tombstones::default(),
            states: HashMap::new(),
            workloads: Workloads::default(),
            absent: Absent::default(),
            recording: Recording::default(),
            records: HashMap::new(),
            members: HashMap::new(),
            fragments: HashMap::new(),
            sets: Sets::default(),
            sources: Sources::default(),
            storage,
            claims: Claims::default(),
            event_limits: EventLimits::default(),
            flips: Flips::default(),
            roll: Roll::default(),
            roll_busy: false,
            remembered: HashMap::new(),
        }
    }

    /// This was listed.
    fn known(&mut self, listed: Unlisted) {
        if self.unlisted.remove(&listed) && self.all_is_listed() {
            self.go_to_work();
        }
    }

    fn all_is_listed(&self) -> bool {
        self.unlisted.is_empty()
    }

    /// Everything is known: from here on is written, too.
    fn go_to_work(&mut self) {
        let names: Vec<String> = self.shared.devices().names().cloned().collect();
        tracing::info!(names = names.len(), "everything is listed");
        let workloads: Vec<_> = self.records.keys().map(queue_key).collect();
        let now = Instant::now();
        names.iter().chain(&workloads).for_each(|key| self.queue.enqueue_at(key, now));
        self.forget_the_gone();
        self.sweep();
        self.account_for_labels();
        // Not everybody could be heard before.
        self.started = self.shared.beats.now();
        self.shared.set_ready();
    }

    /// Puts a name into the queue. Its device looks, too, if it waits for news.
    fn look_at(&mut self, name: &str) {
        self.shared.wake(name);
        self.queue.enqueue_at(name, Instant::now());
    }

    fn take_device(&mut self, namespace: &str, event: WatchEvent<Named<EdgeDeviceFacts>>) {
        match event {
            WatchEvent::Listing => self.shared.change().begin_devices(namespace),
            WatchEvent::There(device) => {
                let (name, facts) = *device;
                self.shared.change().see_device(&name, facts);
                self.look_at(&name);
            }
            WatchEvent::Left(device) => {
                let (name, facts) = *device;
                self.shared.change().lose_device(&name, namespace, &facts.uid);
                self.look_at(&name);
            }
            WatchEvent::Synced => {
                let gone = self.shared.change().end_devices(namespace);
                gone.iter().for_each(|name| self.look_at(name));
                self.known(Unlisted::Devices(namespace.to_owned()));
            }
        }
    }

    fn take_request(&mut self, event: WatchEvent<Named<SignedRequestFacts>>) {
        match event {
            WatchEvent::Listing => self.shared.change().begin_requests(),
            WatchEvent::There(request) => {
                let (name, facts) = *request;
                self.shared.change().see_request(&name, facts);
                self.look_at(&name);
            }
            WatchEvent::Left(request) => {
                let (name, facts) = *request;
                self.shared.change().lose_request(&name, Some(&facts.uid));
            }
            WatchEvent::Synced => {
                self.shared.change().end_requests();
                self.known(Unlisted::Requests);
            }
        }
    }
}
