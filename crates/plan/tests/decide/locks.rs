//! Who may flash a board, and what is locked.

use flashjob_api::flashjob::Phase;
use flashjob_plan::flashjob::facts::DeviceNamespaces;
use flashjob_plan::flashjob::index::Index;
use flashjob_plan::flashjob::instances::Instance;
use flashjob_plan::flashjob::ledger::Outcome;
use flashjob_plan::flashjob::locks::Locks;
use flashjob_plan::flashjob::locks_held;
use jiff::SignedDuration;
use serde_json::json;

use crate::world::World;
use crate::{lock, phase, state};

#[test]
fn a_board_stays_held_until_its_pod_is_over() {
    let mut world = World::new(&["a"], json!({ "retry": { "limit": 0 } }));
    world.settle();
    world.runs("a");
    let target = world.record("a").target;
    world.after(660);
    world.step();
    // The result is written; the Pod is still there.
    let deleting = world.decide();
    assert_eq!(deleting.held_locks, Some(vec![lock("at-a")]));
    world.lose_pod(target, 1);
    assert_eq!(world.decide().held_locks, Some(vec![]));
}

#[test]
fn a_board_that_another_job_holds_is_waited_for() {
    let mut world = World::new(&["a", "b"], json!({}));
    world.introduce("other", "ns/other", 5);
    world.locks.hold(&"other".into(), vec![lock("at-a")]);
    let plan = world.settle();
    assert_eq!(state(&plan, "a"), "Blocked");
    assert_eq!(state(&plan, "b"), "Starting", "it delays no other");
    assert_eq!(plan.held_locks, Some(vec![lock("at-b")]));
    world.locks.hold(&"other".into(), vec![]);
    assert_eq!(state(&world.settle(), "a"), "Starting");
}

/// Everything that says so, a ledger or a Pod, is in a namespace where others write what they like.
#[test]
fn a_job_that_may_not_use_a_board_holds_up_nobody_who_may() {
    let mut world = World::new(&["a", "b"], json!({}));
    world.introduce("job-uid", "ns/job", 10);
    world.introduce("thief", "elsewhere/thief", 5);
    world.locks.hold(&"thief".into(), vec![lock("at-a")]);
    world.locks.want(&"thief".into(), vec![lock("at-b")]);
    let states = |world: &World| ["a", "b"].map(|device| state(&world.decide(), device));
    world.step();
    world.step();
    assert_eq!(states(&world), ["Blocked", "Blocked"], "everybody may use every board");
    world.settings.device_namespaces = DeviceNamespaces::Own;
    assert_eq!(states(&world), ["Addressing", "Addressing"]);
    // Nobody knows yet whether Akri shows them there, too.
    world.instances.listing = true;
    assert_eq!(states(&world), ["Blocked", "Blocked"]);
    world.instances.listing = false;
    let elsewhere = |name: &str| Instance {
        uid: format!("{name}-elsewhere"),
        namespace: "elsewhere".into(),
        name: name.into(),
        endpoint: format!("http://at-{name}/").into(),
        ..Instance::default()
    };
    world.instances.insert(elsewhere("a"));
    assert_eq!(states(&world), ["Blocked", "Addressing"], "one board, shown to both");
    world.instances.insert(elsewhere("b"));
    assert_eq!(states(&world), ["Blocked", "Blocked"]);
    assert_eq!(state(&world.settle(), "a"), "Blocked", "and it does not take it");
}

#[test]
fn who_holds_a_board_without_leave_does_not_hide_who_has_it() {
    let mut world = World::new(&["a"], json!({}));
    world.settings.device_namespaces = DeviceNamespaces::Own;
    world.introduce("thief", "elsewhere/thief", 5);
    world.introduce("other", "ns/other", 5);
    world.locks.hold(&"thief".into(), vec![lock("at-a")]);
    world.locks.hold(&"other".into(), vec![lock("at-a")]);
    assert_eq!(state(&world.settle(), "a"), "Blocked");
    world.locks.hold(&"other".into(), vec![]);
    assert_eq!(state(&world.settle(), "a"), "Starting");
}

