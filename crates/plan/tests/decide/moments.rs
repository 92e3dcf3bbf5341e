//! Edits that come at an awkward moment.

use flashjob_plan::flashjob::ledger::Outcome;
use flashjob_plan::flashjob::{LedgerPlan, NewObject, Plan};
use serde_json::json;

use crate::lock;
use crate::world::World;

fn firmware_of_new_pods(plan: &Plan) -> Vec<String> {
    let pod = |object: &NewObject| match object {
        NewObject::Pod { object, .. } => Some(object.spec.clone()?.containers[0].env.clone()?),
        NewObject::Service { .. } => None,
    };
    let firmware = |env: Vec<k8s_openapi::api::core::v1::EnvVar>| {
        env.into_iter().find(|e| e.name == "FIRMWARE").and_then(|e| e.value)
    };
    plan.creates.iter().filter_map(pod).filter_map(firmware).collect()
}

/// Whenever the firmware is edited, the board gets the old one at most once, the new one once, and never under the
/// name of the old.
#[test]
fn firmware_edited_at_any_moment_is_flashed_once() {
    for moment in 0..8 {
        let mut world = World::new(&["a"], json!({}));
        let mut flashed = Vec::new();
        for reconcile in 0..30 {
            if reconcile == moment {
                world.edit(&["a"], json!({ "firmware": "f:2", "version": "2" }));
            }
            let plan = world.step();
            let new = firmware_of_new_pods(&plan);
            if !new.is_empty() {
                let written = world.record("a").revision.clone();
                assert_eq!(
                    written,
                    flashjob_plan::flashjob::names::revision(&new[0], &new[0][2..])
                );
                flashed.extend(new);
                world.ends("a", 0, "");
            }
        }
        let new = flashed.iter().filter(|f| *f == "f:2").count();
        let old = flashed.iter().filter(|f| *f == "f:1").count();
        assert!(new == 1 && old <= 1, "edited before reconcile {moment}: {flashed:?}");
    }
}

#[test]
fn a_job_born_suspended_starts_its_clocks_when_it_is_released() {
    let offline = json!({ "offlineSeconds": 60 });
    let mut world = World::new(&["a"], json!({ "suspend": true, "timeouts": offline }));
    world.settle();
    world.instances.remove("ns", "a");
    world.after(1000);
    world.edit(&["a"], json!({ "timeouts": offline }));
    world.settle();
    assert_eq!(world.record("a").outcome(), None, "it has been its turn for no time at all");
    world.after(61);
    world.settle();
    assert_eq!(world.record("a").outcome(), Some(Outcome::Failed));
}

#[test]
fn the_first_batch_comes_with_the_ledger() {
    let mut world = World::new(&["a", "b", "c"], json!({ "rollout": { "batchSize": 2 } }));
    let LedgerPlan::Create(ledger) = world.step().ledger else { panic!("no ledger") };
    assert_eq!((ledger.header.batch, ledger.header.released), (1, 2));
}

#[test]
fn a_newer_job_does_not_slip_in_while_an_older_one_begins() {
    let mut world = World::new(&["a"], json!({}));
    world.introduce("newer", "ns/newer", 1);
    world.locks.know(&"newer".into(), &"at-a".into());
    for _ in 0..2 {
        world.step();
        assert_eq!(
            world.locks.in_the_way(&"newer".into(), &lock("at-a"), |_| true).as_deref(),
            Some("ns/job")
        );
        assert!(world.locks.is_shared(&"newer".into(), &"at-a".into()));
    }
}

#[test]
fn of_two_names_for_one_board_the_other_is_flashed_when_the_first_is_taken_out() {
    let mut world = World::new(&["a", "uid-a"], json!({ "suspend": true }));
    world.settle();
    assert_eq!(world.record("uid-a").outcome(), Some(Outcome::Skipped));
    world.edit(&["uid-a"], json!({}));
    world.settle();
    assert!(world.record("uid-a").is_open() && !world.record("a").is_open());
}

#[test]
fn of_two_names_for_one_board_the_other_stays_out_when_the_first_was_flashed() {
    let mut world = World::new(&["a", "uid-a"], json!({}));
    world.settle();
    world.ends("a", 0, "");
    world.settle();
    world.edit(&["uid-a"], json!({}));
    world.settle();
    assert_eq!(world.record("uid-a").outcome(), Some(Outcome::Skipped));
    world.edit(&["uid-a"], json!({ "firmware": "f:2", "version": "2" }));
    world.settle();
    assert!(world.record("uid-a").is_open(), "other firmware is for the name that is left");
}
