//! What a job has in use: boards, slots, the node port.
//!
//! A board is not free while a Pod may still talk to it, whatever the ledger says of its device, and whatever has become
//! of the job.

use std::collections::HashMap;

use flashjob_api::flashjob::ServiceType;
use jiff::Timestamp;

use crate::flashjob::facts::{Children, LedgerState, Pod, Slot, View};
use crate::flashjob::ids::Target;
use crate::flashjob::ledger::{DeviceProgress, Ledger, Record};
use crate::flashjob::locks::Lock;

/// The locks on boards whose Pods have not ended, and on the node port, for a job that goes or has lost its ledger: none
/// of them is free for another job yet.
pub(crate) fn locks_at_work(view: &View<'_>, now: Timestamp) -> Vec<Lock<'static>> {
    let pods = view.children.values().flat_map(|children| children.pods.values());
    let seen = pods.filter(|slot| pod_in_use(slot, now)).filter_map(|slot| slot.seen.as_ref());
    let mut locks: Vec<_> = seen.map(|pod| Lock::board(&pod.endpoint).into_owned()).collect();
    if let LedgerState::Sealed(ledger) = view.ledger {
        // A Pod that is being made has not been seen yet.
        let open = ledger.records.iter().filter(|r| {
            let children = view.children.get(&r.target);
            r.is_open() && children.is_some_and(|c| holds_slot(c, r.attempt, now))
        });
        locks.extend(open.filter_map(Record::lock));
    }
    locks.extend(takes_node_port(view).then_some(Lock::NodePort));
    locks.sort();
    locks.dedup();
    locks
}

/// Whether one of the job's Services has the node port, or is about to.
pub(crate) fn takes_node_port(view: &View<'_>) -> bool {
    let asked = view.job.spec.as_ref().is_ok_and(|s| s.access.kind == ServiceType::NodePort);
    let mut services = view.children.values().map(|children| &children.service);
    services.any(|slot| slot.here().map_or(slot.busy && asked, |service| service.node_port))
}

/// Whether a device waits for its next attempt.
pub(crate) fn is_in_back_off(record: &Record, now: Timestamp) -> bool {
    match &record.progress {
        DeviceProgress::Waiting(Some(failed)) => failed.retry_at.is_some_and(|at| at > now),
        _ => false,
    }
}

/// The locks that a job holds, read off its ledger and its objects: a new process has every job hold them before it
/// reconciles any. A write of the earlier process that opens an attempt may still arrive, and only for a board that has a
/// Service.
pub fn locks_held(
    ledger: Option<&Ledger>,
    children: &HashMap<Target, Children>,
    now: Timestamp,
) -> Vec<Lock<'static>> {
    let records = ledger.into_iter().flat_map(|ledger| &ledger.records).filter(|record| {
        record.is_open() || children.get(&record.target).is_some_and(|c| in_use(c, now))
    });
    // Also of an earlier firmware, of a device that has left the job, or where the ledger cannot be read.
    let pods = children.values().flat_map(|c| c.pods.values()).filter(|slot| pod_in_use(slot, now));
    let seen = pods.filter_map(|slot| slot.seen.as_ref());
    let at_work = seen.map(|pod| Lock::board(&pod.endpoint).into_owned());
    let mut held: Vec<_> = records.filter_map(Record::lock).chain(at_work).collect();
    held.sort();
    held.dedup();
    held
}

/// A slot of maxParallel is held from sending the Pod until the end of its container is seen.
fn holds_slot(children: &Children, attempt: u32, now: Timestamp) -> bool {
    children.pods.get(&attempt).is_some_and(|slot| pod_in_use(slot, now))
}

/// Whether a Pod may still talk to its board.
pub(crate) fn pod_in_use(slot: &Slot<Pod>, now: Timestamp) -> bool {
    slot.busy || slot.here().is_some_and(|pod| !pod.over(now))
}

/// Whether anything of a target is there.
pub(crate) fn in_use(children: &Children, now: Timestamp) -> bool {
    let service = &children.service;
    service.busy
        || service.here().is_some()
        || children.pods.values().any(|slot| pod_in_use(slot, now))
}
