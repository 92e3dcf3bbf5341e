//! What devices ask for, and what is to be done for a name when nobody asks: one write at a time for each name.

use std::collections::VecDeque;

use flashjob_plan::edge::devices::Entry;
use flashjob_plan::edge::duties;
use flashjob_plan::edge::facts::EdgeDeviceFacts;
use flashjob_plan::edge::request::{self, Change, DevicePatch, Outcome, Step, Wish};
use flashjob_plan::edge::workloads::references;
use tokio::time::Instant;

use super::EdgeController;
use crate::edge::act::Write;
use crate::edge::input::{Asked, Input, There, Unavailable, Written};
use crate::edge::shared::Shared;
use crate::edge::tombstones::Place;
use crate::engine::backoff::Backoff;
use crate::engine::fair_queue::Flow;
use crate::engine::pool::Caller;
use crate::process::clock;

/// Requests for one device that may wait at a time.
const MOST_WAITING: usize = 8;
/// Conflicts in a row that are nobody's fault.
const MOST_CONFLICTS: u32 = 5;

/// A name for which something is under way or waits.
#[derive(Default)]
pub struct KeyState {
    waiting: VecDeque<Box<Asked>>,
    /// A write is under way.
    busy: bool,
    /// Its tombstone is being written, or taken away.
    pub burying: bool,
    backoff: Backoff,
    conflicts: u32,
    /// The CRD goes: its EdgeDevices are released, and no device is told to disconnect.
    pub crd_ends: bool,
}

impl EdgeController {
    fn duty(&self, name: &str) -> Option<Change> {
        let crd_ends = self.keys.get(name).is_some_and(|key| key.crd_ends);
        let devices = self.shared.devices();
        let entry = devices.entry(name)?;
        let duty = duties::decide(entry, &self.shared.settings, crd_ends);
        duty.or_else(|| entry.devices.iter().find_map(|device| self.refer(name, device)))
    }

    /// Which workloads a device runs stands in its labels, before it is sent them.
    fn refer(&self, name: &str, device: &EdgeDeviceFacts) -> Option<Change> {
        let namespace = device.namespace.clone();
        let state = self.states.get(&(namespace.clone(), name.to_owned()))?;
        let labels = references(&device.labels, state.references.iter().map(String::as_str))?;
        let patch = DevicePatch { labels, ..DevicePatch::default() };
        Some(Change::PatchDevice { namespace, patch })
    }

    pub(super) fn take_asked(&mut self, asked: Box<Asked>) {
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

    pub(super) fn reconcile_name(&mut self, name: &str) {
        let devices = self.look_at_devices(name);
        if !self.all_is_listed() {
            return;
        }
        self.reconcile_requests(name);
        for (place, device) in &devices {
            self.tell(place, device);
        }
    }

    /// Works out what the devices of this name are to have.
    pub(super) fn look_at_devices(&mut self, name: &str) -> Vec<(Place, EdgeDeviceFacts)> {
        let all = self.shared.devices().entry(name).map(|entry| entry.devices.clone());
        let mut devices = all.unwrap_or_default();
        devices.retain(|device| !device.being_deleted);
        for namespace in self.shared.settings.namespaces.clone() {
            let place = (namespace, name.to_owned());
            let is_there = devices.iter().any(|device| device.namespace == place.0);
            if !is_there && self.states.contains_key(&place) {
                self.forget_device(&place);
            }
        }
        let place = |device: EdgeDeviceFacts| ((device.namespace.clone(), name.to_owned()), device);
        let devices: Vec<_> = devices.into_iter().map(place).collect();
        devices.iter().for_each(|(place, device)| self.configure(place, device));
        devices
    }

    fn reconcile_requests(&mut self, name: &str) {
        let Some(change) = self.next_change(name) else {
            let there = self.shared.devices().entry(name).is_some();
            let idle = |key: &KeyState| {
                let at_rest = !key.busy && !key.burying && key.waiting.is_empty();
                at_rest && key.backoff.until().is_none() && !(key.crd_ends && there)
            };
            if self.keys.get(name).is_some_and(idle) {
                self.keys.remove(name);
                // A device may have its turn later: for its claim, or its status.
                if !there {
                    self.queue.remove(name);
                }
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

    pub(super) fn start(&self, name: &str, namespace: &str) -> Write {
        let caller = self.caller(name, namespace);
        let (name, namespace) = (name.to_owned(), namespace.to_owned());
        Write { caller, name, namespace, now: clock::now() }
    }

    pub(super) fn caller(&self, name: &str, namespace: &str) -> Caller {
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

    /// What is there after a write.
    pub(super) fn take_there(&mut self, name: &str, there: There, went_back: Option<u64>) {
        let mut devices = self.shared.change();
        match there {
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
    }

    pub(super) fn written(&mut self, name: &str, written: Written) {
        let went_back = written.error.as_ref().and_then(|error| error.went_back);
        self.take_there(name, written.there, went_back);
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
    pub(super) fn fail(&mut self, name: &str, why: &str) {
        let key = self.keys.entry(name.to_owned()).or_default();
        key.busy = false;
        let again = key.backoff.failed();
        for asked in key.waiting.drain(..) {
            let _ = asked.answer.send(Err(Unavailable(why.to_owned())));
        }
        self.queue.enqueue_at(name, again);
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
