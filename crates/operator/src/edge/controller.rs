//! The Edge controller: one task that owns what is written about devices.
//!
//! A name is a key of the work queue: all EdgeDevices, requests for approval and tombstones of that name. One write is under
//! way for each; devices that ask for something wait behind it, and are answered from what is on record then.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use flashjob_plan::edge::devices::Entry;
use flashjob_plan::edge::duties;
use flashjob_plan::edge::request::{self, Change, Outcome, Step, Wish};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::act::Write;
use super::input::{Asked, Input, There, Unavailable, Written};
use super::shared::Shared;
use super::tombstones::{End, Flushed, Tombstones};
use crate::engine::Controller;
use crate::engine::backoff::Backoff;
use crate::engine::fair_queue::Flow;
use crate::engine::panics;
use crate::engine::pool::{Caller, Pool};
use crate::engine::queue::Queue;
use crate::engine::watch::WatchEvent;
use crate::process::clock;
use crate::process::metrics::SystemMetrics;

/// Requests for one device that may wait at a time.
const MOST_WAITING: usize = 8;
/// Conflicts in a row that are nobody's fault.
const MOST_CONFLICTS: u32 = 5;

pub struct EdgeController {
    pub shared: Arc<Shared>,
    pub inputs: mpsc::Sender<Input>,
    pub queue: Queue,
    pub pool: Pool,
    pub metrics: SystemMetrics,
    /// Our own namespace.
    pub home: String,
    pub tombstones: Tombstones,
    /// Names for which something is under way or waits.
    pub keys: HashMap<String, KeyState>,
    /// What has to be known before anything is decided: namespaces to be listed, and the two names below.
    pub unknown: HashSet<String>,
}

/// What stands in `unknown` beside namespaces. Neither is the name of one.
pub const REQUESTS: &str = "/requests";
pub const TOMBSTONES: &str = "/tombstones";

