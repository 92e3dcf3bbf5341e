//! What a new process makes of what an earlier one left, and what becomes of a ledger.

use flashjob_api::Phase;
use flashjob_plan::{Kind, LedgerPlan};
use serde_json::json;

use crate::phase;
use crate::world::World;

#[test]
fn an_open_attempt_of_another_process_is_settled_before_anything_starts() {
    // The permit is written and no Pod was made.
    let mut world = World::new(&["a", "b"], json!({ "rollout": { "maxParallel": 1 } }));
    while !world.ledger.as_ref().is_some_and(|l| l.has_open_attempts()) {
        world.step();
    }
    world.settled = false;
    let withdrawn = world.step();
    assert!(withdrawn.creates.is_empty() && !withdrawn.list_pods);
    assert!(world.record("a").open && !world.record("a").permit, "withdrawn, not yet closed");
    let listed = world.step();
    assert!(listed.list_pods && listed.creates.is_empty());
    world.settle();
    let record = world.record("a");
    assert_eq!((record.attempt, record.tries), (2, 0), "the next number, and no failure");
}

#[test]
fn a_started_pod_of_another_process_is_adopted_and_one_that_has_not_is_ended() {
    let mut world = World::new(&["a", "b"], json!({}));
    world.settle();
    world.runs("a");
    world.settled = false;
    world.settle();
    assert_eq!(world.record("a").attempt, 1, "adopted");
    assert_eq!(world.record("b").attempt, 2, "made anew");
    for device in ["a", "b"] {
        world.ends(device, 0, "");
    }
    assert_eq!(phase(&world.settle()), Phase::Completed);
    assert_eq!(world.record("b").tries, 0);
}

#[test]
fn a_late_pod_without_a_permit_is_removed() {
    let mut world = World::new(&["a"], json!({}));
    world.settle();
    let late = world.pod("a").clone();
    let target = world.record("a").target.clone();
    world.pod("a").gone = true;
    world.settled = false;
    world.settle();
    world.ends("a", 0, "");
    world.settle();
    // Now the create of attempt 1 arrives after all.
    world.children.entry(target).or_default().pods.insert(1, late);
    let plan = world.step();
    assert_eq!(plan.deletes[0].kind, Kind::Pod(1));
    assert_eq!(phase(&world.settle()), Phase::Completed);
}

#[test]
fn a_ledger_of_many_shards_is_filled_in_order() {
    let names: Vec<String> = (0..700).map(|n| format!("d{n}")).collect();
    let some: Vec<&str> = names.iter().take(10).map(String::as_str).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(&some, json!({}));
    world.settle();
    world.edit(&all, json!({}));
    world.settle();
    let ledger = world.ledger.as_ref().unwrap();
    assert_eq!((ledger.records.len(), ledger.header.devices, ledger.shards()), (700, 700, 3));
    let written: Vec<&str> = ledger.records.iter().map(|r| r.device.as_str()).collect();
    assert_eq!(written, all);
}

#[test]
fn a_job_whose_ledger_is_gone_starts_nothing() {
    let mut world = World::new(&["a"], json!({}));
    world.settle();
    world.ledger = None;
    let plan = world.step();
    assert_eq!(plan.ledger, LedgerPlan::Keep);
    assert!(plan.creates.is_empty() && plan.deletes.is_empty());
    let conditions = plan.status.unwrap().conditions;
    assert!(conditions.iter().any(|c| c.type_ == "Stalled" && c.reason == "LedgerLost"));
}