/// It was at an address that Akri did not show yet.
#[test]
fn what_this_process_has_begun_holds_its_board_whatever_akri_shows_later() {
    let mut world = World::new(&["a"], json!({}));
    world.settings.device_namespaces = DeviceNamespaces::Own;
    world.introduce("early", "elsewhere/early", 5);
    world.locks.start(&"early".into(), &"http://at-a".into());
    world.locks.hold(&"early".into(), vec![lock("at-a")]);
    assert_eq!(state(&world.settle(), "a"), "Blocked");
    world.locks.hold(&"early".into(), vec![]);
    world.locks.hold(&"early".into(), vec![lock("at-a")]);
    assert_eq!(state(&world.settle(), "a"), "Starting", "that one is over");
}

#[test]
fn a_ledger_leads_to_no_board_that_the_job_may_not_use() {
    let mut world = World::named("elsewhere/job", 0, &["a"], json!({}));
    world.edit(&["ns/a"], json!({}));
    world.step();
    world.step();
    assert_eq!(world.record("ns/a").pinned.as_ref().unwrap().namespace, "ns");
    // Written by somebody else, or from before each namespace had boards of its own.
    world.settings.device_namespaces = DeviceNamespaces::Own;
    let plan = world.settle();
    assert_eq!(state(&plan, "ns/a"), "Offline");
    assert!(world.children().is_empty(), "{:?}", world.children());
}

#[test]
fn a_service_from_before_a_restart_does_not_make_the_board_ours() {
    let mut world = World::new(&["a"], json!({}));
    world.addresses = false;
    assert_eq!(state(&world.settle(), "a"), "Addressing");
    // A new process: locks were in memory, and another job was reconciled first.
    world.locks = Locks::default();
    world.introduce("job-uid", "ns/job", 0);
    world.introduce("other", "ns/other", 5);
    world.locks.know(&"job-uid".into(), &"at-a".into());
    world.locks.hold(&"other".into(), vec![lock("at-a")]);
    world.gets_address("a");
    let plan = world.settle();
    assert_eq!((state(&plan, "a").as_str(), world.record("a").attempt), ("Blocked", 0));
    // What the other has flashed meanwhile is not undone.
    world.after(10);
    world.locks.flashed(&"other".into(), &"at-a".into(), world.now);
    world.locks.hold(&"other".into(), vec![]);
    world.settle();
    assert_eq!(world.record("a").reason(), Some("Superseded"));
    assert!(world.children().is_empty(), "and its Service is given back");
}

#[test]
fn after_a_restart_a_job_holds_what_it_has_a_service_or_an_open_attempt_for() {
    let mut world = World::new(&["a", "b", "c"], json!({ "rollout": { "maxParallel": 1 } }));
    world.addresses = false;
    world.settle();
    let held = |world: &World| locks_held(world.ledger.as_ref(), world.children(), world.now);
    assert_eq!(held(&world), [lock("at-a")]);
    world.gets_address("a");
    world.settle();
    assert_eq!(held(&world), [lock("at-a"), lock("at-b")], "b has a Service ahead of its turn");
    world.index = Index::default();
    assert_eq!(held(&world), [lock("at-a")], "its attempt is open");
}

#[test]
fn after_a_restart_a_job_holds_what_its_pods_are_at_whatever_its_ledger_says() {
    let mut world = World::new(&["a"], json!({}));
    world.settle();
    world.runs("a");
    let held = |world: &World| locks_held(world.ledger.as_ref(), world.children(), world.now);
    // Closed and renewed for another firmware while the Pod was still at work.
    let ledger = world.ledger.as_mut().unwrap();
    ledger.records[0] = ledger.records[0].renewed(&"job-uid".into(), "another", world.now);
    assert_eq!(held(&world), [lock("at-a")]);
    world.ledger = None;
    assert_eq!(held(&world), [lock("at-a")], "its ledger is lost");
    world.index = Index::default();
    assert!(held(&world).is_empty());
}

#[test]
fn an_older_job_that_wants_a_board_now_goes_first() {
    let mut world = World::new(&["a"], json!({}));
    world.introduce("job-uid", "ns/job", 10);
    world.introduce("older", "ns/older", 5);
    world.locks.know(&"older".into(), &"at-a".into());
    world.locks.want(&"older".into(), vec![lock("at-a")]);
    let plan = world.settle();
    assert_eq!(state(&plan, "a"), "Blocked");
    assert_eq!(plan.wanted_locks, [lock("at-a")]);
    world.locks.want(&"older".into(), vec![]);
    assert_eq!(state(&world.settle(), "a"), "Starting");
}

