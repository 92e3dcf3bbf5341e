//! The rules of `decide`, each as a short story, and what holds whatever happens. Here is what the stories share.

#![allow(clippy::unwrap_used)] // a test may stop at once and say why

mod addresses;
mod attempts;
mod broken;
mod edits;
mod idle;
mod listing;
mod locks;
mod moments;
mod original;
mod pairs;
mod people;
mod permits;
mod places;

mod preview;
mod properties;
mod restarts;
mod rollouts;
mod sizes;
mod stories;
mod story;
mod view;
mod world;

use flashjob_api::flashjob::Phase;
use flashjob_plan::flashjob::Plan;
use flashjob_plan::flashjob::ids::Target;
use flashjob_plan::flashjob::locks::Lock;
use world::World;

/// The lock on the board at this address.
fn lock(endpoint: &str) -> Lock<'static> {
    Lock::board(&endpoint.into()).into_owned()
}

fn phase(plan: &Plan) -> Phase {
    plan.status.as_ref().unwrap().phase.unwrap()
}

fn state(plan: &Plan, device: &str) -> String {
    let devices = &plan.status.as_ref().unwrap().in_flight;
    devices.iter().find(|d| d.uuid == device).unwrap().state.to_string()
}

fn reason(plan: &Plan) -> String {
    plan.status.as_ref().unwrap().failures[0].reason.clone()
}

/// No device is without a reason: every one is counted once, every one at work or waiting says for what, every failure why,
/// and the job says in a sentence where the others are.
fn reasons(plan: &Plan) {
    let Some(status) = &plan.status else { return };
    let counts = status.counts.unwrap_or_default();
    let waiting = counts.offline + counts.waiting + counts.blocked + counts.flashing;
    let done = counts.succeeded + counts.failed + counts.skipped;
    assert_eq!(counts.pending + waiting + done, counts.total, "every device is counted once");
    let listed = |count: i32| usize::try_from(count).unwrap();
    assert!(status.in_flight.len() >= listed(waiting), "who waits is listed: {status:#?}");
    for device in &status.in_flight {
        assert!(!device.state.as_str().is_empty() && device.message.is_some(), "{device:#?}");
        // A wait that is shown to last has an end, and the job is reconciled then.
        let held = !matches!(status.phase, Some(Phase::Pending | Phase::InProgress));
        let ours = device.since.is_none() || device.state.as_str() == "Recording";
        let free = ours || device.state.as_str() == "Blocked" || held;
        let until = device.until.as_ref().map(|time| time.0);
        assert!(until.is_some() || free, "no next reconcile: {device:#?}");
        assert!(until.is_none_or(|at| plan.next_reconcile <= Some(at)), "{device:#?}");
    }
    let failed = status.failures.iter().filter(|f| f.reason != "Superseded").count();
    assert_eq!(failed, listed(counts.failed));
    assert!(status.failures.iter().all(|f| !f.reason.is_empty()), "{status:#?}");
    let message = status.message.as_deref().unwrap_or_default();
    let told = counts.pending == 0 || message.contains(&format!("{} pending", counts.pending));
    assert!(status.phase.is_some() && !message.is_empty() && told, "{status:#?}");
}

/// The devices that have a Pod now.
fn at_work(world: &World) -> Vec<String> {
    let records = &world.ledger.as_ref().unwrap().records;
    let has_pod = |target: &Target| {
        let children = world.children().get(target);
        children.is_some_and(|c| c.pods.values().any(|p| p.here().is_some()))
    };
    records.iter().filter(|r| has_pod(&r.target)).map(|r| r.device.clone()).collect()
}
