//! The rules of a rollout and of who gets which board, each as a short story.

use flashjob_api::flashjob::Phase;
use flashjob_plan::flashjob::{LedgerPlan, Plan};
use serde_json::json;

use crate::world::World;
use crate::{at_work, phase, reason, state};

#[test]
fn batches_come_in_order_with_a_pause_between() {
    let rollout = json!({ "rollout": { "batchSize": 2, "delaySeconds": 60 } });
    let mut world = World::new(&["a", "b", "c", "d", "e"], rollout);
    let batch = |plan: &Plan| plan.status.as_ref().unwrap().batch.unwrap();
    let first = world.settle();
    assert_eq!(at_work(&world), ["a", "b"]);
    assert_eq!((batch(&first).current, batch(&first).of), (1, 3));
    world.ends("a", 0, "");
    world.settle();
    assert!(at_work(&world) == ["b"], "the batch ends when all of it has ended");
    world.ends("b", 1, r#"{"reason":"SignatureInvalid"}"#);
    let pause = world.settle();
    assert!(at_work(&world).is_empty());
    assert_eq!(pause.next_reconcile, Some(world.now + jiff::SignedDuration::from_secs(60)));
    world.after(60);
    world.settle();
    assert_eq!(at_work(&world), ["c", "d"]);
    for device in ["c", "d"] {
        world.ends(device, 0, "");
    }
    world.settle();
    world.after(60);
    let last = world.settle();
    assert_eq!(at_work(&world), ["e"]);
    assert_eq!((batch(&last).current, batch(&last).of), (3, 3));
    world.ends("e", 0, "");
    assert_eq!(phase(&world.settle()), Phase::Failed);
}

#[test]
fn a_missing_device_is_missed_from_its_turn_on() {
    let rollout = json!({ "rollout": { "batchSize": "50%" } });
    let mut world = World::new(&["a", "b"], rollout);
    world.instances.remove("ns", "b");
    world.settle();
    world.runs("a");
    world.after(500);
    world.ends("a", 0, "");
    let turn = world.settle();
    assert_eq!(state(&turn, "b"), "Offline", "its clock starts with its batch");
    world.after(300);
    assert_eq!(reason(&world.settle()), "DeviceNotFound");
}

#[test]
fn too_many_failures_stop_new_starts_and_end_the_job() {
    let rollout = json!({
        "rollout": { "batchSize": 1, "maxFailures": 1 }, "retry": { "limit": 0 },
    });
    let mut world = World::new(&["a", "b", "c", "d"], rollout);
    for device in ["a", "b"] {
        world.settle();
        world.ends(device, 1, "no");
    }
    let stopped = world.settle();
    assert!(at_work(&world).is_empty());
    assert_eq!(phase(&stopped), Phase::Failed);
    let status = stopped.status.unwrap();
    assert_eq!(status.conditions[1].reason, "FailureBudgetExceeded");
    assert_eq!((status.counts.unwrap().failed, status.counts.unwrap().pending), (2, 2));
    assert!(stopped.finished);
    // A person allows more: it goes on.
    world.edit(&["a", "b", "c", "d"], json!({ "rollout": { "batchSize": 1, "maxFailures": 2 } }));
    let on = world.settle();
    assert_eq!((phase(&on), at_work(&world)), (Phase::InProgress, vec!["c".to_owned()]));
}

#[test]
fn devices_in_back_off_leave_no_room_for_first_starts() {
    let more = json!({ "rollout": { "maxParallel": 1, "maxFailures": 0 } });
    let mut world = World::new(&["a", "b"], more);
    world.settle();
    world.ends("a", 1, "no");
    world.settle();
    assert!(at_work(&world).is_empty(), "b has to wait for what becomes of a");
    world.after(10);
    world.settle();
    assert_eq!(at_work(&world), ["a"]);
    world.ends("a", 0, "");
    world.settle();
    assert_eq!(at_work(&world), ["b"]);
}

#[test]
fn an_aborted_job_ends_when_what_flashes_has_ended() {
    let mut world = World::new(&["a", "b"], json!({ "rollout": { "maxParallel": 1 } }));
    world.settle();
    world.runs("a");
    world.edit(&["a", "b"], json!({ "rollout": { "maxParallel": 1 }, "abort": true }));
    assert_eq!(phase(&world.settle()), Phase::InProgress);
    world.ends("a", 0, "");
    let ended = world.settle();
    assert_eq!(phase(&ended), Phase::Failed);
    assert_eq!(ended.status.unwrap().conditions[1].reason, "Aborted");
    assert!(world.children().is_empty(), "Services are given back");
}

#[test]
fn a_nonce_gives_failed_devices_fresh_attempts_once() {
    let once = |nonce: &str| json!({ "retry": { "limit": 0, "nonce": nonce } });
    let mut world = World::new(&["a", "b"], once("1"));
    world.settle();
    world.ends("a", 0, "");
    world.ends("b", 1, "no");
    assert_eq!(phase(&world.settle()), Phase::Failed, "the first nonce asks for nothing");
    world.edit(&["a", "b"], once("2"));
    world.settle();
    assert_eq!(at_work(&world), ["b"], "only the one that failed");
    world.ends("b", 1, "no again");
    assert_eq!(phase(&world.settle()), Phase::Failed, "once");
    assert_eq!(world.record("b").attempt, 2);
}

#[test]
fn a_finished_job_is_deleted_after_its_time() {
    let mut world = World::new(&["a"], json!({ "ttlSecondsAfterFinished": 30 }));
    world.settle();
    world.after(100);
    assert!(!world.settle().expire, "not while it works");
    world.ends("a", 0, "");
    let done = world.settle();
    assert!(!done.expire);
    assert_eq!(done.next_reconcile, Some(world.now + jiff::SignedDuration::from_secs(30)));
    world.after(30);
    assert!(world.settle().expire);
}

#[test]
fn a_selector_chooses_when_the_job_starts_and_with_each_new_firmware() {
    let selector = json!({ "uuid": null, "deviceSelector": { "device": "ESP-32" } });
    let mut world = World::new(&[], selector);
    let none = world.step();
    assert_eq!((phase(&none), none.ledger), (Phase::Pending, LedgerPlan::Keep));
    assert_eq!(none.status.unwrap().conditions[2].reason, "NoDevices");
    for name in ["a", "b"] {
        world.discover(name);
    }
    world.settle();
    assert_eq!(at_work(&world), ["ns/a", "ns/b"]);
    world.discover("c");
    world.settle();
    assert_eq!(at_work(&world).len(), 2, "the choice is kept");
    for device in ["ns/a", "ns/b"] {
        world.ends(device, 0, "");
    }
    assert_eq!(phase(&world.settle()), Phase::Completed);
    let selector = json!({
        "uuid": null, "deviceSelector": { "device": "esp32" }, "firmware": "f:2",
    });
    world.edit(&[], selector);
    world.settle();
    assert_eq!(at_work(&world), ["ns/a", "ns/b", "ns/c"]);
}

#[test]
fn a_device_that_is_named_and_chosen_is_one_device() {
    let both = json!({ "deviceSelector": { "configuration": "" , "device": "esp32" } });
    let mut world = World::new(&["a"], both);
    world.discover("b");
    world.settle();
    assert_eq!(at_work(&world), ["a", "ns/b"]);
}

#[test]
fn the_last_five_revisions_are_remembered() {
    let mut world = World::new(&["a", "b"], json!({ "retry": { "limit": 0 } }));
    for round in 1..=7 {
        world.edit(
            &["a", "b"],
            json!({ "firmware": format!("f:{round}"), "retry": { "limit": 0 } }),
        );
        world.settle();
        world.ends("a", 0, "");
        world.ends("b", i32::from(round % 2 == 0), "");
        world.settle();
    }
    let history = &world.ledger.as_ref().unwrap().header.history;
    let told: Vec<_> = history.iter().map(|p| (p.firmware.as_str(), p.done, p.failed)).collect();
    assert_eq!(told, [("f:2", 1, 1), ("f:3", 2, 0), ("f:4", 1, 1), ("f:5", 2, 0), ("f:6", 1, 1)]);
    assert!(history.iter().all(|past| past.completed.is_some() && past.total == 2));
}

#[test]
fn a_device_that_is_written_twice_is_flashed_once() {
    let mut world = World::new(&[], json!({}));
    world.discover("a");
    let written = ["a", "ns/a", "uid-b", "b"];
    world.edit(&written, json!({}));
    world.settle();
    assert_eq!(at_work(&world), ["a"]);
    world.discover("b");
    world.settle();
    assert_eq!(at_work(&world), ["a", "uid-b"]);
    for firmware in ["f:1", "f:2"] {
        world.edit(&written, json!({ "firmware": firmware }));
        world.settle();
        assert_eq!(at_work(&world), ["a", "uid-b"], "also with another firmware");
        for device in ["a", "uid-b"] {
            world.ends(device, 0, "");
        }
        let done = world.settle();
        assert_eq!(phase(&done), Phase::Completed);
        let counts = done.status.unwrap().counts.unwrap();
        assert_eq!((counts.succeeded, counts.skipped), (2, 2));
    }
    assert_eq!(world.record("b").message(), Some("the same device as uid-b"));
}

#[test]
fn a_tag_that_moves_stops_the_rollout() {
    let mut world = World::new(&["a", "b", "c"], json!({ "rollout": { "batchSize": 1 } }));
    for (device, digest) in [("a", "sha256:1"), ("b", "sha256:2")] {
        world.settle();
        world.ends(device, 0, &json!({ "result": "Succeeded", "digest": digest }).to_string());
    }
    let stopped = world.settle();
    assert!(at_work(&world).is_empty());
    assert_eq!(stopped.status.unwrap().conditions[1].reason, "FirmwareChanged");
    world.edit(&["a", "b", "c"], json!({ "firmware": "f@sha256:2" }));
    world.settle();
    assert_eq!(at_work(&world), ["a", "b", "c"], "another revision goes on");
}
