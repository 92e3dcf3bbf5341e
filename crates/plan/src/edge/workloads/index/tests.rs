use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::accept::Target;
use super::super::tests::{labels, pod, workload};
use super::*;

const KIND: WorkloadKind = WorkloadKind::EdgeWorkload;

/// For every device of its namespace.
fn for_all(name: &str, resource_version: u64) -> WorkloadFacts {
    let facts = workload(name, &json!({ "pod": pod(), "deviceSelector": {} }));
    WorkloadFacts { resource_version, ..facts }
}

/// The same, as an EdgeDeployment of that age.
fn deployment(name: &str, seconds: i64) -> WorkloadFacts {
    let created = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
    let (kind, uid) = (WorkloadKind::EdgeDeployment, format!("uid-of-deployment-{name}"));
    WorkloadFacts { kind, uid, created, ..for_all(name, 1) }
}

fn names(workloads: &Workloads, device: &str, of: &str) -> String {
    let run = workloads.for_device("a", device, &labels(of));
    run.iter().map(|w| w.name.as_str()).collect::<Vec<_>>().join(" ")
}

fn version(workloads: &Workloads, name: &str) -> Option<u64> {
    workloads.of_name("a", name).next().map(|judged| judged.facts.resource_version)
}

/// What is said of the one of that kind: what devices see of it, or its reason.
fn verdict(workloads: &Workloads, kind: WorkloadKind, name: &str) -> String {
    let judged = workloads.of_name("a", name).find(|judged| judged.facts.kind == kind).unwrap();
    judged.verdict.map_or_else(|problem| problem.reason.to_string(), |_| "accepted".to_owned())
}

#[test]
fn devices_run_what_names_them_or_chooses_them_in_the_order_of_names() {
    let mut workloads = Workloads::default();
    let spec = |of: Value| {
        let mut spec = json!({ "pod": pod() });
        spec.as_object_mut().unwrap().extend(of.as_object().cloned().unwrap());
        spec
    };
    for (name, of) in [
        ("named", json!({ "device": "one" })),
        ("all", json!({ "deviceSelector": {} })),
        ("site", json!({ "deviceSelector": { "matchLabels": { "site": "a", "rack": "1" } } })),
        ("nobody", json!({})),
        ("broken", json!({ "deviceSelector": {}, "type": "vm" })),
    ] {
        let _ = workloads.see(workload(name, &spec(of)));
    }
    assert_eq!(names(&workloads, "one", "site=b"), "all named");
    assert_eq!(names(&workloads, "two", "site=a rack=1"), "all site");
    assert_eq!(names(&workloads, "two", "site=a rack=2"), "all");
    assert_eq!(workloads.for_device("b", "one", &labels("")), []);
}

#[test]
fn only_what_devices_see_is_a_change() {
    let mut workloads = Workloads::default();
    let new = workloads.see(for_all("web", 1));
    assert!(new.is_seen_by_devices() && new.before.is_none());
    let first = workloads.served("a", "web").cloned().unwrap();
    let again = WorkloadFacts { generation: 2, uid: "other".into(), ..for_all("web", 2) };
    let change = workloads.see(again);
    assert!(!change.is_seen_by_devices() && !change.concerns("one", &labels("")));
    let served = workloads.served("a", "web").unwrap();
    assert!(Arc::ptr_eq(served, &first), "what was made from it still counts");
    assert_eq!(version(&workloads, "web"), Some(2));
    let labelled = WorkloadFacts { labels: labels("a=b"), ..for_all("web", 3) };
    let change = workloads.see(WorkloadFacts { uid: "other".into(), ..labelled });
    assert!(change.is_seen_by_devices() && change.concerns("one", &labels("")));
}

#[test]
fn that_a_workload_is_refused_or_no_longer_is_a_change() {
    let mut workloads = Workloads::default();
    let refused = |version, type_: &str| {
        let spec = json!({ "pod": pod(), "deviceSelector": {}, "type": type_ });
        WorkloadFacts { resource_version: version, ..workload("web", &spec) }
    };
    drop(workloads.see(for_all("web", 1)));
    assert!(workloads.see(refused(2, "vm")).is_seen_by_devices());
    assert!(!workloads.see(refused(3, "vm")).is_seen_by_devices(), "for the same reason");
    let with_path = WorkloadFacts { spec: Err("spec: odd".into()), ..refused(4, "") };
    assert!(workloads.see(with_path).is_seen_by_devices(), "for another");
    let gone = workloads.lose(KIND, "a", "web", "uid-web");
    assert!(gone.is_seen_by_devices(), "who has it need not keep it any longer");
}

