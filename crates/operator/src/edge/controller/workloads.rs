//! What users want to run: what follows for devices when a workload, a set, a Secret or a ConfigMap has changed, and what the
//! status of a workload says.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flashjob_plan::edge::configuration::{Needs, WorkloadInput, fragment};
use flashjob_plan::edge::labels;
use flashjob_plan::edge::workloads::absent::{CrdFacts, went_with_its_crd};
use flashjob_plan::edge::workloads::{
    Change, Seen, Tally, WorkloadFacts, WorkloadKind, refused_status, released,
};
use serde_json::Value;
use tokio::time::Instant;

use super::absent::WORKLOAD_CRDS;
use super::{EdgeController, Unlisted};
use crate::edge::act::WorkloadWrite;
use crate::edge::input::Input;
use crate::edge::observe::SeenWorkload;
use crate::edge::sources::{Consequences, Owner, Source, SourceKind, SourceRead};
use crate::edge::tombstones::Place;
use crate::edge::workload_crds;
use crate::engine::status::{Throttle, difference};
use crate::engine::watch::WatchEvent;
use crate::process::clock;

/// From the answer to one write of a workload's status to the next.
const PAUSE: Duration = Duration::from_secs(5);
/// From an edit to the first status of it.
const LOOK_FIRST: Duration = Duration::from_millis(250);
/// What the keys of workloads begin with in the work queue.
const KEY: &str = "/workload/";

/// Kind, namespace and name.
pub type WorkloadKey = (WorkloadKind, String, String);

/// What is kept of a workload beside what it is.
#[derive(Default)]
pub struct WorkloadRecord {
    /// Its status as it is, whoever wrote it.
    status: Value,
    throttle: Throttle,
}

/// A workload as a key of the work queue.
pub fn queue_key((kind, namespace, name): &WorkloadKey) -> String {
    format!("{KEY}{kind}/{namespace}/{name}")
}

/// The workload of such a key.
pub fn workload_of(key: &str) -> Option<WorkloadKey> {
    let mut parts = key.strip_prefix(KEY)?.splitn(3, '/');
    let kind = parts.next()?;
    let kind = WorkloadKind::ALL.into_iter().find(|known| known.kind() == kind)?;
    Some((kind, parts.next()?.to_owned(), parts.next()?.to_owned()))
}

impl EdgeController {
    pub(super) fn take_workload(
        &mut self,
        kind: WorkloadKind,
        namespace: &str,
        event: WatchEvent<Box<SeenWorkload>>,
    ) {
        match event {
            WatchEvent::Listing => self.workloads.begin(kind, namespace),
            WatchEvent::There(seen) => self.see_workload(*seen),
            WatchEvent::Left(seen) => self.confirm_end(seen.facts),
            WatchEvent::Synced => {
                let missing = self.workloads.end(kind, namespace);
                missing.into_iter().for_each(|facts| self.confirm_end(facts));
                if self.unlisted.contains(&Unlisted::Workloads(kind, namespace.to_owned())) {
                    self.look_at_crd(kind, Some(namespace.to_owned()));
                }
            }
        }
    }

    pub(super) fn see_workload(&mut self, seen: SeenWorkload) {
        let SeenWorkload { facts, status } = seen;
        let key = (facts.kind, facts.namespace.clone(), facts.name.clone());
        self.records.entry(key).or_default().status = status;
        let change = self.workloads.see(facts);
        self.workload_changed(change);
    }

    /// What a write of ours has found. It may be gone by now, and is not brought back by that.
    fn wrote_workload(&mut self, seen: SeenWorkload) {
        let SeenWorkload { facts, status } = seen;
        let is_it = |known: &WorkloadFacts| known.kind == facts.kind && known.uid == facts.uid;
        let mut known = self.workloads.of_name(&facts.namespace, &facts.name);
        if !known.any(|judged| is_it(judged.facts)) {
            return;
        }
        drop(known);
        let key = (facts.kind, facts.namespace.clone(), facts.name.clone());
        self.records.entry(key).or_default().status = status;
        let change = self.workloads.wrote(facts);
        self.workload_changed(change);
    }

    /// It was deleted, unless it is its CRD that was: then nobody has said that devices are to run it no longer.
    fn confirm_end(&self, facts: WorkloadFacts) {
        let (caller, inputs) = (self.caller(WORKLOAD_CRDS, &self.home), self.inputs.clone());
        tokio::spawn(async move {
            let crd = workload_crds::look(&caller, facts.kind).await;
            let _ = inputs.send(Input::WorkloadLeft(Box::new(facts), crd)).await;
        });
    }

