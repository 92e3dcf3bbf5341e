//! How boards reach their flash Pods: scarce addresses, node ports, the node's own network.

use flashjob_plan::flashjob::addresses::Waiting;
use flashjob_plan::flashjob::locks::Lock;
use flashjob_plan::flashjob::spec::Spec;
use flashjob_plan::flashjob::{NewObject, Plan, Settings};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::world::World;

fn services(world: &World) -> usize {
    world.children().values().filter(|c| c.service.here().is_some()).count()
}

fn pods(plan: &Plan) -> Vec<&k8s_openapi::api::core::v1::Pod> {
    let creates = plan.creates.iter();
    let pods = creates.filter_map(|object| match object {
        NewObject::Pod { object, .. } => Some(object.as_ref()),
        NewObject::Service { .. } => None,
    });
    pods.collect()
}

/// A Service of another job in this namespace waits from now on for what the Services of this one wait for.
fn another_waits(world: &mut World, namespace: &str) {
    let waiting = Waiting {
        namespace: namespace.into(),
        job: "another".into(),
        service: "another-service".into(),
        pool: pool(world),
        since: world.now,
        until: world.now + SignedDuration::from_secs(86400),
    };
    world.waits.wait(&"another job".into(), Some(waiting), world.now);
}

fn an_address_is_given(world: &mut World) {
    let pool = pool(world);
    world.waits.given("ns", &pool, world.now);
}

fn pool(world: &World) -> String {
    world.job.spec.as_ref().unwrap().access.pool.clone()
}

fn message(plan: Plan) -> String {
    plan.status.unwrap().message.unwrap()
}

/// Looks until a Pod is asked for.
fn until_a_pod(world: &mut World) -> Plan {
    for _ in 0..10 {
        let plan = world.step();
        if !pods(&plan).is_empty() {
            return plan;
        }
    }
    panic!("no Pod was made: {:#?}", world.decide().status);
}

#[test]
fn only_devices_about_to_be_flashed_have_services() {
    let devices: Vec<String> = (0..20).map(|n| format!("board-{n}")).collect();
    let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
    let mut world = World::new(&devices, json!({ "rollout": { "maxParallel": 3 } }));
    world.settle();
    assert_eq!(services(&world), 6, "three at work, three ready for the next slots");
}

#[test]
fn devices_that_rest_hold_up_no_other() {
    let retry = json!({ "rollout": { "maxParallel": 1 }, "retry": { "backoffSeconds": 60 } });
    let mut world = World::new(&["a", "b", "c"], retry);
    world.settle();
    world.ends("a", 1, "");
    world.settle();
    world.ends("b", 1, "");
    world.settle();
    assert!(world.record("c").is_open(), "the turn of c has come");
    assert_eq!(services(&world), 3, "those in back-off keep their addresses");
}

#[test]
fn addresses_of_devices_that_rest_go_to_those_who_wait() {
    let mut world = World::new(&["a"], json!({ "retry": { "backoffSeconds": 60 } }));
    world.settle();
    world.ends("a", 1, "");
    world.settle();
    assert_eq!(services(&world), 1);
    another_waits(&mut world, "ns");
    world.after(6);
    world.settle();
    assert_eq!(services(&world), 0);
    world.waits.wait(&"another job".into(), None, world.now);
    world.after(60);
    world.settle();
    assert!(world.record("a").is_open(), "it is tried again with a new one");
}

#[test]
fn a_queue_that_moves_is_a_queue_and_devices_that_rest_give_back_their_addresses() {
    let mut world = World::new(&["a"], json!({ "retry": { "backoffSeconds": 60 } }));
    world.settle();
    world.ends("a", 1, "");
    world.settle();
    another_waits(&mut world, "ns");
    an_address_is_given(&mut world);
    world.settle();
    assert_eq!(services(&world), 1, "nobody has waited for long");
    world.after(1);
    an_address_is_given(&mut world);
    world.settle();
    assert_eq!(services(&world), 0);
}

