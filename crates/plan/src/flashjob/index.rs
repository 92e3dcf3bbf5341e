//! The index the watches keep: every job's Services and Pods, by job and target.
//!
//! An object that leaves a watch may be gone, or may only have lost its label. It counts as gone when we know its end
//! anyway (its attempt is over, or we deleted it); otherwise [`Index`] says that a live read has to confirm it.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;

use crate::flashjob::children::Child;
use crate::flashjob::facts::{Children, Pod, Refusal, Service, Slot, Versioned};
use crate::flashjob::ids::{JobUid, Target};
use crate::flashjob::plan::Kind;
use crate::time::after;

/// An object that may be gone, until a live read has confirmed it.
#[derive(Clone, Debug, PartialEq)]
pub struct Unconfirmed {
    /// The job's uid.
    pub job: JobUid,
    pub target: Target,
    /// Which object.
    pub kind: Kind,
    pub name: String,
}

/// Every job's objects.
#[derive(Default)]
pub struct Index {
    jobs: HashMap<JobUid, HashMap<Target, Children>>,
    nothing: HashMap<Target, Children>,
    /// Objects we deleted, by uid: when they leave the watch, they are gone.
    ended: HashSet<String>,
    listed: HashMap<&'static str, HashSet<String>>,
}

impl Index {
    /// The objects of one job by target.
    pub fn children(&self, job: &JobUid) -> &HashMap<Target, Children> {
        self.jobs.get(job).unwrap_or(&self.nothing)
    }

    fn target(&mut self, job: &JobUid, target: Target) -> &mut Children {
        self.jobs.entry(job.clone()).or_default().entry(target).or_default()
    }

    fn pod_slot(&mut self, job: &JobUid, target: Target, attempt: u32) -> &mut Slot<Pod> {
        self.target(job, target).pods.entry(attempt).or_default()
    }

    /// A Pod was seen.
    pub fn see_pod(&mut self, child: Child<Pod>, now: Timestamp) {
        if let Some(listed) = self.listed.get_mut("pods") {
            listed.insert(child.facts.uid.clone());
        }
        let slot = self.pod_slot(&child.owner.uid, child.target, child.attempt);
        let pod = child.facts.at(now, slot.seen.as_ref());
        slot.see(pod);
    }

    /// A Service was seen. Says whether it has got its address since it was last seen.
    pub fn see_service(&mut self, child: Child<Service>, now: Timestamp) -> bool {
        if let Some(listed) = self.listed.get_mut("services") {
            listed.insert(child.facts.uid.clone());
        }
        let addressed = child.facts.address.is_some();
        let slot = &mut self.target(&child.owner.uid, child.target).service;
        let had = slot.here().is_some_and(|s| s.address.is_some());
        let service = child.facts.at(now, slot.seen.as_ref());
        slot.see(service) && addressed && !had
    }

    /// A Pod has left the watch.
    pub fn pod_left(&mut self, child: &Child<Pod>, now: Timestamp) -> Option<Unconfirmed> {
        let deleted = self.ended.remove(&child.facts.uid);
        let slot = self.pod_slot(&child.owner.uid, child.target, child.attempt);
        slot.see(child.facts.clone());
        let pod = slot.here().filter(|p| p.uid == child.facts.uid)?;
        // A Pod we deleted that never began needs no live read either: its permit is gone.
        if pod.over(now) || (deleted && !pod.started()) {
            slot.gone = true;
            return None;
        }
        unconfirmed(child, Kind::Pod(child.attempt), slot)
    }

    /// A Service has left the watch.
    pub fn service_left(&mut self, child: &Child<Service>) -> Option<Unconfirmed> {
        let deleted = self.ended.remove(&child.facts.uid);
        let slot = &mut self.target(&child.owner.uid, child.target).service;
        slot.see(child.facts.clone());
        slot.here().filter(|s| s.uid == child.facts.uid)?;
        if !deleted {
            return unconfirmed(child, Kind::Service, slot);
        }
        slot.gone = true;
        None
    }

    /// A list begins: what it does not show has left.
    pub fn listing(&mut self, kind: &'static str) {
        self.listed.insert(kind, HashSet::new());
    }

    /// A list of Pods is complete.
    pub fn pods_listed(&mut self) -> Vec<Unconfirmed> {
        let Some(listed) = self.listed.remove("pods") else { return Vec::new() };
        let mut unconfirmed = Vec::new();
        for (job, targets) in &mut self.jobs {
            for (target, children) in targets {
                for (attempt, slot) in &mut children.pods {
                    let kind = Kind::Pod(*attempt);
                    unconfirmed.extend(unlisted(&listed, job, *target, kind, slot, |p| &p.name));
                }
            }
        }
        unconfirmed
    }

    /// A list of Services is complete.
    pub fn services_listed(&mut self) -> Vec<Unconfirmed> {
        let Some(listed) = self.listed.remove("services") else { return Vec::new() };
        let mut unconfirmed = Vec::new();
        for (job, targets) in &mut self.jobs {
            for (target, children) in targets {
                let slot = &mut children.service;
                unconfirmed
                    .extend(unlisted(&listed, job, *target, Kind::Service, slot, |s| &s.name));
            }
        }
        unconfirmed
    }

