use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::*;
use crate::edge::configuration::{ConfigMapData, Found, SecretData};
use crate::edge::read::workload;
use crate::edge::sets::SetKind;
use crate::edge::workloads::{WorkloadKind, Workloads};

const DEVICES: [&str; 4] = ["d1", "d2", "d3", "d4"];
const LABELS: [&str; 4] = ["app=web", "app=db", "floor=1", "floor=2"];

fn meta(namespace: &str, name: &str, created: Option<i64>) -> ObjectMeta {
    let time = |second| Time(Timestamp::from_second(second).unwrap());
    ObjectMeta {
        namespace: Some(namespace.into()),
        name: Some(name.into()),
        uid: created.map(|second| format!("{name}-{second}")),
        creation_timestamp: created.map(time),
        ..ObjectMeta::default()
    }
}

fn device(namespace: &str, name: &str, labels: &[&str], spec: Value) -> Device {
    let pairs = labels.iter().filter_map(|pair| pair.split_once('='));
    let labels = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let meta = ObjectMeta { labels: Some(labels), ..meta(namespace, name, Some(0)) };
    Device::read(&meta, &spec)
}

fn web(image: &str, more: Value) -> Value {
    let mut spec =
        json!({ "pod": { "spec": { "containers": [{ "name": "c", "image": image }] } } });
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}

fn with_port(port: Value, target: &str) -> Value {
    let container = json!({ "name": "c", "image": "i", "ports": [port] });
    json!({ "device": target, "pod": { "spec": { "containers": [container] } } })
}

fn edge_workload(name: &str, created: Option<i64>, spec: &Value) -> WorkloadFacts {
    workload(WorkloadKind::EdgeWorkload, &meta("a", name, created), spec)
}

fn set(name: &str, spec: &Value) -> Set {
    Set::read(SetKind::EdgeDeviceSet, &meta("a", name, None), spec)
}

/// What the first device of a preview would run, and how that differs.
fn first(fleet: &Fleet, manifests: &[Manifest]) -> DevicePreview {
    preview(fleet, manifests, &Nothing).devices.into_iter().next().unwrap()
}

/// There is no Secret and no ConfigMap.
struct Nothing;

impl Material for Nothing {
    fn secret(&self, _: &str, _: &str) -> Found<SecretData> {
        Found::Missing
    }

    fn config_map(&self, _: &str, _: &str) -> Found<ConfigMapData> {
        Found::Missing
    }
}

#[test]
fn a_device_says_what_comes_what_goes_and_what_is_another_pod() {
    let at = |device: &str| json!({ "device": device });
    let fleet = Fleet {
        devices: vec![device("a", "d1", &[], Value::Null), device("b", "d1", &[], Value::Null)],
        workloads: vec![
            edge_workload("db", Some(1), &web("db:1", at("d1"))),
            edge_workload("web", Some(1), &web("web:1", at("d1"))),
        ],
        sets: Vec::new(),
    };
    let manifest = |name: &str, spec: Value| Manifest::Workload(edge_workload(name, None, &spec));
    let new = [
        manifest("db", web("db:1", at("d2"))),
        manifest("log", web("log:1", at("d1"))),
        manifest("web", web("web:2", at("d1"))),
    ];
    let found = preview(&fleet, &new, &Nothing);
    assert!(found.refused.is_empty());
    let [device] = &found.devices[..] else { panic!("{found:#?}") };
    assert_eq!(
        (device.before.join(" "), device.after.join(" ")),
        ("db web".into(), "log web".into())
    );
    assert_eq!(device.changed, ["web"]);
    assert!(device.changes());
    let same = first(&fleet, &[manifest("web", web("web:1", at("d1")))]);
    assert!(!same.changes(), "it is named by the file, and nothing changes: {same:#?}");
}

#[test]
fn what_is_refused_is_named_with_its_path() {
    let older = workload(
        WorkloadKind::EdgeDeployment,
        &meta("a", "web", Some(1)),
        &web("i", json!({ "device": "d1" })),
    );
    let fleet = Fleet { workloads: vec![older], ..Fleet::default() };
    let probe = json!({ "device": "d1", "pod": { "spec": { "containers": [
        { "name": "c", "image": "i", "livenessProbe": {} }
    ] } } });
    let manifests = [
        Manifest::Workload(edge_workload("web", None, &web("i", json!({})))),
        Manifest::Workload(edge_workload("probe", None, &probe)),
        Manifest::Set(set("odd", &json!({ "heartbeat": 7 }))),
    ];
    let refused: Vec<_> = preview(&fleet, &manifests, &Nothing)
        .refused
        .into_iter()
        .map(|refused| (refused.name, refused.problem.reason.as_str(), refused.problem.message))
        .collect();
    assert_eq!((refused[0].0.as_str(), refused[0].1), ("web", "NameConflict"));
    assert_eq!((refused[1].0.as_str(), refused[1].1), ("probe", "InvalidSpec"));
    assert!(refused[1].2.starts_with("spec.pod.spec.containers[0].livenessProbe: "));
    assert!(refused[2].2.starts_with("spec: "), "{refused:?}");
}