#[test]
fn a_device_that_failed_gives_way_to_those_not_tried_yet() {
    let more = json!({ "rollout": { "maxParallel": 1 }, "retry": { "backoffSeconds": 1 } });
    let mut world = World::new(&["a", "b", "c"], more);
    world.addresses = false;
    world.settle();
    world.gets_address("a");
    world.settle();
    world.ends("a", 1, "");
    world.after(6);
    world.settle();
    assert_eq!(services(&world), 1, "a has given its address back, b waits for one");
    world.after(1);
    world.gets_address("b");
    world.settle();
    assert!(world.record("b").is_open());
    let target = world.record("c").target;
    assert!(world.children()[&target].service.here().is_some(), "c is next");
    for device in ["b", "c"] {
        world.ends(device, 0, "");
        world.settle();
        world.gets_address(if device == "b" { "c" } else { "a" });
        world.settle();
    }
    assert!(world.record("a").is_open(), "and then a is tried again");
}

#[test]
fn a_device_that_failures_leave_no_room_for_gives_its_address_to_those_who_wait() {
    let spec = json!({
        "rollout": { "maxParallel": 1, "maxFailures": 0 }, "retry": { "backoffSeconds": 60 },
    });
    let mut world = World::new(&["a", "b"], spec);
    world.settle();
    world.ends("a", 1, "");
    world.settle();
    assert_eq!(services(&world), 2, "both keep theirs while there are enough");
    another_waits(&mut world, "ns");
    world.after(6);
    world.settle();
    assert_eq!(services(&world), 0);
    world.waits.wait(&"another job".into(), None, world.now);
    world.after(60);
    world.settle();
    assert_eq!((world.record("a").is_open(), world.record("b").is_open()), (true, false));
}

#[test]
fn no_service_is_made_while_one_of_another_job_waits_too_long() {
    let mut world = World::new(&["a"], json!({}));
    another_waits(&mut world, "ns");
    world.after(6);
    let plan = world.settle();
    assert_eq!(services(&world), 0);
    assert_eq!(
        message(plan),
        "0 of 1 device done, 1 pending; waiting for an address behind Service another-service of FlashJob ns/another, \
         which has waited since 1970-01-01 00:00:00 UTC and is given up at 1970-01-02 00:00:00 UTC"
    );
    an_address_is_given(&mut world);
    world.settle();
    assert_eq!(services(&world), 1, "an address was given to somebody: there may be more");
}

/// A job in this namespace with this much about its Services, beside one in `ns` whose Service nobody has served for ten
/// seconds and which has a day.
fn beside_one_that_nobody_serves(namespace: &str, service: Value, wanted: Value) -> World {
    let (class, day) = (json!({ "loadBalancerClass": "typo" }), json!({ "addressSeconds": 86400 }));
    let mut unserved =
        World::named("ns/unserved", 0, &["x"], json!({ "service": class, "timeouts": day }));
    unserved.addresses = false;
    unserved.settle();
    unserved.after(10);
    let more = json!({ "service": service, "externalIP": wanted });
    let mut world = World::named(&format!("{namespace}/job"), 1, &["a"], more);
    world.after(10);
    let waiting = unserved.settle().waiting;
    assert_eq!(waiting.as_ref().map(|w| w.until.as_second()), Some(86400));
    world.waits.wait(&"unserved-uid".into(), waiting, world.now);
    world
}

#[test]
fn a_service_that_nobody_serves_holds_up_those_of_its_namespace_that_ask_for_the_same() {
    let typo = json!({ "loadBalancerClass": "typo" });
    let mut world = beside_one_that_nobody_serves("ns", typo, Value::Null);
    let told = message(world.settle());
    assert_eq!(services(&world), 0);
    let why = "; waiting for an address of load balancer class typo behind Service unserved-";
    assert!(told.contains(why), "{told}");
    let until = "of FlashJob ns/unserved, which has waited since 1970-01-01 00:00:00 UTC and is given up at 1970-01-02 00:00:00 UTC";
    assert!(told.contains(until), "{told}");
}

#[test]
fn a_service_that_nobody_serves_holds_up_nobody_else() {
    let pool = json!({ "annotations": { "metallb.io/address-pool": "lab" } });
    let both = json!({ "loadBalancerClass": "typo", "annotations": pool["annotations"] });
    for (namespace, service, wanted) in [
        ("ns", json!({}), Value::Null),
        ("ns", json!({ "loadBalancerClass": "another" }), Value::Null),
        ("ns", pool, Value::Null),
        ("ns", both, Value::Null),
        ("ns", json!({ "loadBalancerClass": "typo" }), json!("192.0.2.7")),
        // Another tenant, that asks for the very same.
        ("elsewhere", json!({ "loadBalancerClass": "typo" }), Value::Null),
    ] {
        let mut world = beside_one_that_nobody_serves(namespace, service.clone(), wanted);
        world.settle();
        assert!(world.record("a").is_open(), "{namespace} {service}");
    }
}