/// Its event was lost, say, and the newer job was seen and carried out first.
#[test]
fn an_older_job_that_is_seen_late_does_not_undo_what_a_newer_one_has_flashed() {
    let mut world = World::new(&["a"], json!({}));
    world.introduce("newer", "ns/newer", 5);
    world.after(10);
    world.locks.flashed(&"newer".into(), &"at-a".into(), world.now);
    world.after(10);
    world.settle();
    assert_eq!(world.record("a").reason(), Some("Superseded"));
}

/// The API server keeps the whole second of a job's making alone, so of two jobs of one second either may seem the newer.
#[test]
fn what_was_flashed_in_the_second_that_a_job_was_made_in_came_before_it() {
    let mut world = World::new(&["a"], json!({}));
    world.introduce("same-second", "ns/sooner-and-later-in-the-alphabet", 0);
    world.now += SignedDuration::from_millis(600);
    world.locks.flashed(&"same-second".into(), &"at-a".into(), world.now);
    world.now += SignedDuration::from_millis(300);
    assert_eq!(state(&world.settle(), "a"), "Starting");
}

#[test]
fn what_was_flashed_after_a_job_was_seen_came_after_it_also_in_the_second_that_it_was_made_in() {
    let mut world = World::new(&["a"], json!({}));
    world.first_seen = world.now + SignedDuration::from_millis(200);
    world.introduce("same-second", "ns/later", 0);
    world.now += SignedDuration::from_millis(600);
    world.locks.flashed(&"same-second".into(), &"at-a".into(), world.now);
    // Its ledger could not be written before.
    world.now += SignedDuration::from_millis(300);
    world.settle();
    assert_eq!(world.record("a").reason(), Some("Superseded"));
}

#[test]
fn what_a_newer_job_has_flashed_since_is_not_undone() {
    let mut world = World::new(&["a"], json!({ "suspend": true }));
    world.settle();
    world.introduce("newer", "ns/newer", 5);
    world.after(10);
    world.locks.flashed(&"newer".into(), &"at-a".into(), world.now);
    world.after(10);
    world.edit(&["a"], json!({}));
    let plan = world.settle();
    assert_eq!(phase(&plan), Phase::Failed, "it does not run what this job is about");
    let status = plan.status.unwrap();
    assert!(status.completed_uuids.is_empty(), "{status:#?}");
    assert_eq!(status.failures[0].reason, "Superseded");
    assert_eq!(status.conditions[0].reason, "Superseded");
    assert_eq!(world.record("a").outcome(), Some(Outcome::Skipped));
    assert_eq!(world.record("a").reason(), Some("Superseded"));
    // Another firmware is a new wish.
    world.edit(&["a"], json!({ "firmware": "f:3" }));
    assert_eq!(state(&world.settle(), "a"), "Starting");
}

#[test]
fn what_is_locked_is_what_is_flashed() {
    let address = |world: &World| world.record("a").pinned.clone().unwrap().endpoint;
    let mut world = World::new(&["a"], json!({ "hostEndpoint": "10.0.0.9" }));
    let plan = world.settle();
    assert_eq!(
        (plan.held_locks, address(&world)),
        (Some(vec![lock("10.0.0.9")]), "10.0.0.9".into())
    );
    // The board comes back at another address, for the next attempt.
    world.edit(&["a"], json!({ "retry": { "backoffSeconds": 0 } }));
    world.settle();
    world.ends("a", 1, "");
    let plan = world.settle();
    assert_eq!((plan.held_locks, address(&world)), (Some(vec![lock("at-a")]), "at-a".into()));
}

#[test]
fn a_job_that_lost_its_ledger_still_holds_the_board_its_pod_works_on() {
    let mut world = World::new(&["a"], json!({}));
    world.settle();
    world.runs("a");
    world.ledger = None;
    assert_eq!(world.step().held_locks, Some(vec![lock("at-a")]));
}
