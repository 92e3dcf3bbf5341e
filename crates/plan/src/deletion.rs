//! A job on its way out: Pods first, then Services, then our finalizer.
//!
//! The ledger is not asked: it goes with its owner, and nothing starts any more. Running Pods are ended gracefully, the
//! one case in which a flash is cut off.

use jiff::Timestamp;

use crate::facts::View;
use crate::in_use::boards_at_work;
use crate::plan::{Deletion, Plan};

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
            match slot.here() {
                Some(pod) if !slot.busy && pod.deleting.is_none() => {
                    plan.deletes.push(Deletion::of_pod(target, *attempt, pod));
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
                plan.deletes.push(Deletion::of_service(target, service));
            }
            _ => {}
        }
    }
    plan.release = !pods_left && !anything_left;
    plan.claims = Some(boards_at_work(view, now));
    plan
}
