//! A job on its way out: Pods first, then Services, then our finalizer.
//!
//! The ledger is not asked: it goes with its owner, and nothing starts any more. Running Pods are ended gracefully, the
//! one case in which a flash is cut off.

use jiff::Timestamp;

use crate::facts::View;
use crate::plan::{Deletion, Kind, Plan};
use crate::round::boards_at_work;

/// What is left to do before the job may go.
pub fn plan(view: &View<'_>, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if !view.job.finalizer {
        return plan;
    }
    let mut pods_left = false;
    let mut anything_left = false;
    for (target, children) in view.children {
        for (attempt, slot) in &children.pods {
            pods_left |= slot.busy || slot.here().is_some();
            let kind = Kind::Pod(*attempt);
            match slot.here() {
                Some(pod) if !slot.busy && pod.deleting.is_none() => {
                    plan.deletes.push(deletion(target, kind, &pod.name, &pod.uid));
                }
                _ => {}
            }
        }
    }
    for (target, children) in view.children {
        let slot = &children.service;
        anything_left |= slot.busy || slot.here().is_some();
        match slot.here() {
            Some(service) if !pods_left && !slot.busy && !service.deleting => {
                plan.deletes.push(deletion(target, Kind::Service, &service.name, &service.uid));
            }
            _ => {}
        }
    }
    plan.release = !pods_left && !anything_left;
    plan.claims = Some(boards_at_work(view, now));
    plan
}

fn deletion(target: &str, kind: Kind, name: &str, uid: &str) -> Deletion {
    Deletion { target: target.to_owned(), kind, name: name.to_owned(), uid: uid.to_owned() }
}
