//! What people do to a job, careless or hostile: nothing is said done that is not, no board has two sessions, and no wait is
//! without an end.

use flashjob_api::flashjob::Phase;
use flashjob_plan::flashjob::facts::{Container, DeviceNamespaces, Pod, Service};
use flashjob_plan::flashjob::instances::Instance;
use flashjob_plan::flashjob::ledger::Outcome;
use serde_json::{Value, json};

use crate::world::World;
use crate::{lock, phase, reason, state};

/// A board of this type at this address, in any namespace.
fn board(path: &str, endpoint: &str, device: &str) -> Instance {
    let (namespace, name) = path.split_once('/').unwrap();
    Instance {
        uid: format!("uid-{namespace}-{name}"),
        namespace: namespace.into(),
        name: name.into(),
        endpoint: endpoint.into(),
        device: device.into(),
        ..Instance::default()
    }
}

fn pods(world: &World) -> Vec<Pod> {
    world.pods().into_iter().map(|(.., pod)| pod).collect()
}

#[test]
fn a_lower_deadline_or_a_slip_in_an_edit_ends_no_flash_under_way() {
    for slip in [json!({ "timeouts": { "deviceSeconds": 1 } }), json!({ "firmware": "" })] {
        let mut world = World::new(&["a"], json!({ "timeouts": { "deviceSeconds": 3000 } }));
        world.settle();
        world.runs("a");
        world.after(1000);
        world.edit(&["a"], slip.clone());
        world.settle();
        assert!(world.record("a").is_open() && pods(&world).len() == 1, "{slip}");
        world.ends("a", 0, "");
        world.settle();
        assert_eq!(world.record("a").outcome(), Some(Outcome::Succeeded), "{slip}");
    }
}

#[test]
fn what_fails_while_the_spec_cannot_be_read_is_judged_when_it_can() {
    let mut world = World::new(&["a"], json!({ "retry": { "limit": 5 } }));
    world.settle();
    world.ends("a", 1, "");
    world.edit(&["a"], json!({ "firmware": "" }));
    for _ in 0..3 {
        world.settle();
        world.after(400);
    }
    assert_eq!(world.record("a").outcome(), None);
    world.edit(&["a"], json!({ "retry": { "limit": 0 } }));
    assert_eq!(phase(&world.settle()), Phase::Failed, "a lower limit holds for what was tried");
    assert_eq!(world.record("a").attempt, 1);
}

#[test]
fn the_end_of_a_pod_frees_its_board_over_firmwares_and_entries() {
    for (edit, devices) in [(json!({ "firmware": "f:2" }), ["a"]), (json!({}), ["ns/a"])] {
        let mut world = World::new(&["a"], json!({ "timeouts": { "deviceSeconds": 10 } }));
        world.lingering = true;
        world.settle();
        world.runs("a");
        world.after(70);
        world.settle();
        assert_eq!(world.record("a").reason(), Some("Timeout"));
        world.edit(&devices, edit);
        world.after(60);
        let plan = world.settle();
        assert_eq!(state(&plan, devices[0]), "BackOff", "the old Pod is in its grace period");
        assert_eq!((pods(&world).len(), plan.held_locks), (1, Some(vec![lock("at-a")])));
        world.let_go();
        assert_eq!(state(&world.settle(), devices[0]), "Starting");
    }
}

#[test]
fn a_device_that_was_taken_out_keeps_its_board_until_its_pod_has_ended() {
    let mut world = World::new(&["a", "b"], json!({ "timeouts": { "deviceSeconds": 10 } }));
    world.lingering = true;
    world.settle();
    world.runs("a");
    world.ends("b", 0, "");
    world.after(70);
    world.settle();
    world.edit(&["b"], json!({ "firmware": "f:2" }));
    let held = |world: &mut World| world.settle().held_locks.unwrap().contains(&lock("at-a"));
    assert!(held(&mut world));
    world.let_go();
    assert!(!held(&mut world));
}

#[test]
fn a_board_that_moved_while_its_permit_waited_is_not_flashed_at_its_old_address() {
    let mut world = World::new(&["a", "b"], json!({ "rollout": { "maxParallel": 1 } }));
    world.settle();
    world.runs("a");
    world.settle();
    assert!(world.record("b").has_permit(), "it waits for the slot");
    // Its lease ran out, and a board of another type has its address.
    world.instances.insert(board("ns/b", "at-elsewhere", "esp32"));
    world.instances.insert(board("ns/c", "at-b", "esp32s3"));
    world.ends("a", 0, "");
    world.settle();
    let at = pods(&world).into_iter().map(|pod| pod.endpoint).collect::<Vec<_>>();
    assert_eq!(at, ["at-elsewhere".into()]);
    assert_eq!(world.record("b").attempt, 2, "the permit for the old address was withdrawn");
}