#[test]
fn a_set_changes_how_its_members_behave_and_nobody_else() {
    let beat = |seconds: u32| json!({ "heartbeat": { "periodSeconds": seconds } });
    let member = ["flotta/member-of=floor"];
    let fleet = Fleet {
        devices: vec![
            device("a", "d1", &member, Value::Null),
            device("a", "d2", &[], Value::Null),
            device("b", "d3", &member, Value::Null),
        ],
        sets: vec![set("floor", &beat(60))],
        ..Fleet::default()
    };
    let found = preview(&fleet, &[Manifest::Set(set("floor", &beat(5)))], &Nothing);
    let [device] = &found.devices[..] else { panic!("{found:#?}") };
    assert!(device.name == "d1" && device.has_other_settings, "{device:#?}");
    assert!(!first(&fleet, &[Manifest::Set(set("floor", &beat(60)))]).changes());
    let group = Set { kind: SetKind::EdgeDeviceGroup, ..set("floor", &beat(5)) };
    assert!(!first(&fleet, &[Manifest::Set(group)]).changes(), "the newer kind counts");
}

#[test]
fn settings_that_say_the_same_in_other_words_are_no_others() {
    let member = ["flotta/member-of=floor"];
    let log =
        |name: &str| json!({ "logCollection": { "a": { "syslogConfig": { "name": name } } } });
    let other = |own: Value, before: &Value, after: &Value| {
        let fleet = Fleet {
            devices: vec![device("a", "d1", &member, own)],
            sets: vec![set("floor", before)],
            ..Fleet::default()
        };
        first(&fleet, &[Manifest::Set(set("floor", after))]).has_other_settings
    };
    let beat = |seconds: u32| json!({ "heartbeat": { "periodSeconds": seconds } });
    assert!(!other(Value::Null, &json!({}), &beat(60)), "that is the default");
    assert!(!other(beat(5), &json!({}), &beat(5)), "it says so itself");
    assert!(other(beat(60), &json!({}), &beat(5)));
    assert!(!other(Value::Null, &log("x"), &log("y")), "neither is there, so neither is sent");
}

#[test]
fn what_is_needed_and_not_there_is_named_for_what_would_be_sent_and_for_nothing_else() {
    let env = json!([{ "secretRef": { "name": "password" } }]);
    let needs_it = |more: Value| {
        let mut container = json!({ "name": "c", "image": "i", "envFrom": env });
        container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "device": "d1", "pod": { "spec": { "containers": [container] } } })
    };
    let log = json!({ "logCollection": { "a": { "syslogConfig": { "name": "log" } } } });
    let manifests = [
        Manifest::Workload(edge_workload("web", None, &needs_it(json!({})))),
        Manifest::Workload(edge_workload("probe", None, &needs_it(json!({ "livenessProbe": {} })))),
        Manifest::Set(set("floor", &log)),
    ];
    let fleet = Fleet { sets: vec![set("floor", &json!({}))], ..Fleet::default() };
    let found = preview(&fleet, &manifests, &Nothing);
    let missing: Vec<_> = found
        .missing
        .iter()
        .map(|of| (of.kind, of.name.as_str(), of.problem.reason.as_str()))
        .collect();
    let wanted =
        [("EdgeWorkload", "web", "SecretMissing"), ("EdgeDeviceSet", "floor", "ConfigMapMissing")];
    assert_eq!(missing, wanted);
    assert_eq!(found.refused.len(), 1);
    let read: BTreeSet<_> = needs(&fleet, &manifests)
        .into_iter()
        .flat_map(|(_, needs)| needs.secrets.into_iter().chain(needs.config_maps))
        .collect();
    assert_eq!(read, BTreeSet::from(["log".to_owned(), "password".to_owned()]));
}

#[test]
fn a_port_that_two_want_is_found_and_only_where_they_meet() {
    let fleet = Fleet {
        devices: vec![device("a", "d1", &[], Value::Null)],
        workloads: vec![edge_workload(
            "web",
            Some(1),
            &with_port(json!({ "containerPort": 1, "hostPort": 80 }), "d1"),
        )],
        sets: Vec::new(),
    };
    let collisions = |port: Value| {
        let new = Manifest::Workload(edge_workload("new", None, &with_port(port, "d1")));
        first(&fleet, &[new]).collisions
    };
    let tcp =
        json!({ "containerPort": 1, "hostPort": 80, "hostIP": "10.0.0.1", "protocol": "TCP" });
    let wanted =
        Collision { port: 80, protocol: "TCP".into(), workloads: vec!["new".into(), "web".into()] };
    assert_eq!(collisions(tcp), [wanted]);
    for other in [
        json!({ "containerPort": 80 }),
        json!({ "containerPort": 80, "hostPort": 0 }),
        json!({ "containerPort": 1, "hostPort": 80, "protocol": "UDP" }),
        json!({ "containerPort": 1, "hostPort": 81 }),
    ] {
        assert_eq!(collisions(other.clone()), [], "{other}");
    }
}

