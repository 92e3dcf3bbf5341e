//! A permit is written ahead of a free slot. What is edited meanwhile holds for the Pod that was not made yet.

use flashjob_api::flashjob::Phase;
use serde_json::{Value, json};

use crate::world::World;
use crate::{at_work, phase};

/// Device a is being flashed; b has its permit and waits for the one slot.
fn b_waits_for_a() -> World {
    let mut world = World::new(&["a", "b"], one_at_a_time());
    world.settle();
    world.runs("a");
    world.settle();
    assert!(world.record("b").has_permit() && at_work(&world) == ["a"]);
    world
}

fn one_at_a_time() -> Value {
    json!({ "rollout": { "maxParallel": 1 } })
}

#[test]
fn a_device_taken_out_before_its_pod_was_made_is_not_flashed() {
    let mut world = b_waits_for_a();
    world.edit(&["a"], one_at_a_time());
    world.settle();
    world.ends("a", 0, "");
    let done = world.settle();
    assert_eq!(phase(&done), Phase::Completed);
    assert_eq!(done.status.unwrap().done.as_deref(), Some("1/1"));
    assert!(world.children().is_empty(), "its Service is gone, too");
}

#[test]
fn new_firmware_is_flashed_once_onto_a_device_whose_pod_was_not_made_yet() {
    let mut world = b_waits_for_a();
    let edited = json!({ "firmware": "f:2", "rollout": { "maxParallel": 1 } });
    world.edit(&["a", "b"], edited);
    world.settle();
    world.ends("a", 0, "");
    let mut flashed = Vec::new();
    for _ in 0..3 {
        world.settle();
        if let [device] = at_work(&world).as_slice() {
            flashed.push(device.clone());
            world.ends(device, 0, "");
        }
    }
    assert_eq!(phase(&world.settle()), Phase::Completed);
    flashed.sort();
    assert_eq!(flashed, ["a", "b"], "each once with the new one");
}