#[test]
fn one_board_in_two_namespaces_or_written_in_two_ways_is_flashed_once() {
    let two = |spec: Value| {
        let mut world = World::new(&[], json!({ "uuid": ["placeholder"] }));
        world.instances.insert(board("ns/x", "192.0.2.11", "esp32"));
        world.instances.insert(board("other/y", "http://192.0.2.11:80/", "esp32"));
        world.edit(&[], spec);
        world.job.generation = 1;
        world.settle();
        let made = pods(&world).len();
        (world, made)
    };
    let (world, made) = two(json!({ "uuid": ["ns/x", "other/y"] }));
    assert_eq!((made, world.record("other/y").is_duplicate()), (1, true));
    let (world, made) = two(json!({ "uuid": [], "deviceSelector": { "device": "esp32" } }));
    assert_eq!((made, world.ledger.unwrap().records.len()), (1, 1));
}

#[test]
fn a_board_listed_again_under_its_new_uid_is_not_flashed_again() {
    let mut world = World::new(&[], json!({ "uuid": ["uid-a"] }));
    world.discover("a");
    world.settle();
    world.ends("uid-a", 0, "");
    assert_eq!(phase(&world.settle()), Phase::Completed);
    world.instances.insert(Instance { uid: "uid-2".into(), ..board("ns/a", "at-a", "esp32") });
    world.edit(&["uid-2"], json!({}));
    let done = world.settle();
    assert_eq!((phase(&done), world.record("uid-2").attempt), (Phase::Completed, 0));
    // Another firmware is another matter.
    world.edit(&["uid-2"], json!({ "firmware": "f:2" }));
    world.settle();
    assert_eq!(world.record("uid-2").attempt, 1);
}

#[test]
fn other_firmware_is_another_choice_and_who_does_not_fit_leaves() {
    let select = |device: &str, firmware: &str| {
        let selector = json!({ "device": device, "version": "<0.2.0" });
        json!({ "uuid": [], "deviceSelector": selector, "firmware": firmware })
    };
    let old = |path: &str, at: &str, device: &str| Instance {
        version: "0.1.0".into(),
        ..board(path, at, device)
    };
    let mut world = World::new(&[], json!({ "uuid": ["placeholder"] }));
    world.instances.insert(old("ns/a", "at-a", "esp32"));
    world.instances.insert(old("ns/b", "at-b", "esp32"));
    world.instances.insert(old("ns/s3", "at-s3", "esp32s3"));
    world.edit(&[], select("esp32", "f:1"));
    world.job.generation = 1;
    world.settle();
    world.ends("ns/a", 0, "");
    world.runs("ns/b");
    world.settle();
    world.edit(&[], select("esp32s3", "f:2"));
    world.settle();
    let (a, b) = (world.record("ns/a").clone(), world.record("ns/b").clone());
    assert!(a.dropped && a.attempt == 1, "{a:?}");
    assert!(b.is_open(), "what is in flight finishes");
    assert_eq!(world.record("ns/s3").attempt, 1);
    world.ends("ns/b", 0, "");
    world.ends("ns/s3", 0, "");
    let done = world.settle();
    assert_eq!((phase(&done), world.record("ns/b").attempt), (Phase::Completed, 1));
    // An edit that is no choice changes nothing about it.
    let mut same = select("esp32s3", "f:2");
    same.as_object_mut().unwrap().insert("retry".into(), json!({ "limit": 1 }));
    world.edit(&[], same);
    assert!(world.settle().finished && world.record("ns/a").dropped);
    // What it runs now is no reason to leave: that is what the job has changed.
    let flashed = Instance { version: "0.2.0".into(), ..board("ns/s3", "at-s3", "esp32s3") };
    world.instances.insert(flashed);
    world.edit(&[], select("esp32s3", "f:3"));
    world.settle();
    assert_eq!(world.record("ns/s3").attempt, 2);
}

#[test]
fn the_type_in_a_selector_guards_as_that_in_the_spec_does() {
    let mut world = World::new(&[], json!({ "uuid": ["placeholder"] }));
    world.discover("a");
    let selector = json!({ "device": "esp32" });
    world.edit(&[], json!({ "uuid": [], "deviceSelector": selector, "suspend": true }));
    world.job.generation = 1;
    world.settle();
    world.instances.insert(board("ns/a", "at-a", "esp32s3"));
    world.edit(&[], json!({ "uuid": [], "deviceSelector": selector }));
    assert_eq!(reason(&world.settle()), "WrongDevice");
    assert!(pods(&world).is_empty());
}

