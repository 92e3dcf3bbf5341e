//! What a person does to a job under way: hold it, change it, delete it.

use flashjob_api::flashjob::Phase;
use flashjob_plan::flashjob::ledger::Outcome;
use flashjob_plan::flashjob::{Kind, LedgerPlan, Plan};
use serde_json::json;

use crate::world::World;
use crate::{lock, phase, reason, state};

#[test]
fn a_suspended_job_starts_nothing_and_what_flashes_finishes() {
    let mut world = World::new(&["a", "b"], json!({ "rollout": { "maxParallel": 1 } }));
    world.settle();
    world.runs("a");
    world.edit(&["a", "b"], json!({ "rollout": { "maxParallel": 1 }, "suspend": true }));
    assert_eq!(phase(&world.settle()), Phase::Suspended);
    world.ends("a", 0, "");
    world.after(3600);
    let held = world.settle();
    assert_eq!(phase(&held), Phase::Suspended);
    assert_eq!(world.record("a").outcome(), Some(Outcome::Succeeded));
    assert_eq!(world.record("b").outcome(), None, "clocks stand still");
    world.edit(&["a", "b"], json!({}));
    world.settle();
    world.ends("b", 0, "");
    assert_eq!(phase(&world.settle()), Phase::Completed);
}

#[test]
fn clocks_stand_still_while_a_job_is_held() {
    let mut world = World::new(&["a"], json!({}));
    world.instances.remove("ns", "a");
    world.settle();
    world.after(200);
    world.edit(&["a"], json!({ "suspend": true }));
    world.settle();
    world.after(3600);
    world.edit(&["a"], json!({}));
    assert_eq!(state(&world.settle(), "a"), "Offline");
    world.after(99);
    assert_eq!(state(&world.settle(), "a"), "Offline");
    world.after(1);
    assert_eq!(reason(&world.settle()), "DeviceNotFound");
}

#[test]
fn to_release_a_job_its_header_is_written_and_no_device_that_goes_by_it() {
    let mut world = World::new(&["a", "b"], json!({ "suspend": true }));
    world.settle();
    world.after(3600);
    world.edit(&["a", "b"], json!({}));
    let LedgerPlan::Update(change) = world.decide().ledger else { panic!("nothing is written") };
    assert!(change.header.is_some() && change.records.is_empty());
}

#[test]
fn a_device_that_is_tried_again_keeps_its_own_clock_while_the_job_is_held() {
    let mut world = World::new(&["a"], json!({}));
    world.settle();
    world.ends("a", 1, "");
    world.settle();
    world.instances.remove("ns", "a");
    // Back-off until 10, and away since then.
    world.after(210);
    assert_eq!(state(&world.settle(), "a"), "Offline");
    world.edit(&["a"], json!({ "suspend": true }));
    world.settle();
    world.after(3600);
    world.edit(&["a"], json!({}));
    world.settle();
    world.after(99);
    assert_eq!(state(&world.settle(), "a"), "Offline");
    world.after(1);
    assert_eq!(reason(&world.settle()), "DeviceNotFound");
}

/// `kubectl wait` and GitOps tools go by it: Completed is for the generation it names.
#[test]
fn what_is_said_of_the_old_firmware_is_not_said_of_the_new_one() {
    let mut world = World::new(&["a"], json!({}));
    world.settle();
    world.ends("a", 0, "");
    let done = world.settle().status.unwrap_or_default();
    assert_eq!(done.phase, Some(Phase::Completed));
    let before = world.job.generation;
    assert_eq!(done.observed_generation, Some(before));
    world.edit(&["a"], json!({ "firmware": "registry.example/esp32:0.3.0", "version": "0.3.0" }));
    let said = world.decide().status.unwrap_or_default();
    assert_eq!(said.phase, Some(Phase::Completed), "that of the firmware before");
    assert_eq!(said.observed_generation, Some(before));
    assert!(said.conditions.iter().all(|c| c.observed_generation == Some(before)));
    world.settle();
    world.ends("a", 0, "");
    let done = world.settle().status.unwrap_or_default();
    assert_eq!(done.phase, Some(Phase::Completed));
    assert_eq!(done.observed_generation, Some(world.job.generation));
}

