//! A job on its way out: Pods first, then Services, then our finalizer.
//!
//! The ledger is not asked: it goes with its owner, and nothing starts any more. Running Pods are ended gracefully, the
//! one case in which a flash is cut off. What does not go is named, so that nobody wonders why the job is still there.

use jiff::Timestamp;

use crate::flashjob::facts::View;
use crate::flashjob::in_use::locks_at_work;
use crate::flashjob::plan::{Deletion, Plan};
use crate::flashjob::status::{self, Conclusion};
use crate::time::after;

/// How long an object may take to go before the job says that it waits for it: longer than a Pod's usual grace period.
const SAID_AFTER_SECONDS: i64 = 45;

/// What is left to do before the job may go.
pub fn plan(view: &View<'_>, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if !view.job.finalizer {
        return plan;
    }
    let mut pods_left = false;
    let mut anything_left = false;
    // Those that were asked to go and have not.
    let mut going: Vec<(Timestamp, String)> = Vec::new();
    for (target, children) in view.children {
        for (attempt, slot) in &children.pods {
            pods_left |= slot.busy || slot.here().is_some();
            match slot.here() {
                Some(pod) if !slot.busy && pod.deleting.is_none() => {
                    plan.deletes.push(Deletion::of_pod(*target, *attempt, pod));
                }
                Some(pod) => going.extend(pod.deleting.map(|at| (at, format!("Pod {}", pod.name)))),
                None => {}
            }
        }
    }
    for (target, children) in view.children {
        let slot = &children.service;
        anything_left |= slot.busy || slot.here().is_some();
        match slot.here() {
            Some(service) if !pods_left && !slot.busy && service.deleting.is_none() => {
                plan.deletes.push(Deletion::of_service(*target, service));
            }
            Some(service) => {
                let name = || format!("Service {}", service.name);
                going.extend(service.deleting.map(|at| (at, name())));
            }
            None => {}
        }
    }
    plan.remove_finalizer = !pods_left && !anything_left;
    plan.held_locks = Some(locks_at_work(view, now));
    if let Some((since, what)) = going.into_iter().min() {
        match after(since, SAID_AFTER_SECONDS) {
            at if now < at => plan.reconcile_at(at),
            _ => plan.status = Some(status::plain(view.job, stays(&what, since))),
        }
    }
    plan
}

fn stays(what: &str, since: Timestamp) -> Conclusion {
    let message = format!(
        "being deleted, and waiting for {what}, which was asked to go at {} and has not gone; a Pod goes when its node says so, \
         a Service when its finalizers are served",
        since.strftime("%H:%M:%S UTC")
    );
    Conclusion::Waiting { reason: "Deleting", message }
}