#[test]
fn what_is_taken_by_another_namespace_is_waited_for_by_ones_own_clock() {
    let mut world = World::new(&["a", "b"], json!({ "rollout": { "maxParallel": 1 } }));
    world.addresses = false;
    another_waits(&mut world, "elsewhere");
    world.after(60);
    let plan = world.settle();
    assert_eq!(services(&world), 1, "the queue of another namespace is not this one's");
    let status = plan.status.unwrap();
    let device = &status.in_flight[0];
    assert_eq!(device.message.as_deref(), Some("waiting for an address"));
    assert_eq!(device.until.as_ref().map(|t| t.0.as_second()), Some(60 + 120));
    world.after(120);
    world.settle();
    assert_eq!(world.record("a").reason(), Some("AddressTimeout"));
}

#[test]
fn devices_that_rest_give_back_their_addresses_to_other_namespaces_too() {
    let mut world = World::new(&["a"], json!({ "retry": { "backoffSeconds": 60 } }));
    world.settle();
    world.ends("a", 1, "");
    world.settle();
    another_waits(&mut world, "elsewhere");
    world.after(2);
    world.settle();
    assert_eq!(services(&world), 0);
}

#[test]
fn a_job_that_wants_one_address_and_no_other_stands_in_no_queue() {
    let mut world = World::new(&["a"], json!({}));
    another_waits(&mut world, "ns");
    world.edit(&["a"], json!({ "externalIP": "192.0.2.7" }));
    world.after(6);
    world.settle();
    assert_eq!(services(&world), 1);
}

#[test]
fn a_node_port_is_for_one_device_at_a_time() {
    let mut world = World::new(&["a", "b"], json!({ "service": { "type": "NodePort" } }));
    let plan = until_a_pod(&mut world);
    let env = pods(&plan)[0].spec.as_ref().unwrap().containers[0].env.clone().unwrap();
    let address = env.iter().find(|e| e.name == "EXTERNAL_IP").unwrap();
    let field = address.value_from.as_ref().unwrap().field_ref.as_ref().unwrap();
    assert_eq!(field.field_path, "status.hostIP");
    world.settle();
    assert_eq!(services(&world), 1);
    world.ends("a", 0, "");
    world.settle();
    assert!(world.record("b").is_open());
    assert_eq!(services(&world), 1);
}

#[test]
fn the_node_port_is_one_for_all_jobs() {
    let mut world = World::new(&["a"], json!({ "service": { "type": "NodePort" } }));
    world.introduce("other", "ns/other-job", 5);
    world.locks.hold(&"other".into(), vec![Lock::NodePort]);
    let plan = world.settle();
    assert_eq!(services(&world), 0);
    assert_eq!(plan.wanted_locks, [Lock::NodePort]);
    world.locks.hold(&"other".into(), vec![]);
    let plan = world.step();
    assert!(plan.held_locks.is_some_and(|c| c.contains(&Lock::NodePort)));
}

#[test]
fn a_job_in_the_nodes_network_needs_no_service() {
    let mut world = World::new(&["a", "b", "c"], json!({}));
    let settings = Settings { allow_host_network: true, ..Settings::default() };
    let spec = json!({
        "uuid": ["a", "b", "c"], "firmware": "f:1", "version": "1", "flashjobPodImage": "image",
        "service": { "type": "None" }, "rollout": { "maxParallel": 1 },
    });
    world.job.spec = Spec::read(&spec, &settings);
    let plan = until_a_pod(&mut world);
    let spec = pods(&plan)[0].spec.clone().unwrap();
    assert_eq!(spec.host_network, Some(true));
    assert_eq!(spec.dns_policy.as_deref(), Some("ClusterFirstWithHostNet"));
    world.settle();
    assert_eq!(services(&world), 0);
    assert!(!world.record("c").is_open(), "one at work, one ready");
}

#[test]
fn a_service_that_is_not_what_the_job_asks_for_now_is_made_anew() {
    let mut world = World::new(&["a"], json!({}));
    world.addresses = false;
    world.settle();
    assert_eq!(services(&world), 1, "it waits for an address that never comes");
    world.edit(&["a"], json!({ "service": { "type": "NodePort" } }));
    world.settle();
    assert!(world.record("a").is_open());
    assert!(world.children().values().all(|c| c.service.here().unwrap().node_port));
}
