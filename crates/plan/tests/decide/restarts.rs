//! What a new process makes of what an earlier one left, and what becomes of a ledger.

use flashjob_api::flashjob::Phase;
use flashjob_plan::flashjob::{Job, Kind, LedgerPlan, Settings, names};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::json;

use crate::phase;
use crate::world::World;

#[test]
fn an_open_attempt_of_another_process_is_recovered_before_anything_starts() {
    // The permit is written and no Pod was made.
    let mut world = World::new(&["a", "b"], json!({ "rollout": { "maxParallel": 1 } }));
    while !world.ledger.as_ref().is_some_and(|l| l.has_open_attempts()) {
        world.step();
    }
    world.recovered = false;
    let withdrawn = world.step();
    assert!(withdrawn.creates.is_empty() && !withdrawn.list_pods);
    assert!(
        world.record("a").is_open() && !world.record("a").has_permit(),
        "withdrawn, not yet closed"
    );
    let listed = world.step();
    assert!(listed.list_pods && listed.creates.is_empty());
    world.settle();
    let record = world.record("a");
    assert_eq!((record.attempt, record.tries()), (2, 0), "the next number, and no failure");
}

#[test]
fn a_started_pod_of_another_process_is_adopted_and_one_that_has_not_is_ended() {
    let mut world = World::new(&["a", "b"], json!({}));
    world.settle();
    world.runs("a");
    world.recovered = false;
    world.settle();
    assert_eq!(world.record("a").attempt, 1, "adopted");
    assert_eq!(world.record("b").attempt, 2, "made anew");
    for device in ["a", "b"] {
        world.ends(device, 0, "");
    }
    assert_eq!(phase(&world.settle()), Phase::Completed);
    assert_eq!(world.record("b").tries(), 0);
}

#[test]
fn a_late_pod_without_a_permit_is_removed() {
    let mut world = World::new(&["a"], json!({}));
    world.settle();
    let late = world.pod("a");
    let target = world.record("a").target;
    world.loses_pod("a");
    world.recovered = false;
    world.settle();
    world.ends("a", 0, "");
    world.settle();
    // Now the create of attempt 1 arrives after all.
    world.see_pod(target, 1, late);
    let plan = world.step();
    assert_eq!(plan.deletes[0].kind, Kind::Pod(1));
    assert_eq!(phase(&world.settle()), Phase::Completed);
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

/// `kubectl get -o yaml`, another name, `kubectl apply`: the annotation and the finalizer come with it.
#[test]
fn an_annotation_that_was_copied_from_another_job_is_ignored_and_ones_own_is_not() {
    let first = names::ledger("job", &"uid-1".into(), 0);
    let spec = json!({ "uuid": ["a"], "firmware": "f", "version": "1", "flashjobPodImage": "i" });
    let job = |name: &str, uid: &str| {
        let metadata = ObjectMeta {
            namespace: Some("ns".into()),
            name: Some(name.into()),
            uid: Some(uid.into()),
            annotations: Some([(names::LEDGER.to_owned(), first.clone())].into()),
            finalizers: Some(vec![names::FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        };
        Job::read(&metadata, &spec, &Settings::default())
    };
    let looked_at = |job: Job| {
        let mut world = World::new(&["a"], json!({}));
        world.job = job;
        world.step()
    };
    for (name, uid) in [("copy", "uid-2"), ("job", "uid-2")] {
        let plan = looked_at(job(name, uid));
        assert!(matches!(plan.ledger, LedgerPlan::Create(_)), "{name} begins: {plan:#?}");
    }
    let lost = looked_at(job("job", "uid-1")).status.unwrap();
    assert_eq!(lost.conditions[0].reason, "LedgerLost");
}

/// What is read once is not read again when only the status has changed; and is when anything else has.
#[test]
fn a_job_is_still_the_same_until_its_metadata_say_otherwise() {
    let metadata = ObjectMeta {
        namespace: Some("ns".into()),
        name: Some("job".into()),
        uid: Some("uid-1".into()),
        generation: Some(1),
        ..ObjectMeta::default()
    };
    let job = Job::read(&metadata, &json!({ "uuid": ["a"] }), &Settings::default());
    let written = ObjectMeta { resource_version: Some("2".into()), ..metadata.clone() };
    assert!(job.is_still(&written));
    let now = Some(Time(Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1)));
    let ledger = names::ledger("job", &"uid-1".into(), 0);
    for other in [
        ObjectMeta { generation: Some(2), ..metadata.clone() },
        ObjectMeta { uid: Some("uid-2".into()), ..metadata.clone() },
        ObjectMeta { deletion_timestamp: now.clone(), ..metadata.clone() },
        ObjectMeta { creation_timestamp: now, ..metadata.clone() },
        ObjectMeta { finalizers: Some(vec![names::FINALIZER.to_owned()]), ..metadata.clone() },
        ObjectMeta {
            annotations: Some([(names::LEDGER.to_owned(), ledger)].into()),
            ..metadata.clone()
        },
    ] {
        assert!(!job.is_still(&other), "{other:#?}");
    }
}
