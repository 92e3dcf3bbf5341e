//! From the ledger to the result: one device's way, each rule as a short story.

use flashjob_api::flashjob::Phase;
use flashjob_plan::flashjob::facts::Refusal;
use flashjob_plan::flashjob::instances::Instance;
use flashjob_plan::flashjob::{Kind, LedgerPlan, NewObject};
use serde_json::json;

use crate::world::World;
use crate::{phase, reason, state};

#[test]
fn nothing_is_made_before_the_ledger_is_sealed_and_the_job_is_marked() {
    let mut world = World::new(&["a"], json!({}));
    let first = world.step();
    assert!(matches!(first.ledger, LedgerPlan::Create(_)) && first.creates.is_empty());
    let second = world.step();
    assert!(second.add_finalizer.is_some() && second.creates.is_empty());
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
    assert!(done.finished && done.next_reconcile.is_none(), "nothing more to wait for");
}

#[test]
fn a_failure_is_retried_after_a_growing_pause_and_then_final() {
    let mut world = World::new(&["a"], json!({ "retry": { "limit": 1, "backoffSeconds": 10 } }));
    world.settle();
    world.ends("a", 1, r#"{"reason":"NotBack","message":"it is gone"}"#);
    let paused = world.settle();
    assert_eq!(state(&paused, "a"), "BackOff");
    assert_eq!(paused.next_reconcile, Some(world.now + jiff::SignedDuration::from_secs(10)));
    world.after(10);
    world.settle();
    assert_eq!(world.record("a").attempt, 2);
    world.ends("a", 1, "plain words");
    let failed = world.settle();
    assert_eq!(phase(&failed), Phase::Failed);
    assert_eq!(reason(&failed), "FlashFailed");
    assert_eq!(failed.status.unwrap().failures[0].message, "plain words");
    assert_eq!(world.record("a").tries(), 2);
}

/// The flasher tells by it that an earlier attempt has flashed the board and was not heard: it must not do so twice.
#[test]
fn every_attempt_is_told_what_the_board_ran_before_the_first() {
    let mut world = World::new(&["a"], json!({ "retry": { "limit": 1, "backoffSeconds": 1 } }));
    let found = |version: &str| Instance {
        uid: format!("uid-at-{version}"),
        namespace: "ns".into(),
        name: "a".into(),
        endpoint: "at-a".into(),
        device: "esp32".into(),
        version: version.into(),
        ..Instance::default()
    };
    let previous = |world: &mut World| {
        for _ in 0..10 {
            let made = world.step().creates.into_iter().find_map(|object| match object {
                NewObject::Pod { object, .. } => Some(object.spec.unwrap().containers.remove(0)),
                NewObject::Service { .. } => None,
            });
            if let Some(container) = made {
                let env = container.env.unwrap();
                return env.into_iter().find(|e| e.name == "PREVIOUS_VERSION").unwrap().value;
            }
        }
        panic!("no Pod was made");
    };
    world.instances.insert(found("0"));
    assert_eq!(previous(&mut world).as_deref(), Some("0"));
    // The board took the image, and the attempt did not hear of it; Akri did.
    world.ends("a", 1, r#"{"reason":"NotBack"}"#);
    world.instances.insert(found("1"));
    world.settle();
    world.after(1);
    assert_eq!(previous(&mut world).as_deref(), Some("0"), "not what Akri has seen since");
    // Given up, and asked for again by a person.
    world.ends("a", 1, r#"{"reason":"NotBack"}"#);
    world.settle();
    world.edit(&["a"], json!({ "retry": { "nonce": "again" } }));
    assert_eq!(previous(&mut world).as_deref(), Some("0"));
    // Another firmware, and what it runs now is what it ran before.
    world.ends("a", 0, "");
    world.edit(&["a"], json!({ "version": "2" }));
    assert_eq!(previous(&mut world).as_deref(), Some("1"));
}

#[test]
fn a_device_lost_late_in_a_long_rollout_is_missed_from_then_on() {
    let spec = json!({ "rollout": { "maxParallel": 1 }, "timeouts": { "offlineSeconds": 60 } });
    let mut world = World::new(&["a", "b", "c"], spec);
    world.settle();
    world.after(500);
    world.instances.lose("ns", "c", world.now);
    world.instances.remove("ns", "c");
    let away = world.settle();
    assert_eq!(state(&away, "c"), "Offline");
    assert_eq!(away.next_reconcile, Some(world.now + jiff::SignedDuration::from_secs(60)));
    world.after(59);
    world.discover("c");
    world.settle();
    assert_eq!(world.record("c").outcome(), None);
    world.instances.lose("ns", "c", world.now);
    world.instances.remove("ns", "c");
    world.after(60);
    assert_eq!(reason(&world.settle()), "DeviceNotFound");
    // A new process knows it from its first list on.
    let mut restarted = World::new(&["a"], json!({ "timeouts": { "offlineSeconds": 60 } }));
    restarted.step();
    restarted.instances.remove("ns", "a");
    restarted.after(500);
    restarted.instances.listed_at = Some(restarted.now);
    assert_eq!(state(&restarted.settle(), "a"), "Offline");
    restarted.after(60);
    assert_eq!(reason(&restarted.settle()), "DeviceNotFound");
}

#[test]
fn some_failures_are_final_at_once() {
    let mut world = World::new(&["a"], json!({}));
    world.settle();
    world.ends("a", 1, r#"{"reason":"SignatureInvalid","message":"no signature"}"#);
    assert_eq!(reason(&world.settle()), "SignatureInvalid");
    let mut world = World::new(&["a"], json!({ "device": "ESP-32_s3" }));
    assert_eq!(reason(&world.settle()), "WrongDevice");
    assert!(world.children().is_empty(), "nothing was made for it");
}

#[test]
fn a_vanished_pod_is_a_counted_attempt() {
    let mut world = World::new(&["a"], json!({ "retry": { "limit": 0 } }));
    world.settle();
    world.runs("a");
    world.loses_pod("a");
    assert_eq!(reason(&world.settle()), "PodLost");
}

#[test]
fn a_pod_that_vanished_after_its_end_was_seen_is_not_lost() {
    let mut world = World::new(&["a"], json!({}));
    world.settle();
    world.ends("a", 0, "");
    world.loses_pod("a");
    assert_eq!(phase(&world.settle()), Phase::Completed);
    assert_eq!(world.record("a").attempt, 1, "it is not flashed again");
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
fn a_refused_create_is_no_attempt_and_ends_as_create_refused() {
    let mut world = World::new(&["a"], json!({}));
    world.step();
    world.step();
    let target = world.record("a").target;
    let refusal = Refusal {
        message: "exceeded quota".into(),
        definite: true,
        conflict: false,
        since: world.now,
        times: 1,
        retry_at: world.now,
    };
    world.index.refuse(&world.job.uid, target, Kind::Service, refusal);
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
        world
            .children()
            .values()
            .flat_map(|c| c.pods.values())
            .filter(|p| p.here().is_some())
            .count()
    };
    world.settle();
    assert_eq!(pods(&world), 2);
    for round in 1..=5 {
        let open: Vec<String> = devices
            .iter()
            .filter(|d| {
                let record = world.record(d);
                let children = world.children().get(&record.target);
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