#[test]
fn an_invalid_edit_starts_nothing_and_loses_nothing() {
    let mut world = World::new(&["a"], json!({}));
    world.settle();
    world.runs("a");
    world.edit(&["a"], json!({ "firmware": "" }));
    let stuck = world.settle();
    assert_eq!(phase(&stuck), Phase::Failed);
    assert_eq!(stuck.status.unwrap().message.as_deref(), Some("spec.firmware is empty"));
    world.ends("a", 0, "");
    world.settle();
    assert_eq!(world.record("a").outcome(), Some(Outcome::Succeeded), "its result is recorded");
    world.edit(&["a"], json!({}));
    assert_eq!(phase(&world.settle()), Phase::Completed);
}

#[test]
fn another_firmware_flashes_every_device_again_and_going_back_does_too() {
    let mut world = World::new(&["a"], json!({}));
    for (round, firmware) in ["f:1", "f:2", "f:1"].iter().enumerate() {
        world.edit(&["a"], json!({ "firmware": firmware }));
        let flashing = world.settle();
        assert_eq!(phase(&flashing), Phase::InProgress);
        assert_eq!(world.record("a").attempt as usize, round + 1);
        world.ends("a", 0, "");
        assert_eq!(phase(&world.settle()), Phase::Completed);
    }
}

#[test]
fn added_devices_reopen_a_job_and_those_taken_out_before_they_began_are_dropped() {
    let mut world = World::new(&["a"], json!({}));
    world.settle();
    world.ends("a", 0, "");
    assert_eq!(phase(&world.settle()), Phase::Completed);
    world.discover("b");
    world.edit(&["a", "b", "c"], json!({}));
    let reopened = world.settle();
    assert_eq!(phase(&reopened), Phase::InProgress);
    assert_eq!(state(&reopened, "c"), "Offline");
    world.edit(&["a", "b"], json!({}));
    world.settle();
    world.ends("b", 0, "");
    let done = world.settle();
    assert_eq!(phase(&done), Phase::Completed);
    assert_eq!(done.status.unwrap().done.as_deref(), Some("2/2"));
}

#[test]
fn a_device_taken_out_after_it_was_flashed_stays_on_record_and_is_not_flashed_again() {
    let mut world = World::new(&["a", "b"], json!({}));
    world.settle();
    world.ends("a", 0, "");
    world.runs("b");
    world.settle();
    world.edit(&["a"], json!({}));
    world.settle();
    assert!(world.record("b").is_open(), "what is under way goes on");
    world.ends("b", 0, "");
    let done = world.settle();
    assert_eq!(done.status.unwrap().done.as_deref(), Some("2/2"), "its result stays");
    world.edit(&["a"], json!({ "firmware": "f:2" }));
    world.settle();
    assert_eq!((world.record("a").attempt, world.record("b").attempt), (2, 1));
    world.ends("a", 0, "");
    let done = world.settle();
    assert_eq!(phase(&done), Phase::Completed);
    assert_eq!(done.status.unwrap().done.as_deref(), Some("1/1"));
    // And back in: it is due, for it has not got this firmware.
    world.edit(&["a", "b"], json!({ "firmware": "f:2" }));
    world.settle();
    assert_eq!(world.record("b").attempt, 2);
}

#[test]
fn deletion_ends_pods_then_services_then_lets_go() {
    let mut world = World::new(&["a"], json!({}));
    world.settle();
    world.runs("a");
    world.job.deleting = true;
    let kinds = |plan: &Plan| plan.deletes.iter().map(|d| d.kind).collect::<Vec<_>>();
    let first = world.step();
    assert_eq!(first.held_locks, Some(vec![lock("at-a")]), "its board is not free yet");
    assert_eq!((kinds(&first), first.remove_finalizer), (vec![Kind::Pod(1)], false));
    let second = world.step();
    assert_eq!((kinds(&second), second.remove_finalizer), (vec![Kind::Service], false));
    let third = world.step();
    assert!(third.deletes.is_empty() && third.remove_finalizer);
    assert!(!world.step().remove_finalizer, "once");
}

#[test]
fn clocks_stand_still_in_a_job_that_is_held_from_the_start() {
    let mut world = World::new(&["a"], json!({ "suspend": true }));
    world.instances.remove("ns", "a");
    world.settle();
    world.after(3600);
    world.edit(&["a"], json!({}));
    assert_eq!(state(&world.settle(), "a"), "Offline");
}
