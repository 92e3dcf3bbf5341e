//! When a job has nothing to do with the world any more, so that its ledger need not be kept in memory. That such a job
//! decides the same whatever the world is like is held against every plan of every test, in [`World::decide`].

use serde_json::json;

use crate::world::World;

#[test]
fn a_finished_job_is_idle_once_nothing_of_it_is_left() {
    let mut world = World::new(&["a", "b"], json!({}));
    assert!(!world.decide().idle, "not begun");
    assert!(!world.settle().idle, "at work");
    world.ends("a", 0, "");
    world.ends("b", 1, r#"{"reason":"SignatureInvalid"}"#);
    assert!(!world.decide().idle, "its results are not written");
    let done = world.settle();
    assert!(done.idle && done.finished);
    world.edit(&["a", "b", "c"], json!({}));
    assert!(!world.decide().idle, "it is edited");
}

#[test]
fn a_held_job_is_idle_whatever_becomes_of_its_devices() {
    let mut world = World::new(&["a", "b"], json!({ "rollout": { "maxParallel": 1 } }));
    world.settle();
    world.runs("a");
    let held = json!({ "rollout": { "maxParallel": 1 }, "suspend": true });
    world.edit(&["a", "b"], held);
    assert!(!world.settle().idle, "a is being flashed");
    world.ends("a", 1, "no");
    let plan = world.settle();
    assert!(plan.idle && !plan.finished && plan.next_reconcile.is_none());
    let device = plan.status.unwrap().in_flight.remove(0);
    assert_eq!(device.message.as_deref(), Some("tried again when the job goes on: no"));
    world.instances.remove("ns", "b");
    world.after(86_400);
    let later = world.decide();
    assert!(later.idle);
    assert_eq!(later.status.unwrap().counts.map(|c| (c.pending, c.offline)), Some((1, 0)));
}

#[test]
fn a_job_that_is_wrong_or_has_lost_its_ledger_is_idle() {
    let mut world = World::new(&["a"], json!({}));
    world.settle();
    world.edit(&["a"], json!({ "firmware": "" }));
    assert!(!world.settle().idle, "it has a Pod");
    world.ends("a", 0, "");
    assert!(world.settle().idle);
    world.ledger = None;
    assert!(world.settle().idle);
}

#[test]
fn a_long_pause_between_batches_is_idle_and_a_short_one_is_not() {
    for (seconds, idle) in [(3600, true), (60, false)] {
        let rollout = json!({ "rollout": { "batchSize": 1, "delaySeconds": seconds } });
        let mut world = World::new(&["a", "b"], rollout);
        world.settle();
        world.ends("a", 0, "");
        let pause = world.settle();
        assert_eq!((pause.idle, pause.next_reconcile.is_some()), (idle, true), "{seconds}");
    }
}

#[test]
fn a_finished_job_that_is_to_be_deleted_is_idle_until_then() {
    let mut world = World::new(&["a"], json!({ "ttlSecondsAfterFinished": 10 }));
    world.settle();
    world.ends("a", 0, "");
    let kept = world.settle();
    assert!(kept.idle && !kept.expire && kept.next_reconcile.is_some());
    world.after(10);
    assert!(world.decide().expire);
}

#[test]
fn an_offline_device_of_a_job_that_goes_on_is_waited_for() {
    let mut world = World::new(&["a"], json!({ "timeouts": { "offlineSeconds": 86_400 } }));
    world.instances.remove("ns", "a");
    assert!(!world.settle().idle);
}