    /// A live read was answered: the object is there, or is not.
    pub fn pod_checked(
        &mut self,
        unconfirmed: &Unconfirmed,
        attempt: u32,
        found: Option<Pod>,
    ) -> bool {
        let slot = self.pod_slot(&unconfirmed.job, unconfirmed.target, attempt);
        confirm(slot, found)
    }

    /// A live read was answered: the object is there, or is not.
    pub fn service_checked(&mut self, unconfirmed: &Unconfirmed, found: Option<Service>) -> bool {
        confirm(&mut self.target(&unconfirmed.job, unconfirmed.target).service, found)
    }

    /// A write to an object begins or ends; meanwhile nobody else touches it.
    pub fn set_busy(&mut self, job: &JobUid, target: Target, kind: Kind, busy: bool) {
        match kind {
            Kind::Service => self.target(job, target).service.busy = busy,
            Kind::Pod(attempt) => self.pod_slot(job, target, attempt).busy = busy,
        }
    }

    /// A delete is about to be sent.
    pub fn deleting(&mut self, job: &JobUid, target: Target, kind: Kind, uid: &str) {
        self.set_busy(job, target, kind, true);
        self.ended.insert(uid.to_owned());
    }

    /// The server knows that we want this object gone.
    pub fn delete_acknowledged(
        &mut self,
        job: &JobUid,
        target: Target,
        kind: Kind,
        uid: &str,
        now: Timestamp,
    ) {
        match kind {
            Kind::Service => {
                let slot = &mut self.target(job, target).service;
                if let Some(service) = slot.seen.as_mut().filter(|s| s.uid == uid) {
                    service.deleting.get_or_insert(now);
                }
            }
            Kind::Pod(attempt) => {
                let slot = self.pod_slot(job, target, attempt);
                if let Some(pod) = slot.seen.as_mut().filter(|p| p.uid == uid) {
                    pod.deleting.get_or_insert(now);
                }
            }
        }
    }

    /// A create did not go through.
    pub fn refuse(&mut self, job: &JobUid, target: Target, kind: Kind, refusal: Refusal) {
        let place = match kind {
            Kind::Service => &mut self.target(job, target).service.refused,
            Kind::Pod(attempt) => &mut self.pod_slot(job, target, attempt).refused,
        };
        let before = place.take().filter(|b| b.definite == refusal.definite);
        let times = before.as_ref().map_or(1, |b| b.times + 1);
        let since = before.map_or(refusal.since, |b| b.since);
        let pause = 1_i64 << times.saturating_sub(1).min(6);
        let retry_at = after(refusal.since, pause.min(60));
        *place = Some(Refusal { times, since, retry_at, ..refusal });
    }

    /// A place that holds nothing of interest any more.
    pub fn forget(&mut self, job: &JobUid, target: Target, kind: Kind) {
        let Some(targets) = self.jobs.get_mut(job) else { return };
        forget(targets, target, kind);
        if targets.is_empty() {
            self.jobs.remove(job);
        }
    }

    /// The jobs that have objects, be they known or not.
    pub fn jobs(&self) -> Vec<JobUid> {
        self.jobs.keys().cloned().collect()
    }

    /// A job is gone.
    pub fn forget_job(&mut self, job: &JobUid) {
        self.jobs.remove(job);
    }
}

/// Empties a place among the objects of one job.
fn forget(targets: &mut HashMap<Target, Children>, target: Target, kind: Kind) {
    let Some(children) = targets.get_mut(&target) else { return };
    match kind {
        Kind::Service => children.service = Slot::default(),
        Kind::Pod(attempt) => drop(children.pods.remove(&attempt)),
    }
    let service = &children.service;
    let empty = service.seen.is_none() && !service.busy && service.refused.is_none();
    if empty && children.pods.is_empty() {
        targets.remove(&target);
    }
}

fn unconfirmed<T, F>(child: &Child<F>, kind: Kind, slot: &mut Slot<T>) -> Option<Unconfirmed>
where
    F: Named,
{
    slot.busy = true;
    let (job, target) = (child.owner.uid.clone(), child.target);
    Some(Unconfirmed { job, target, kind, name: child.facts.name().to_owned() })
}

fn unlisted<T: Versioned>(
    listed: &HashSet<String>,
    job: &JobUid,
    target: Target,
    kind: Kind,
    slot: &mut Slot<T>,
    name: impl Fn(&T) -> &String,
) -> Option<Unconfirmed> {
    let name = slot.here().filter(|o| !slot.busy && !listed.contains(o.uid())).map(name)?.clone();
    slot.busy = true;
    Some(Unconfirmed { job: job.clone(), target, kind, name })
}

/// Says whether the object is still there although no watch shows it. It is known by its uid: labels can be taken off, and
/// another object of that name is not the one.
fn confirm<T: Versioned>(slot: &mut Slot<T>, found: Option<T>) -> bool {
    slot.busy = false;
    let known = slot.seen.as_ref().map(|s| s.uid().to_owned());
    match found.filter(|f| known.as_deref() == Some(f.uid())) {
        Some(found) => {
            slot.see(found);
            true
        }
        None => {
            slot.gone = slot.seen.is_some();
            false
        }
    }
}

/// What has a name.
trait Named {
    fn name(&self) -> &str;
}

impl Named for Pod {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for Service {
    fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests;
