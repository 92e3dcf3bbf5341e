//! Who has a place and who has lost it: devices taken out of a job, and devices ahead of their turn.

use flashjob_api::flashjob::Phase;
use flashjob_plan::flashjob::Plan;
use flashjob_plan::flashjob::instances::Instance;
use serde_json::{Value, json};

use crate::world::World;
use crate::{at_work, phase};

fn one_at_a_time() -> Value {
    json!({ "rollout": { "maxParallel": 1 } })
}

fn services(world: &World) -> usize {
    world.children().values().filter(|c| c.service.here().is_some()).count()
}

#[test]
fn a_device_taken_out_before_its_pod_was_sent_is_dropped() {
    let mut world = World::new(&["a", "b", "c"], one_at_a_time());
    world.settle();
    assert!(world.record("b").is_open(), "its permit waits for a free slot");
    world.edit(&["a", "c"], one_at_a_time());
    world.settle();
    for device in ["a", "c"] {
        assert_eq!(at_work(&world), [device]);
        world.ends(device, 0, "");
        world.settle();
    }
    let done = world.settle();
    assert_eq!(phase(&done), Phase::Completed);
    assert_eq!(done.status.unwrap().done.as_deref(), Some("2/2"));
    assert_eq!(services(&world), 0);
}

/// With thousands that wait, only a status that is told is worth looking for each of them.
#[test]
fn who_waits_for_a_turn_is_looked_for_when_the_status_is_told() {
    let mut world = World::new(&["a", "b", "c", "d"], one_at_a_time());
    world.settle();
    world.instances.remove("ns", "d");
    let counts = |plan: &Plan| plan.status.as_ref().unwrap().counts.unwrap();
    let told = counts(&world.decide());
    assert_eq!(told.offline, 1);
    let unheard = world.decide_unheard();
    assert_eq!((counts(&unheard).offline, counts(&unheard).pending), (0, told.pending + 1));
    assert!(!unheard.idle);
    world.introduce("other", "ns/other", 5);
    for board in ["at-c", "at-d"] {
        world.locks.know(&"other".into(), &board.into());
    }
    assert_eq!(counts(&world.decide_unheard()).offline, 1, "others may wait for what it wants");
}

#[test]
fn a_device_taken_out_between_two_attempts_stays_on_record_as_failed() {
    for taken_out_while_it_runs in [true, false] {
        let mut world = World::new(&["a", "b"], json!({}));
        world.settle();
        world.ends("a", 0, "");
        world.runs("b");
        world.settle();
        if taken_out_while_it_runs {
            world.edit(&["a"], json!({}));
            world.settle();
        }
        world.ends("b", 1, "no such partition");
        world.settle();
        world.edit(&["a"], json!({}));
        let ended = world.settle();
        assert_eq!(phase(&ended), Phase::Failed);
        let status = ended.status.unwrap();
        assert_eq!(status.done.as_deref(), Some("1/2"));
        let failure = &status.failures[0];
        assert_eq!((failure.attempts, failure.message.as_str()), (1, "no such partition"));
        world.after(3600);
        world.settle();
        assert_eq!(at_work(&world), Vec::<String>::new(), "and is not tried again");
    }
}

#[test]
fn as_many_as_may_be_flashed_at_once_have_a_service_ahead_of_their_turn() {
    let rollout = json!({ "rollout": { "maxParallel": 2 } });
    let devices = ["a", "b", "c", "d", "e", "f", "g"];
    let mut world = World::new(&devices, rollout);
    world.settle();
    assert_eq!((at_work(&world).len(), services(&world)), (2, 4));
    world.ends("a", 0, "");
    world.settle();
    assert_eq!((at_work(&world).len(), services(&world)), (2, 4));
}

#[test]
fn a_device_that_waits_for_its_next_attempt_takes_nobodys_place() {
    let mut world = World::new(&["a", "b", "c", "d"], one_at_a_time());
    world.settle();
    for device in ["a", "b", "c"] {
        assert_eq!(at_work(&world), [device]);
        world.ends(device, 1, "");
        world.settle();
    }
    assert_eq!(at_work(&world), ["d"], "no pause has passed");
}

/// A world where one board has two Instances.
fn one_board_twice() -> World {
    let mut world = World::new(&["a", "b"], json!({}));
    let a = world.instances.get("ns", "a").unwrap().clone();
    let b = Instance { name: "b".into(), uid: "uid-b".into(), ..a };
    world.instances.insert(b);
    world
}

fn completed(plan: &Plan) -> Vec<String> {
    plan.status.as_ref().unwrap().completed_uuids.clone()
}

#[test]
fn a_second_name_for_a_board_is_done_when_the_first_is() {
    let mut world = one_board_twice();
    let working = world.settle();
    assert_eq!((at_work(&world), completed(&working)), (vec!["a".to_owned()], vec![]));
    world.ends("a", 0, "");
    assert_eq!(completed(&world.settle()), ["a", "b"]);

    let mut world = one_board_twice();
    for _ in 0..3 {
        world.settle();
        world.ends("a", 1, "");
        world.settle();
        world.after(600);
    }
    let failed = world.settle();
    assert_eq!((phase(&failed), completed(&failed)), (Phase::Failed, vec![]));
}

#[test]
fn a_second_name_for_a_board_takes_the_place_of_the_first_when_that_is_taken_out() {
    // Before it was flashed.
    let mut world = one_board_twice();
    world.settle();
    world.ends("a", 1, "");
    world.settle();
    world.edit(&["b"], json!({}));
    world.settle();
    assert_eq!(at_work(&world), ["b"]);
    world.ends("b", 0, "");
    world.settle();
    assert_eq!(completed(&world.settle()), ["b"]);

    // After it was flashed: not again, but with the next firmware.
    let mut world = one_board_twice();
    world.settle();
    world.ends("a", 0, "");
    world.settle();
    world.edit(&["b"], json!({}));
    world.settle();
    assert_eq!(at_work(&world), Vec::<String>::new());
    world.edit(&["b"], json!({ "firmware": "f:2" }));
    world.settle();
    assert_eq!(at_work(&world), ["b"]);
}
