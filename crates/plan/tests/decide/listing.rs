//! A process that has just started and is still listing Akri's Instances: what was listed is there, what was not may come.

use flashjob_plan::flashjob::facts::DeviceNamespaces;
use flashjob_plan::flashjob::instances::{Instance, Instances};
use flashjob_plan::flashjob::{LedgerPlan, NewObject};
use serde_json::json;

use crate::state;
use crate::world::World;

/// A job with a ledger and no object yet, and a process that begins to list.
fn restarted(more: serde_json::Value) -> World {
    let mut world = World::new(&["a", "b"], more);
    world.step();
    world.step();
    world.instances = Instances::being_listed();
    world
}

#[test]
fn a_device_that_was_listed_goes_on_and_one_that_was_not_is_not_offline() {
    let mut world = restarted(json!({ "timeouts": { "offlineSeconds": 60 } }));
    world.discover("b");
    world.after(3600);
    let plan = world.decide();
    assert!(matches!(plan.creates[..], [NewObject::Service { .. }]));
    assert_eq!(state(&plan, "b"), "Addressing");
    let counts = plan.status.unwrap().counts.unwrap();
    assert_eq!((counts.offline, counts.pending, counts.failed), (0, 1, 0));
}

#[test]
fn a_device_is_not_taken_for_another_at_its_address_while_its_own_may_still_come() {
    let mut world = restarted(json!({}));
    world.instances.insert(Instance {
        uid: "uid-other".into(),
        namespace: "ns".into(),
        name: "other".into(),
        endpoint: "at-a".into(),
        ..Instance::default()
    });
    let plan = world.decide();
    assert!(plan.creates.is_empty() && plan.ledger == LedgerPlan::Keep);
    world.instances.listing = false;
    assert!(matches!(world.decide().ledger, LedgerPlan::Update(_)), "it has another name now");
}

#[test]
fn whose_board_an_address_is_has_to_be_known_before_it_is_flashed() {
    let mut world = World::new(&["a"], json!({ "hostEndpoint": "192.0.2.7" }));
    world.settings.device_namespaces = DeviceNamespaces::Own;
    world.step();
    world.step();
    world.step();
    world.instances = Instances::being_listed();
    world.discover("a");
    assert!(world.decide().creates.is_empty(), "the board may be the next");
    world.instances.insert(Instance {
        uid: "uid-other".into(),
        namespace: "elsewhere".into(),
        name: "other".into(),
        endpoint: "http://192.0.2.7/".into(),
        ..Instance::default()
    });
    world.instances.listing = false;
    world.settle();
    assert_eq!(world.record("a").reason(), Some("WrongDevice"));
}

#[test]
fn a_job_begins_and_is_edited_when_all_devices_it_may_mean_are_known() {
    let mut new = World::new(&["a"], json!({}));
    new.instances.listing = true;
    let plan = new.decide();
    assert!(plan.ledger == LedgerPlan::Keep && plan.status.is_none(), "and says nothing yet");
    let selector = json!({ "deviceSelector": { "device": "esp32" } });
    let mut edited = restarted(selector.clone());
    edited.edit(&["a", "b", "c"], selector);
    assert_eq!(edited.decide().ledger, LedgerPlan::Keep, "a selector chooses from all there are");
    edited.instances.listing = false;
    assert!(matches!(edited.decide().ledger, LedgerPlan::Update(_)));
    let mut named = restarted(json!({}));
    named.edit(&["a", "b", "c"], json!({}));
    assert!(matches!(named.decide().ledger, LedgerPlan::Update(_)), "names need no list");
}

#[test]
fn a_name_is_not_looked_up_while_another_of_that_name_may_still_come() {
    let mut world = World::new(&["x"], json!({}));
    world.instances = Instances::default();
    world.step();
    world.step();
    world.instances = Instances::being_listed();
    world.instances.insert(Instance {
        uid: "uid-x".into(),
        namespace: "elsewhere".into(),
        name: "x".into(),
        endpoint: "at-x".into(),
        ..Instance::default()
    });
    assert_eq!(world.decide().ledger, LedgerPlan::Keep);
    world.instances.listing = false;
    assert!(matches!(world.decide().ledger, LedgerPlan::Update(_)), "there is no other");
}
