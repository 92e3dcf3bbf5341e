//! The rules of `decide`, each as a short story, and what holds whatever happens. Here is what the stories share.

#![allow(clippy::unwrap_used)] // a test may stop at once and say why

mod addresses;
mod attempts;
mod boards;
mod edits;
mod moments;
mod original;
mod permits;
mod places;
mod properties;
mod restarts;
mod rollouts;
mod view;
mod world;

use flashjob_api::Phase;
use flashjob_plan::Plan;
use world::World;

fn phase(plan: &Plan) -> Phase {
    plan.status.as_ref().unwrap().phase.unwrap()
}

fn state(plan: &Plan, device: &str) -> String {
    let devices = &plan.status.as_ref().unwrap().in_flight;
    devices.iter().find(|d| d.uuid == device).unwrap().state.clone()
}

fn reason(plan: &Plan) -> String {
    plan.status.as_ref().unwrap().failures[0].reason.clone()
}

/// The devices that have a Pod now.
fn at_work(world: &World) -> Vec<String> {
    let records = &world.ledger.as_ref().unwrap().records;
    let has_pod = |target: &String| {
        let children = world.children.get(target);
        children.is_some_and(|c| c.pods.values().any(|p| p.here().is_some()))
    };
    records.iter().filter(|r| has_pod(&r.target)).map(|r| r.device.clone()).collect()
}