    /// It is known by now what its absence means.
    pub(super) fn workload_left(&mut self, facts: &WorkloadFacts, crd: Option<&CrdFacts>) {
        let (kind, namespace, name) = (facts.kind, &facts.namespace, &facts.name);
        if went_with_its_crd(crd, facts.created, clock::now()) {
            tracing::warn!(
                "the CRD of {kind}s was deleted: devices keep {namespace}/{name}, because nobody has said that it shall go"
            );
            return;
        }
        self.absent.delete(namespace, name);
        let change = self.workloads.lose(kind, namespace, name, &facts.uid);
        self.workload_changed(change);
    }

    fn workload_changed(&mut self, change: Change) {
        let (namespace, name) = (&change.namespace, &change.name);
        let is_seen = change.is_seen_by_devices();
        // Its devices are looked at first, and its status counts them.
        let at = Instant::now() + if is_seen { LOOK_FIRST } else { Duration::ZERO };
        for kind in WorkloadKind::ALL {
            let key = (kind, namespace.clone(), name.clone());
            if self.records.contains_key(&key) {
                self.queue.enqueue_at(&queue_key(&key), at);
            }
        }
        if !is_seen {
            return;
        }
        let needs = change.after.as_ref().map(|after| Needs::of_workload(&after.spec));
        let owner = Owner::Workload(namespace.clone(), name.clone());
        let read = self.sources.want(&owner, namespace, &needs.unwrap_or_default());
        read.into_iter().for_each(|source| self.read_source(source));
        self.render(namespace, name);
        let reference = format!("{}{name}", labels::WORKLOAD);
        let members = self.members.get(&(namespace.clone(), name.clone()));
        let devices = self.shared.devices();
        let concerned = devices.of_namespace(namespace).filter(|(device, facts)| {
            facts.labels.contains_key(&reference)
                || members.is_some_and(|members| members.contains(*device))
                || change.concerns(device, &facts.labels)
        });
        let concerned: Vec<String> = concerned.map(|(device, _)| device.clone()).collect();
        drop(devices);
        concerned.iter().for_each(|device| self.queue.enqueue_at(device, Instant::now()));
    }

    /// Renders a workload, once for all devices.
    fn render(&mut self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        let Some(workload) = self.workloads.served(namespace, name) else {
            self.fragments.remove(&key);
            return;
        };
        let rendered = fragment(&WorkloadInput::from(&**workload), &self.sources).map(Arc::new);
        self.shared.metrics.rendered();
        self.fragments.insert(key, rendered);
    }

    pub(super) fn take_source(
        &mut self,
        kind: SourceKind,
        namespace: &str,
        event: WatchEvent<(String, String)>,
    ) {
        let is_end = matches!(event, WatchEvent::Synced);
        let consequences = self.sources.take(kind, namespace, event);
        self.follow_up(consequences);
        if is_end {
            self.known(Unlisted::Sources(kind, namespace.to_owned()));
        }
    }

    /// A Secret or ConfigMap was read, or could not be.
    pub(super) fn source_read(&mut self, read: SourceRead) {
        if let Err(error) = &read.result {
            let Source { kind, namespace, name } = &read.source;
            tracing::warn!(
                namespace,
                name,
                error,
                "a {kind:?} could not be read and is tried again"
            );
        }
        let consequences = self.sources.was_read(&read);
        if let Some(again) = consequences.again {
            let (inputs, source) = (self.inputs.clone(), read.source);
            tokio::spawn(async move {
                tokio::time::sleep_until(again).await;
                let _ = inputs.send(Input::SourceAgain(source)).await;
            });
        }
        self.follow_up(consequences);
    }

    pub(super) fn source_again(&mut self, source: &Source) {
        if let Some(source) = self.sources.again(source) {
            self.read_source(source);
        }
    }

    fn follow_up(&mut self, consequences: Consequences) {
        consequences.read.into_iter().for_each(|source| self.read_source(source));
        for owner in consequences.concerned {
            match owner {
                Owner::Device(_, device) => self.queue.enqueue_at(&device, Instant::now()),
                Owner::Workload(namespace, name) => {
                    self.render(&namespace, &name);
                    let key = (namespace, name);
                    for device in self.members.get(&key).into_iter().flatten() {
                        self.queue.enqueue_at(device, Instant::now());
                    }
                }
            }
        }
    }