#[test]
fn a_change_concerns_those_who_run_another_pod_or_none_any_more() {
    let mut workloads = Workloads::default();
    let at = |site: &str, image: &str, resource_version| {
        let mut spec = json!({ "pod": pod(), "deviceSelector": {
            "matchExpressions": [{ "key": "site", "operator": "NotIn", "values": [site] }] } });
        spec["pod"]["spec"]["containers"][0]["image"] = json!(image);
        WorkloadFacts { resource_version, ..workload("web", &spec) }
    };
    let concerned = |change: &Change| -> Vec<&str> {
        ["a", "b", "c"]
            .into_iter()
            .filter(|s| change.concerns("x", &labels(&format!("site={s}"))))
            .collect()
    };
    assert_eq!(concerned(&workloads.see(at("a", "nginx", 1))), ["b", "c"]);
    assert_eq!(concerned(&workloads.see(at("b", "nginx", 2))), ["a", "b"]);
    assert_eq!(concerned(&workloads.see(at("b", "caddy", 3))), ["a", "c"]);
    assert_eq!(concerned(&workloads.lose(KIND, "a", "web", "uid-web")), ["a", "c"]);
    assert_eq!(names(&workloads, "x", "site=a"), "");
    assert!(workloads.namespaces.is_empty(), "nothing is kept of what is gone");
}

#[test]
fn a_watch_that_is_behind_does_not_undo_what_is_known() {
    let mut workloads = Workloads::default();
    let _ = workloads.see(for_all("web", 5));
    let _ = workloads.wrote(for_all("web", 7));
    let _ = workloads.see(for_all("web", 6));
    assert_eq!(version(&workloads, "web"), Some(7));
    let _ = workloads.wrote(for_all("web", 6));
    assert_eq!(version(&workloads, "web"), Some(7));
    let _ = workloads.lose(KIND, "a", "web", "another");
    let _ = workloads.lose(WorkloadKind::EdgeDeployment, "a", "web", "uid-web");
    assert_eq!(version(&workloads, "web"), Some(7), "somebody else of that name has gone");
    let _ = workloads.see(WorkloadFacts { uid: "new".into(), ..for_all("web", 2) });
    assert_eq!(version(&workloads, "web"), Some(2), "versions of another object say nothing");
}

#[test]
fn a_list_is_the_truth_but_for_what_we_wrote_meanwhile() {
    let mut workloads = Workloads::default();
    for name in ["gone", "web", "written"] {
        let _ = workloads.see(for_all(name, 50));
    }
    let _ = workloads.see(deployment("old", 0));
    let _ = workloads.see(WorkloadFacts { namespace: "b".into(), ..for_all("there", 50) });
    workloads.begin(KIND, "a");
    let _ = workloads.wrote(for_all("written", 60));
    let _ = workloads.see(for_all("written", 40));
    let _ = workloads.see(for_all("web", 40));
    let missing = workloads.end(KIND, "a");
    assert_eq!(missing.iter().map(|facts| facts.name.as_str()).collect::<Vec<_>>(), ["gone"]);
    let change = workloads.lose(KIND, "a", "gone", &missing[0].uid);
    assert_eq!((change.name.as_str(), change.after), ("gone", None));
    assert_eq!(version(&workloads, "web"), Some(40), "restored from a backup");
    assert_eq!(version(&workloads, "written"), Some(60));
    assert_eq!(names(&workloads, "one", ""), "old web written");
    assert_eq!(workloads.for_device("b", "one", &labels("")).len(), 1);
    assert_eq!(workloads.end(KIND, "a"), []);
}

