//! The rules of a device's way, each as a short story.

#![allow(clippy::unwrap_used)] // a test may stop at once and say why

mod addresses;
mod edits;
mod original;
mod permits;
mod places;
mod properties;
mod rollouts;
mod world;

use flashjob_api::Phase;
use flashjob_plan::facts::Refusal;
use flashjob_plan::instances::Instance;
use flashjob_plan::ledger::Outcome;
use flashjob_plan::{Kind, LedgerPlan, NewObject, Plan};
use serde_json::json;
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

#[test]
fn nothing_is_made_before_the_ledger_is_sealed_and_the_job_is_marked() {
    let mut world = World::new(&["a"], json!({}));
    let first = world.step();
    assert!(matches!(first.ledger, LedgerPlan::Create(_)) && first.creates.is_empty());
    let second = world.step();
    assert!(second.mark.is_some() && second.creates.is_empty());
    let third = world.step();
    assert!(matches!(third.creates[..], [NewObject::Service { .. }]));
    let fourth = world.step();
    assert!(matches!(fourth.ledger, LedgerPlan::Update(_)), "the permit");
    assert!(fourth.creates.is_empty(), "no Pod before the permit is acknowledged");
    let fifth = world.step();
    assert!(matches!(fifth.creates[..], [NewObject::Pod { .. }]));
}