#[derive(Default)]
pub struct KeyState {
    waiting: VecDeque<Box<Asked>>,
    /// A write is under way.
    busy: bool,
    /// Its tombstone is being written, or taken away.
    burying: bool,
    backoff: Backoff,
    conflicts: u32,
    /// The CRD goes: its EdgeDevices are released, and no device is told to disconnect.
    crd_ends: bool,
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
                self.unknown.remove(TOMBSTONES);
            }
            Input::Flushed(flushed) => self.flushed(*flushed),
            Input::Tombstones => self.sweep(),
        }
    }

    fn is_ready(&self) -> bool {
        self.unknown.is_empty()
    }

    fn begin(&mut self) {
        let names: Vec<String> = self.shared.devices().names().cloned().collect();
        tracing::info!(names = names.len(), "everything is listed; devices are served");
        names.iter().for_each(|name| self.look_at(name));
        self.sweep();
        self.shared.set_ready();
    }

    fn order(&self, one: &str, other: &str) -> Ordering {
        one.cmp(other)
    }

    fn reconcile(&mut self, key: &str) -> Duration {
        let began = clock::boottime();
        let reconciled = panics::caught(|| self.reconcile_name(key));
        self.metrics.reconciled(clock::boottime().saturating_sub(began));
        if let Err(panic) = reconciled {
            self.metrics.panicked();
            tracing::error!(device = key, panic, "the reconcile of a device ended in a panic");
            self.fail(key, "the operator has made a mistake; its log has more");
        }
        Duration::ZERO
    }

    fn flow(&self, key: &str) -> Option<Flow> {
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
    fn take_device(
        &mut self,
        namespace: &str,
        event: WatchEvent<super::observe::Named<flashjob_plan::edge::facts::EdgeDeviceFacts>>,
    ) {
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
                self.unknown.remove(namespace);
            }
        }
    }

    fn take_request(
        &mut self,
        event: WatchEvent<super::observe::Named<flashjob_plan::edge::facts::SignedRequestFacts>>,
    ) {
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
                self.unknown.remove(REQUESTS);
            }
        }
    }

    /// Puts a name into the queue if there is something to do for it. Its device looks, too, if it waits for news.
    fn look_at(&mut self, name: &str) {
        self.shared.wake(name);
        let waits = self.keys.contains_key(name);
        if waits || self.duty(name).is_some() {
            self.queue.enqueue_at(name, Instant::now());
        }
    }

    fn duty(&self, name: &str) -> Option<Change> {
        let crd_ends = self.keys.get(name).is_some_and(|key| key.crd_ends);
        duties::decide(self.shared.devices().entry(name)?, &self.shared.settings, crd_ends)
    }

    fn take_asked(&mut self, asked: Box<Asked>) {
        let name = asked.request.device.as_str().to_owned();
        let key = self.keys.entry(name.clone()).or_default();
        key.waiting.retain(|asked| !asked.answer.is_closed());
        if key.waiting.len() >= MOST_WAITING {
            let why = "too many requests for this device wait already".to_owned();
            let _ = asked.answer.send(Err(Unavailable(why)));
            return;
        }
        key.waiting.push_back(asked);
        self.queue.enqueue_at(&name, Instant::now());
    }

    fn reconcile_name(&mut self, name: &str) {
        let Some(change) = self.next_change(name) else {
            let there = self.shared.devices().entry(name).is_some();
            let idle = |key: &KeyState| {
                let at_rest = !key.busy && !key.burying && key.waiting.is_empty();
                at_rest && key.backoff.until().is_none() && !(key.crd_ends && there)
            };
            if self.keys.get(name).is_some_and(idle) {
                self.keys.remove(name);
                self.queue.remove(name);
            }
            return;
        };
        let buries = matches!(change, Change::Bury { .. } | Change::DropTombstone { .. });
        let key = self.keys.entry(name.to_owned()).or_default();
        (key.busy, key.burying) = (!buries, buries);
        self.write(name, change);
    }

    /// Answers all that can be answered now, and says what has to be written next.
    fn next_change(&mut self, name: &str) -> Option<Change> {
        if let Some(key) = self.keys.get_mut(name) {
            if key.busy || key.burying {
                return None;
            }
            if let Some(until) = key.backoff.until() {
                self.queue.enqueue_at(name, until);
                return None;
            }
            let (shared, now) = (&self.shared, clock::now());
            let devices = shared.devices();
            let (empty, pending) = (Entry::default(), devices.pending());
            let entry = devices.entry(name).unwrap_or(&empty);
            while let Some(asked) = key.waiting.pop_front() {
                if asked.answer.is_closed() {
                    continue;
                }
                match request::decide(&asked.request, entry, &shared.settings, pending, now) {
                    Step::Answer(outcome) => {
                        let _ = asked.answer.send(Ok(outcome));
                    }
                    Step::Write(change) => {
                        key.waiting.push_front(asked);
                        return Some(*change);
                    }
                }
            }
        }
        self.duty(name)
    }

    fn write(&mut self, name: &str, change: Change) {
        let devices = self.shared.devices();
        let empty = Entry::default();
        let entry = devices.entry(name).unwrap_or(&empty).clone();
        drop(devices);
        let first = self.shared.settings.first_namespace().to_owned();
        let asked = self.keys.get(name).and_then(|key| key.waiting.front());
        let (hardware, model) =
            asked.map(|asked| (asked.hardware.clone(), asked.model.clone())).unwrap_or_default();
        match change {
            Change::CreateDevice(new) => {
                let write = self.start(name, &new.namespace);
                self.spawn(name, write.create_device(new));
            }
            Change::PatchDevice { namespace, patch } => {
                let Some(device) = entry.device(&namespace).cloned() else {
                    return self.done(name);
                };
                let write = self.start(name, &namespace);
                self.spawn(name, async move { write.patch_device(&device, patch).await });
            }
            Change::Hardware { namespace } => {
                let (Some(device), Some(hardware)) = (entry.device(&namespace).cloned(), hardware)
                else {
                    return self.done(name);
                };
                let write = self.start(name, &namespace);
                self.spawn(name, async move { write.hardware(&device, &hardware).await });
            }
            Change::CreateRequest { namespace } => {
                let write = self.start(name, &first);
                self.spawn(
                    name,
                    async move { write.create_request(&namespace, hardware, model).await },
                );
            }
            Change::RequestStatus { phase, message } => {
                let Some(request) = entry.signed_request else { return self.done(name) };
                let write = self.start(name, &first);
                self.spawn(
                    name,
                    async move { write.request_status(&request, phase, message).await },
                );
            }
            Change::DeleteRequest => {
                let Some(request) = entry.signed_request else { return self.done(name) };
                let write = self.start(name, &first);
                self.spawn(name, async move { write.delete_request(&request).await });
            }
            Change::Bury { namespace } => {
                let Some(device) = entry.device(&namespace) else { return self.done(name) };
                let settings = &self.shared.settings;
                self.tombstones.put(duties::tombstone(name, device, settings, clock::now()));
                self.flush();
            }
            Change::DropTombstone { namespace } => {
                self.tombstones.remove(&namespace, name);
                self.flush();
            }
        }
    }

    /// There was nothing to write after all.
    fn done(&mut self, name: &str) {
        if let Some(key) = self.keys.get_mut(name) {
            (key.busy, key.burying) = (false, false);
        }
        self.queue.enqueue_at(name, Instant::now());
    }

    fn start(&self, name: &str, namespace: &str) -> Write {
        let caller = self.caller(name, namespace);
        let (name, namespace) = (name.to_owned(), namespace.to_owned());
        Write { caller, name, namespace, now: clock::now() }
    }

    fn caller(&self, name: &str, namespace: &str) -> Caller {
        let flow = Flow { namespace: namespace.to_owned(), key: name.to_owned() };
        let retry = self.keys.get(name).is_some_and(|key| key.backoff.has_failed());
        self.pool.caller(flow, retry)
    }

    fn spawn(&self, name: &str, write: impl Future<Output = Written> + Send + 'static) {
        let (name, inputs) = (name.to_owned(), self.inputs.clone());
        tokio::spawn(async move {
            let written = write.await;
            // Nobody listens any more when the process ends.
            let _ = inputs.send(Input::Written(name, Box::new(written))).await;
        });
    }

    fn written(&mut self, name: &str, written: Written) {
        let mut devices = self.shared.change();
        let went_back = written.error.as_ref().and_then(|error| error.went_back);
        match written.there {
            There::Device(_, Some(device)) => match went_back {
                Some(tried) => devices.went_back(name, tried, *device),
                None => devices.wrote_device(name, *device),
            },
            There::Device(namespace, None) => devices.no_device(name, &namespace),
            There::Request(Some(request)) => devices.see_request(name, request),
            There::Request(None) => devices.lose_request(name, None),
        }
        drop(devices);
        self.shared.wake(name);
        let key = self.keys.entry(name.to_owned()).or_default();
        key.busy = false;
        match written.error {
            None => {
                key.backoff.succeeded();
                key.conflicts = 0;
            }
            Some(error) if error.hardware => {
                tracing::warn!(
                    device = name,
                    error = error.message,
                    "what a device is made of could not be written"
                );
                if let Some(asked) = key.waiting.front_mut()
                    && let Wish::Registration(wish) = &mut asked.request.wish
                {
                    wish.hardware = None;
                }
            }
            Some(error) if error.conflict && key.conflicts < MOST_CONFLICTS => key.conflicts += 1,
            Some(error) => {
                tracing::warn!(device = name, error = error.message, "a write for a device failed");
                self.fail(name, &format!("the cluster does not take it: {}", error.message));
            }
        }
        self.queue.enqueue_at(name, Instant::now());
    }

    /// Whoever waits is told why, and comes again by itself; what is not asked for is tried again after a pause.
    fn fail(&mut self, name: &str, why: &str) {
        let key = self.keys.entry(name.to_owned()).or_default();
        key.busy = false;
        let again = key.backoff.failed();
        for asked in key.waiting.drain(..) {
            let _ = asked.answer.send(Err(Unavailable(why.to_owned())));
        }
        self.queue.enqueue_at(name, again);
    }

    fn disconnected(&mut self, name: &str, namespace: &str) {
        let mut devices = self.shared.change();
        let tombstone = devices.entry(name).and_then(|entry| entry.tombstone(namespace));
        let Some(mut tombstone) = tombstone.filter(|t| t.fetched.is_none()).cloned() else {
            return;
        };
        tombstone.fetched = Some(clock::now());
        devices.put_tombstone(tombstone.clone());
        drop(devices);
        self.shared.metrics.disconnected();
        tracing::info!(device = name, namespace, "a deleted device was told to disconnect");
        self.tombstones.put(tombstone);
        self.flush();
    }

    /// Writes tombstones that wait for it.
    fn flush(&mut self) {
        let Some(flush) = self.tombstones.next() else { return };
        let caller = self.caller(TOMBSTONES, &self.home);
        let (home, inputs) = (self.home.clone(), self.inputs.clone());
        tokio::spawn(async move {
            let flushed = flush.send(&caller, &home).await;
            let _ = inputs.send(Input::Flushed(Box::new(flushed))).await;
        });
    }

    fn flushed(&mut self, flushed: Flushed) {
        if let Some((end, changes)) = self.tombstones.flushed(flushed) {
            for ((namespace, name), change) in changes {
                let mut devices = self.shared.change();
                match (end, change) {
                    (End::Written, Some(tombstone)) => devices.put_tombstone(tombstone),
                    (End::Written, None) => devices.drop_tombstone(&name, &namespace),
                    (End::CrdEnds, _) => {
                        tracing::warn!(
                            device = name,
                            "the CRD of EdgeDevices is being deleted: this one is let go, and its device is not disconnected"
                        );
                        self.keys.entry(name.clone()).or_default().crd_ends = true;
                    }
                }
                drop(devices);
                if let Some(key) = self.keys.get_mut(&name) {
                    key.burying = false;
                }
                self.look_at(&name);
            }
        }
        match self.tombstones.pause() {
            Some(at) => self.later(at),
            None => self.flush(),
        }
    }

    fn later(&self, at: Instant) {
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            let _ = inputs.send(Input::Tombstones).await;
        });
    }

    /// Tombstones that have done their work go.
    fn sweep(&mut self) {
        let now = clock::now();
        let devices = self.shared.devices();
        for tombstone in devices.tombstones().filter(|tombstone| tombstone.is_over(now)) {
            self.tombstones.remove(&tombstone.namespace, &tombstone.name);
        }
        drop(devices);
        self.flush();
    }
}

/// What a device is told when nothing has to be written for it.
pub fn outcome_without_write(
    shared: &Shared,
    request: &request::DeviceRequest,
    now: jiff::Timestamp,
) -> Option<Outcome> {
    let devices = shared.devices();
    let empty = Entry::default();
    let entry = devices.entry(request.device.as_str()).unwrap_or(&empty);
    match request::decide(request, entry, &shared.settings, devices.pending(), now) {
        Step::Answer(outcome) => Some(outcome),
        Step::Write(_) => None,
    }
}