#[test]
fn of_two_kinds_with_one_name_the_older_has_it() {
    let mut workloads = Workloads::default();
    let younger = deployment("web", 60);
    let _ = workloads.see(younger.clone());
    assert_eq!(verdict(&workloads, WorkloadKind::EdgeDeployment, "web"), "accepted");
    let _ = workloads.see(for_all("web", 1));
    assert_eq!(verdict(&workloads, WorkloadKind::EdgeDeployment, "web"), "NameConflict");
    assert_eq!(verdict(&workloads, KIND, "web"), "accepted");
    let same_age = WorkloadFacts { resource_version: 2, ..deployment("web", 0) };
    let _ = workloads.see(same_age);
    assert_eq!(verdict(&workloads, KIND, "web"), "NameConflict");
    let conflict = workloads.of_name("a", "web").find_map(|judged| judged.verdict.err()).unwrap();
    let wanted = "metadata.name: the EdgeDeployment web is older and has the name; ";
    assert!(conflict.message.starts_with(wanted), "{}", conflict.message);
    assert_eq!(names(&workloads, "one", ""), "web");
}

#[test]
fn a_mistake_in_the_older_does_not_put_another_pod_in_its_place() {
    let mut workloads = Workloads::default();
    let _ = workloads.see(for_all("web", 1));
    let _ = workloads.see(deployment("web", 60));
    let broken = workload("web", &json!({ "type": "vm" }));
    let change = workloads.see(WorkloadFacts { resource_version: 2, ..broken });
    assert!(change.is_seen_by_devices() && change.after.is_none());
    assert_eq!(verdict(&workloads, KIND, "web"), "InvalidSpec");
    assert_eq!(verdict(&workloads, WorkloadKind::EdgeDeployment, "web"), "NameConflict");
    assert_eq!(names(&workloads, "one", ""), "");
}

#[test]
fn one_that_is_being_deleted_is_run_by_nobody_and_leaves_its_name_to_the_other() {
    let mut workloads = Workloads::default();
    let _ = workloads.see(for_all("web", 1));
    let mut other = deployment("web", 60);
    other.labels = labels("a=b");
    let _ = workloads.see(other);
    let going = WorkloadFacts { being_deleted: true, ..for_all("web", 2) };
    let change = workloads.see(going);
    assert!(change.concerns("one", &labels("")));
    assert_eq!(change.after.map(|after| after.labels.clone()), Some(labels("a=b")));
    assert_eq!(verdict(&workloads, WorkloadKind::EdgeDeployment, "web"), "accepted");
    let _ = workloads.lose(WorkloadKind::EdgeDeployment, "a", "web", "uid-of-deployment-web");
    assert_eq!(names(&workloads, "one", ""), "");
    assert_eq!(workloads.all().count(), 1, "its finalizer may have to go");
}

#[test]
fn of_one_that_is_refused_the_spec_is_not_kept() {
    let mut workloads = Workloads::default();
    let _ = workloads.see(workload("web", &json!({ "type": "vm" })));
    assert!(workloads.all().all(|judged| judged.facts.spec.is_err()));
    assert_eq!(verdict(&workloads, KIND, "web"), "InvalidSpec");
}

/// Something that happens to an index.
#[derive(Clone, Debug)]
enum Step {
    See { deployment: bool, name: usize, spec: usize, created: i64, being_deleted: bool },
    Lose { deployment: bool, name: usize },
    List { deployment: bool, kept: BTreeSet<usize> },
}

const NAMES: [&str; 3] = ["web", "db", "log"];

fn specs() -> Vec<Value> {
    let selectors = [
        json!({}),
        json!({ "matchLabels": { "site": "a" } }),
        json!({ "matchLabels": { "site": "a", "rack": "1" } }),
        json!({ "matchLabels": { "site": "b" },
            "matchExpressions": [{ "key": "rack", "operator": "Exists" }] }),
        json!({ "matchExpressions": [{ "key": "rack", "operator": "In", "values": ["1"] }] }),
        json!({ "matchExpressions": [{ "key": "rack", "operator": "In", "values": ["1", "2"] }] }),
        json!({ "matchExpressions": [{ "key": "site", "operator": "NotIn", "values": ["a"] }] }),
        json!({ "matchExpressions": [{ "key": "rack", "operator": "DoesNotExist" }] }),
    ];
    let mut specs: Vec<Value> =
        selectors.iter().map(|s| json!({ "pod": pod(), "deviceSelector": s })).collect();
    specs.push(json!({ "pod": pod(), "device": "one" }));
    specs.push(json!({ "pod": pod(), "device": "two", "deviceSelector": {} }));
    specs.push(json!({ "pod": pod() }));
    specs.push(json!({ "deviceSelector": {} }));
    specs
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    prop_oneof![
        6 => (any::<bool>(), name(), 0..specs().len(), 0..3i64, prop::bool::weighted(0.1)).prop_map(
            |(deployment, name, spec, created, being_deleted)| Step::See {
                deployment, name, spec, created, being_deleted
            }
        ),
        1 => (any::<bool>(), name()).prop_map(|(deployment, name)| Step::Lose { deployment, name }),
        1 => (any::<bool>(), prop::collection::btree_set(name(), 0..3))
            .prop_map(|(deployment, kept)| Step::List { deployment, kept }),
    ]
}