    pub(super) fn read_source(&self, source: Source) {
        let caller = self.caller(&format!("/{}", source.name), &source.namespace);
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            let read = source.read(caller).await;
            let _ = inputs.send(Input::SourceRead(Box::new(read))).await;
        });
    }

    /// These workloads are for a device now; those before were until now.
    pub(super) fn belongs_to<'a>(
        &mut self,
        (namespace, device): &Place,
        before: impl Iterator<Item = &'a String>,
        now: &BTreeSet<String>,
    ) {
        let before: BTreeSet<String> = before.cloned().collect();
        for gone in before.difference(now) {
            let key = (namespace.clone(), gone.clone());
            if let Some(members) = self.members.get_mut(&key) {
                members.remove(device);
                if members.is_empty() {
                    self.members.remove(&key);
                }
            }
        }
        for new in now.difference(&before) {
            let key = (namespace.clone(), new.clone());
            self.members.entry(key).or_default().insert(device.clone());
        }
        before.symmetric_difference(now).for_each(|name| self.recount(namespace, name));
    }

    /// Something that the status of a workload counts has changed.
    pub(super) fn recount(&mut self, namespace: &str, name: &str) {
        for kind in WorkloadKind::ALL {
            let key = (kind, namespace.to_owned(), name.to_owned());
            if self.records.contains_key(&key) {
                self.queue.enqueue_at(&queue_key(&key), Instant::now());
            }
        }
    }

    /// Takes the original's finalizer off, and says in the status how far the workload is.
    pub(super) fn reconcile_workload(&mut self, key: &WorkloadKey) {
        if !self.all_is_listed() {
            return;
        }
        let (kind, namespace, name) = key;
        let judged =
            self.workloads.of_name(namespace, name).find(|judged| judged.facts.kind == *kind);
        let Some(judged) = judged else {
            self.records.remove(key);
            self.queue.remove(&queue_key(key));
            return;
        };
        let Some(record) = self.records.get_mut(key).filter(|record| !record.throttle.busy) else {
            return;
        };
        let (facts, now) = (judged.facts.clone(), clock::now());
        let write = match released(&facts.finalizers) {
            Some(finalizers) => WorkloadWrite::Finalizers(finalizers),
            None if facts.being_deleted => return,
            None => {
                let status = match judged.verdict {
                    Err(problem) => refused_status(&problem, facts.generation, now),
                    Ok(accepted) => {
                        let members = self.members.get(&(namespace.clone(), name.clone()));
                        let states = members.into_iter().flatten().filter_map(|device| {
                            self.states.get(&(namespace.clone(), device.clone()))
                        });
                        let seen = states.map(|state| {
                            // What it says is of the workload as it was.
                            let told =
                                state.told.get(name).filter(|_| !state.unsynced.contains(name));
                            Seen {
                                phase: told.map(|told| told.phase.as_str()),
                                exit_code: told.and_then(|told| told.exit_code),
                                reporting: state.reporting,
                                problem: state.wanted.get(name).and_then(Option::as_ref),
                            }
                        });
                        Tally::of(accepted, seen).status(accepted, facts.generation, now)
                    }
                };
                let Some(status) = difference(&record.status, &status, now) else { return };
                WorkloadWrite::Status(status)
            }
        };
        let at = record.throttle.after(PAUSE).filter(|at| *at > Instant::now());
        if let Some(at) = at {
            self.queue.enqueue_at(&queue_key(key), at);
            return;
        }
        record.throttle.sent(Instant::now(), 0);
        let (started, inputs, key) =
            (self.start(name, namespace), self.inputs.clone(), key.clone());
        tokio::spawn(async move {
            let written = started.workload(&facts, write).await;
            let _ = inputs.send(Input::WorkloadWritten(key, written)).await;
        });
    }

    /// A workload was written, or was not.
    pub(super) fn workload_written(
        &mut self,
        key: &WorkloadKey,
        written: Result<Option<Box<SeenWorkload>>, String>,
    ) {
        let now = Instant::now();
        let (namespace, name) = (&key.1, &key.2);
        let mut again = now;
        if let Some(record) = self.records.get_mut(key) {
            record.throttle.answered(now);
            match &written {
                Ok(_) => record.throttle.succeeded(),
                Err(error) => {
                    again = record.throttle.failed(now);
                    tracing::warn!(namespace, name, error, "a workload could not be written");
                }
            }
        }
        if let Ok(Some(seen)) = written {
            self.wrote_workload(*seen);
        }
        self.queue.enqueue_at(&queue_key(key), again);
    }
}