#[test]
fn deadlines_run_by_the_operators_clock() {
    let mut world = World::new(&["a"], json!({}));
    world.settle();
    world.after(100_000);
    let now = world.now;
    let pod = world.pod("a");
    // The node's clock is far behind, or ahead.
    for skewed in [-50_000, 50_000] {
        let at = now + jiff::SignedDuration::from_secs(skewed);
        let seen =
            Pod { container: Container::Running(Some(at)), deleting: Some(at), ..pod.clone() };
        let first = Pod { uid: "new".into(), first_seen: at, ..seen.clone() }.at(now, Some(&pod));
        assert_eq!((first.first_seen, first.deleting), (now, Some(now)), "another Pod");
        assert_eq!(first.container, Container::Running(Some(now)));
        let later = now + jiff::SignedDuration::from_secs(5);
        let again = Pod { uid: "new".into(), ..seen }.at(later, Some(&first));
        assert_eq!(
            (again.first_seen, again.deleting),
            (now, Some(now)),
            "the times it was seen at"
        );
        assert_eq!(again.container, Container::Running(Some(now)));
    }
}

#[test]
fn a_pod_that_never_goes_holds_its_board_and_not_the_batch() {
    let rollout = json!({ "batchSize": 1 });
    let mut world =
        World::new(&["a", "b"], json!({ "rollout": rollout, "timeouts": { "deviceSeconds": 10 } }));
    world.lingering = true;
    world.settle();
    world.runs("a");
    world.after(70);
    world.settle();
    world.after(60);
    let plan = world.settle();
    assert_eq!(state(&plan, "a"), "BackOff");
    assert!(plan.next_reconcile.is_some(), "this wait has an end");
    world.after(300);
    let plan = world.settle();
    assert_eq!(reason(&plan), "NodeLost");
    assert_eq!(state(&plan, "b"), "Starting");
    assert_eq!(plan.held_locks, Some(vec![lock("at-a"), lock("at-b")]));
    let service = world.children()[&world.record("a").target].service.here().is_some();
    assert!(service, "its address goes to nobody else");
    world.ends("b", 0, "");
    world.let_go();
    let done = world.settle();
    assert_eq!((phase(&done), done.held_locks), (Phase::Failed, Some(vec![])));
    assert!(world.children().is_empty());
}

#[test]
fn a_service_that_never_goes_holds_its_board_and_not_the_batch() {
    let mut world = World::new(&["a", "b"], json!({ "rollout": { "batchSize": 1 } }));
    world.addresses = false;
    world.settle();
    let service = world.service("a");
    world.see_service(world.record("a").target, Service { deleting: Some(world.now), ..service });
    assert_eq!(state(&world.settle(), "a"), "Addressing");
    world.addresses = true;
    world.after(300);
    let plan = world.settle();
    assert_eq!((reason(&plan).as_str(), state(&plan, "b").as_str()), ("ServiceStuck", "Starting"));
    assert_eq!(plan.held_locks, Some(vec![lock("at-a"), lock("at-b")]));
}

#[test]
fn an_address_in_the_spec_leads_to_no_board_of_another_namespace() {
    let mut world = World::named("mine/job", 0, &[], json!({ "uuid": ["placeholder"] }));
    world.settings.device_namespaces = DeviceNamespaces::Own;
    world.instances.insert(board("mine/decoy", "192.0.2.99", "esp32"));
    world.instances.insert(board("theirs/board", "192.0.2.11", "esp32"));
    world.edit(&["decoy"], json!({ "hostEndpoint": "http://192.0.2.11/" }));
    world.job.generation = 1;
    let plan = world.settle();
    assert_eq!(reason(&plan), "WrongDevice");
    assert!(world.children().is_empty() && plan.held_locks == Some(vec![]));
}

#[test]
fn where_namespaces_have_their_own_boards_jobs_of_others_supersede_nothing() {
    for (reach, expected) in
        [(DeviceNamespaces::All, Some("Superseded")), (DeviceNamespaces::Own, None)]
    {
        let mut world = World::new(&["a"], json!({}));
        world.settings.device_namespaces = reach;
        world.introduce("theirs", "theirs/newer", 5);
        world.after(10);
        world.locks.flashed(&"theirs".into(), &"at-a:80".into(), world.now);
        world.settle();
        assert_eq!(world.record("a").reason(), expected);
    }
}

#[test]
fn a_job_that_cannot_go_says_what_it_waits_for() {
    let mut world = World::new(&["a"], json!({}));
    world.lingering = true;
    world.settle();
    world.runs("a");
    world.job.deleting = true;
    let plan = world.settle();
    assert!(plan.status.is_none() && plan.next_reconcile.is_some(), "it takes its time");
    world.after(45);
    let status = world.settle().status.unwrap();
    let message = status.message.unwrap();
    assert!(message.contains("waiting for Pod job-"), "{message}");
    assert_eq!(status.conditions[0].reason, "Deleting");
}