fn kind(deployment: bool) -> WorkloadKind {
    if deployment { WorkloadKind::EdgeDeployment } else { KIND }
}

/// What is there, by name and kind.
type World = BTreeMap<(&'static str, WorkloadKind), WorkloadFacts>;

/// Carries the step out on both, and returns what the index says has changed.
fn take(step: Step, version: u64, world: &mut World, workloads: &mut Workloads) -> Vec<Change> {
    match step {
        Step::See { deployment, name, spec, created, being_deleted } => {
            let (name, kind) = (NAMES[name], kind(deployment));
            let created = Timestamp::from_second(created).unwrap();
            let facts = workload(name, &specs()[spec]);
            let facts =
                WorkloadFacts { kind, created, being_deleted, resource_version: version, ..facts };
            world.insert((name, kind), facts.clone());
            vec![workloads.see(facts)]
        }
        Step::Lose { deployment, name } => {
            let (name, kind) = (NAMES[name], kind(deployment));
            world.remove(&(name, kind));
            vec![workloads.lose(kind, "a", name, &format!("uid-{name}"))]
        }
        Step::List { deployment, kept } => {
            let kind = kind(deployment);
            let is_kept = |name: &str| kept.iter().any(|index| NAMES[*index] == name);
            world.retain(|(name, of), _| *of != kind || is_kept(name));
            workloads.begin(kind, "a");
            let there = world.values().filter(|facts| facts.kind == kind);
            let seen: Vec<Change> = there.map(|facts| workloads.see(facts.clone())).collect();
            let missing = workloads.end(kind, "a");
            let lost = missing.iter().map(|of| workloads.lose(kind, "a", &of.name, &of.uid));
            seen.into_iter().chain(lost.collect::<Vec<_>>()).collect()
        }
    }
}

/// What a device is to run, from a look at all there is.
fn naive(world: &World, device: &str, of: &str) -> Vec<Accepted> {
    let living = |name: &str| {
        let of_name = world.values().filter(|f| f.name == name && !f.being_deleted);
        of_name.min_by_key(|facts| (facts.created, facts.kind)).cloned()
    };
    let mut names = NAMES;
    names.sort_unstable();
    let accepted = names.iter().filter_map(|name| accept(&living(name)?).ok());
    let labels = labels(of);
    let chosen = accepted.filter(|accepted| match &accepted.target {
        Target::Device(name) => name == device,
        Target::Selector(selector) => selector.matches(&labels),
        Target::Nobody => false,
    });
    chosen.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_device_is_told_what_a_look_at_all_workloads_would_tell_it(
        steps in prop::collection::vec(step(), 1..30),
    ) {
        let labelled = ["", "site=a", "site=b", "rack=1 site=a", "rack=1 site=b", "rack=2 site=c"];
        let both = |of: &'static str| [("one", of), ("two", of)];
        let devices: Vec<_> = labelled.into_iter().flat_map(both).collect();
        let (mut world, mut workloads) = (World::new(), Workloads::default());
        for (version, step) in (1..).zip(steps) {
            let before: Vec<_> = devices.iter().map(|(name, of)| naive(&world, name, of)).collect();
            let changes = take(step, version, &mut world, &mut workloads);
            for ((name, of), before) in devices.iter().zip(before) {
                let wanted = naive(&world, name, of);
                let found = workloads.for_device("a", name, &labels(of));
                let found: Vec<Accepted> = found.iter().map(|w| (**w).clone()).collect();
                prop_assert_eq!(&found, &wanted);
                let concerned = changes.iter().any(|change| change.concerns(name, &labels(of)));
                let same = |(b, w): (&Accepted, &Accepted)| b.name == w.name && b.is_same_pod(w);
                let unchanged =
                    before.len() == wanted.len() && before.iter().zip(&wanted).all(same);
                prop_assert_eq!(concerned, !unchanged, "{:?} {:?}", name, of);
            }
        }
    }
}