#[test]
fn objects_go_only_after_the_result_is_acknowledged() {
    let mut world = World::new(&["a"], json!({}));
    world.settle();
    world.ends("a", 0, "");
    let recorded = world.step();
    assert!(matches!(recorded.ledger, LedgerPlan::Update(_)) && recorded.deletes.is_empty());
    assert_eq!(recorded.ended[0].result, "Succeeded");
    let cleaned = world.step();
    let kinds: Vec<Kind> = cleaned.deletes.iter().map(|d| d.kind).collect();
    assert_eq!(kinds, [Kind::Pod(1), Kind::Service]);
    let done = world.settle();
    assert_eq!(phase(&done), Phase::Completed);
    assert!(done.finished && done.look_again.is_none(), "nothing more to wait for");
}

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
fn a_failure_is_retried_after_a_growing_pause_and_then_final() {
    let mut world = World::new(&["a"], json!({ "retry": { "limit": 1, "backoffSeconds": 10 } }));
    world.settle();
    world.ends("a", 1, r#"{"reason":"NotBack","message":"it is gone"}"#);
    let paused = world.settle();
    assert_eq!(state(&paused, "a"), "BackOff");
    assert_eq!(paused.look_again, Some(world.now + jiff::SignedDuration::from_secs(10)));
    world.after(10);
    world.settle();
    assert_eq!(world.record("a").attempt, 2);
    world.ends("a", 1, "plain words");
    let failed = world.settle();
    assert_eq!(phase(&failed), Phase::Failed);
    assert_eq!(reason(&failed), "FlashFailed");
    assert_eq!(failed.status.unwrap().failures[0].message, "plain words");
    assert_eq!(world.record("a").tries, 2);
}

#[test]
fn some_failures_are_final_at_once() {
    let mut world = World::new(&["a"], json!({}));
    world.settle();
    world.ends("a", 1, r#"{"reason":"SignatureInvalid","message":"no signature"}"#);
    assert_eq!(reason(&world.settle()), "SignatureInvalid");
    let mut world = World::new(&["a"], json!({ "device": "ESP-32_s3" }));
    assert_eq!(reason(&world.settle()), "WrongDevice");
    assert!(world.children.is_empty(), "nothing was made for it");
}

#[test]
fn a_vanished_pod_is_a_counted_attempt() {
    let mut world = World::new(&["a"], json!({ "retry": { "limit": 0 } }));
    world.settle();
    world.runs("a");
    world.pod("a").gone = true;
    assert_eq!(reason(&world.settle()), "PodLost");
}

#[test]
fn every_wait_has_an_end() {
    // The device.
    let mut world = World::new(&["a"], json!({}));
    world.instances.remove("ns", "a");
    assert_eq!(state(&world.settle(), "a"), "Offline");
    world.after(300);
    assert_eq!(reason(&world.settle()), "DeviceNotFound");
    // The address.
    let mut world = World::new(&["a"], json!({}));
    world.addresses = false;
    assert_eq!(state(&world.settle(), "a"), "Addressing");
    world.after(120);
    assert_eq!(reason(&world.settle()), "AddressTimeout");
    // The start.
    let mut world = World::new(&["a"], json!({ "retry": { "limit": 0 } }));
    assert_eq!(state(&world.settle(), "a"), "Starting");
    world.after(600);
    assert_eq!(reason(&world.settle()), "NotStarted");
    // The end.
    let mut world = World::new(&["a"], json!({ "retry": { "limit": 0 } }));
    world.settle();
    world.runs("a");
    assert_eq!(state(&world.settle(), "a"), "Flashing");
    world.after(660);
    assert_eq!(reason(&world.settle()), "Timeout");
}

#[test]
fn a_board_stays_held_until_its_pod_is_over() {
    let mut world = World::new(&["a"], json!({ "retry": { "limit": 0 } }));
    world.settle();
    world.runs("a");
    let target = world.record("a").target.clone();
    world.after(660);
    world.step();
    // The result is written; the Pod is still there.
    let deleting = world.decide();
    assert_eq!(deleting.claims, Some(vec!["at-a".into()]));
    world.children.get_mut(&target).unwrap().pods.get_mut(&1).unwrap().gone = true;
    assert_eq!(world.decide().claims, Some(vec![]));
}

#[test]
fn a_board_that_another_job_holds_is_waited_for() {
    let mut world = World::new(&["a", "b"], json!({}));
    world.introduce("other", "other", 5);
    world.boards.hold("other", vec!["at-a".into()]);
    world.boards.know("job-uid", "at-a");
    let plan = world.settle();
    assert_eq!(state(&plan, "a"), "Blocked");
    assert_eq!(state(&plan, "b"), "Starting", "it delays no other");
    assert_eq!(plan.claims, Some(vec!["at-b".into()]));
    world.boards.hold("other", vec![]);
    assert_eq!(state(&world.settle(), "a"), "Starting");
}

#[test]
fn an_older_job_that_wants_a_board_now_goes_first() {
    let mut world = World::new(&["a"], json!({}));
    world.introduce("job-uid", "job", 10);
    world.introduce("older", "older", 5);
    world.boards.know("older", "at-a");
    world.boards.want("older", vec!["at-a".into()]);
    let plan = world.settle();
    assert_eq!(state(&plan, "a"), "Blocked");
    assert_eq!(plan.wants, ["at-a"]);
    world.boards.want("older", vec![]);
    assert_eq!(state(&world.settle(), "a"), "Starting");
}

#[test]
fn what_a_newer_job_has_flashed_since_is_not_undone() {
    let mut world = World::new(&["a"], json!({ "suspend": true }));
    world.settle();
    world.introduce("newer", "newer", 5);
    world.after(10);
    world.boards.flashed("newer", "at-a", world.now);
    world.after(10);
    world.edit(&["a"], json!({}));
    let plan = world.settle();
    assert_eq!(phase(&plan), Phase::Completed);
    assert_eq!(world.record("a").outcome, Some(Outcome::Skipped));
    assert_eq!(world.record("a").reason.as_deref(), Some("Superseded"));
    // Another firmware is a new wish.
    world.edit(&["a"], json!({ "firmware": "f:3" }));
    assert_eq!(state(&world.settle(), "a"), "Starting");
}

#[test]
fn a_refused_create_is_no_attempt_and_ends_as_create_refused() {
    let mut world = World::new(&["a"], json!({}));
    world.step();
    world.step();
    let target = world.record("a").target.clone();
    let refusal = Refusal {
        message: "exceeded quota".into(),
        definite: true,
        conflict: false,
        since: world.now,
        times: 1,
        retry_at: world.now + jiff::SignedDuration::from_secs(1),
    };
    let children = world.children.entry(target.clone()).or_default();
    children.service.refused = Some(refusal);
    let plan = world.decide();
    assert!(plan.creates.is_empty() && state(&plan, "a") == "BackOff");
    world.after(1);
    assert_eq!(world.decide().creates.len(), 1, "tried again");
    world.after(600);
    let failed = world.settle();
    assert_eq!(reason(&failed), "CreateRefused");
    assert_eq!(failed.status.unwrap().failures[0].attempts, 0);
}

#[test]
fn no_more_than_max_parallel_at_once() {
    let devices = ["a", "b", "c", "d", "e"];
    let mut world = World::new(&devices, json!({ "rollout": { "maxParallel": 2 } }));
    let pods = |world: &World| {
        world.children.values().flat_map(|c| c.pods.values()).filter(|p| p.here().is_some()).count()
    };
    world.settle();
    assert_eq!(pods(&world), 2);
    for round in 1..=5 {
        let open: Vec<String> = devices
            .iter()
            .filter(|d| {
                let record = world.record(d);
                let children = world.children.get(&record.target);
                children.is_some_and(|c| c.pods.values().any(|p| p.here().is_some()))
            })
            .map(|d| (*d).to_owned())
            .collect();
        world.ends(&open[0], 0, "");
        world.settle();
        assert_eq!(pods(&world), 2.min(5 - round));
    }
    assert_eq!(phase(&world.settle()), Phase::Completed);
}

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
    assert_eq!(world.record("a").outcome, Some(Outcome::Succeeded));
    assert_eq!(world.record("b").outcome, None, "clocks stand still");
    world.edit(&["a", "b"], json!({}));
    world.settle();
    world.ends("b", 0, "");
    assert_eq!(phase(&world.settle()), Phase::Completed);
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
    assert_eq!(world.record("a").outcome, Some(Outcome::Succeeded), "its result is recorded");
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

#[test]
fn deletion_ends_pods_then_services_then_lets_go() {
    let mut world = World::new(&["a"], json!({}));
    world.settle();
    world.runs("a");
    world.job.deleting = true;
    let kinds = |plan: &Plan| plan.deletes.iter().map(|d| d.kind).collect::<Vec<_>>();
    let first = world.step();
    assert_eq!(first.claims, Some(vec!["at-a".into()]), "its board is not free yet");
    assert_eq!((kinds(&first), first.release), (vec![Kind::Pod(1)], false));
    let second = world.step();
    assert_eq!((kinds(&second), second.release), (vec![Kind::Service], false));
    let third = world.step();
    assert!(third.deletes.is_empty() && third.release);
    assert!(!world.step().release, "once");
}

#[test]
fn an_instance_without_an_address_is_no_device_yet() {
    let mut world = World::new(&["a"], json!({}));
    let nowhere = Instance {
        uid: "uid-a".into(),
        namespace: "ns".into(),
        name: "a".into(),
        ..Instance::default()
    };
    world.instances.insert(nowhere);
    assert_eq!(state(&world.settle(), "a"), "Offline");
    world.discover("a");
    assert_eq!(state(&world.settle(), "a"), "Starting");
}

#[test]
fn what_is_locked_is_what_is_flashed() {
    let address = |world: &World| world.record("a").pinned.clone().unwrap().endpoint;
    let mut world = World::new(&["a"], json!({ "hostEndpoint": "10.0.0.9" }));
    let plan = world.settle();
    assert_eq!((plan.claims, address(&world)), (Some(vec!["10.0.0.9".into()]), "10.0.0.9".into()));
    // The board comes back at another address, for the next attempt.
    world.edit(&["a"], json!({ "retry": { "backoffSeconds": 0 } }));
    world.settle();
    world.ends("a", 1, "");
    let plan = world.settle();
    assert_eq!((plan.claims, address(&world)), (Some(vec!["at-a".into()]), "at-a".into()));
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
    assert!(world.record("b").open, "what is under way goes on");
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
fn a_job_that_lost_its_ledger_still_holds_the_board_its_pod_works_on() {
    let mut world = World::new(&["a"], json!({}));
    world.settle();
    world.runs("a");
    world.ledger = None;
    assert_eq!(world.step().claims, Some(vec!["at-a".into()]));
}

#[test]
fn a_failed_job_names_the_first_failure_and_a_useless_field_is_named() {
    let mut world =
        World::new(&["a", "b"], json!({ "hostEndpoint": "x", "retry": { "limit": 0 } }));
    world.settle();
    world.ends("a", 0, "");
    world.ends("b", 3, "no route");
    let message = world.settle().status.unwrap().message.unwrap();
    assert_eq!(
        message,
        "1 of 2 devices done, 1 failed; spec.hostEndpoint is ignored, it is for jobs with one \
         device; b: FlashFailed: no route"
    );
}