/// Something to run and whom it is for; one in eight cannot be accepted.
fn spec() -> impl Strategy<Value = Value> {
    let target = prop_oneof![
        select(&DEVICES[..]).prop_map(|name| json!({ "device": name })),
        select(&LABELS[..]).prop_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap();
            json!({ "deviceSelector": { "matchLabels": { key: value } } })
        }),
        select(&["app", "floor"][..]).prop_map(|key| {
            let absent = json!({ "key": key, "operator": "DoesNotExist" });
            json!({ "deviceSelector": { "matchExpressions": [absent] } })
        }),
        Just(json!({ "deviceSelector": {} })),
        Just(json!({})),
    ];
    let image = prop_oneof![7 => select(&["i:1", "i:2"][..]), 1 => Just("")];
    (target, image).prop_map(|(target, image)| web(image, target))
}

type Key = (WorkloadKind, &'static str, &'static str);

fn key() -> impl Strategy<Value = Key> {
    (select(&WorkloadKind::ALL[..]), select(&["a", "b"][..]), select(&["w1", "w2", "w3"][..]))
}

fn devices() -> impl Strategy<Value = Vec<Device>> {
    let labels = proptest::sample::subsequence(&LABELS[..], 0..4);
    let one = (select(&["a", "b"][..]), select(&DEVICES[..]), labels);
    proptest::collection::btree_map((one.0, one.1), one.2, 0..8).prop_map(|all| {
        let one = |((namespace, name), labels): ((&str, &str), Vec<&str>)| {
            device(namespace, name, &labels, Value::Null)
        };
        all.into_iter().map(one).collect()
    })
}

/// What is there after a server has taken it all in, told by a list in another order than it came.
fn listed(objects: &BTreeMap<Key, (Option<i64>, Value)>) -> Workloads {
    let mut index = Workloads::default();
    for kind in WorkloadKind::ALL {
        for namespace in ["a", "b"] {
            index.begin(kind, namespace);
            for ((_, _, name), (created, spec)) in
                objects.iter().rev().filter(|((k, n, _), _)| *k == kind && *n == namespace)
            {
                let meta = meta(namespace, name, Some(created.unwrap_or(1_000)));
                drop(index.see(workload(kind, &meta, spec)));
            }
            drop(index.end(kind, namespace));
        }
    }
    index
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_foreseen_is_what_the_index_gives_once_it_is_applied(
        devices in devices(),
        there in proptest::collection::btree_map(key(), (0_i64..100, spec()), 0..8),
        new in proptest::collection::btree_map(key(), spec(), 1..5),
    ) {
        let mut objects: BTreeMap<Key, (Option<i64>, Value)> = there
            .iter()
            .map(|(key, (created, spec))| (*key, (Some(*created), spec.clone())))
            .collect();
        let workloads = objects.iter().map(|((kind, namespace, name), (created, spec))| {
            workload(*kind, &meta(namespace, name, *created), spec)
        });
        let fleet = Fleet { devices, workloads: workloads.collect(), sets: Vec::new() };
        let manifests: Vec<Manifest> = new.iter().map(|((kind, namespace, name), spec)| {
            Manifest::Workload(workload(*kind, &meta(namespace, name, None), spec))
        }).collect();
        let foreseen = preview(&fleet, &manifests, &Nothing);

        let before = listed(&objects);
        for (key, spec) in &new {
            objects.entry(*key).or_default().1 = spec.clone();
        }
        let after = listed(&objects);
        let names = |index: &Workloads, device: &Device| -> Vec<String> {
            let all = index.for_device(&device.namespace, &device.name, &device.labels);
            all.iter().map(|workload| workload.name.clone()).collect()
        };
        for device in &fleet.devices {
            let (did, does) = (names(&before, device), names(&after, device));
            let is_it = |of: &&DevicePreview| of.namespace == device.namespace && of.name == device.name;
            match foreseen.devices.iter().find(is_it) {
                Some(told) => {
                    prop_assert_eq!(&told.before, &did);
                    prop_assert_eq!(&told.after, &does);
                    for name in did.iter().filter(|name| does.contains(name)) {
                        let image = |of: &Workloads| of.served(&device.namespace, name).unwrap().spec.pod.clone();
                        let is_other = image(&before) != image(&after);
                        prop_assert_eq!(told.changed.contains(name), is_other);
                    }
                }
                // Who is not named changes nothing.
                None => prop_assert_eq!(did, does),
            }
        }
        for (kind, namespace, name) in new.keys() {
            let mut judged = after.of_name(namespace, name);
            let refused = judged.find(|judged| judged.facts.kind == *kind).unwrap().verdict.err();
            let told = foreseen.refused.iter().find(|refused| {
                (refused.kind, refused.namespace.as_str(), refused.name.as_str()) == (kind.kind(), *namespace, *name)
            });
            prop_assert_eq!(told.map(|refused| &refused.problem), refused.as_ref());
        }
        let named: BTreeSet<_> = foreseen.devices.iter().map(|d| (&d.namespace, &d.name)).collect();
        prop_assert_eq!(named.len(), foreseen.devices.len());
    }
}
