use serde_json::{Value, json};

use super::*;

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "management.project-flotta.io/v1alpha1", "kind": kind,
        "metadata": { "name": name }, "spec": spec,
    })
}

fn read(documents: Vec<Value>) -> Manifests {
    Manifests::of(documents, "default", None).unwrap()
}

fn web(more: Value) -> Value {
    let mut container = json!({ "name": "c", "image": "i" });
    container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "device": "edge1", "pod": { "spec": { "containers": [container] } } })
}

fn fleet(workloads: Vec<Value>) -> Fleet {
    let meta = |name: &str,
                labels: Value|
     -> k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
        serde_json::from_value(json!({ "name": name, "namespace": "default", "labels": labels }))
            .unwrap()
    };
    let device = |name: &str, labels: Value| {
        flashjob_plan::edge::preview::Device::read(&meta(name, labels), &Value::Null)
    };
    let there = if workloads.is_empty() { Vec::new() } else { read(workloads).all };
    let facts = there.into_iter().filter_map(|manifest| match manifest {
        Manifest::Workload(facts) => Some(facts),
        Manifest::Set(_) => None,
    });
    Fleet {
        devices: vec![
            device("edge1", json!({})),
            device("edge2", json!({ "flotta/member-of": "floor" })),
        ],
        workloads: facts.collect(),
        sets: Vec::new(),
    }
}

fn planned(fleet: &Fleet, manifests: &Manifests) -> Planned {
    let Manifests { all, material, .. } = manifests;
    Planned::new(preview(fleet, all, material), material.unreadable())
}

#[test]
fn the_table_says_what_each_would_run_and_what_is_wrong() {
    let port = json!({ "ports": [{ "containerPort": 1, "hostPort": 80 }] });
    let there = vec![
        object("EdgeWorkload", "db", &web(port.clone())),
        object("EdgeDeployment", "web", &web(json!({}))),
    ];
    let probe = web(json!({ "livenessProbe": {} }));
    let from = json!({ "image": "j", "envFrom": [{ "secretRef": { "name": "password" } }] });
    let mut manifests = read(vec![
        object("EdgeDeployment", "web", &web(from)),
        object("EdgeWorkload", "new", &web(port)),
        object("EdgeWorkload", "bad", &probe),
        object("EdgeDeviceSet", "floor", &json!({ "heartbeat": { "periodSeconds": 5 } })),
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "other" } }),
    ]);
    assert_eq!(manifests.notes, ["Deployment other is passed over"]);
    let fleet = fleet(there);
    // Nobody has read the Secret: nothing is said of it.
    assert!(planned(&fleet, &manifests).missing.is_empty());
    manifests.material.put_missing_secret("default", "password");
    let planned = planned(&fleet, &manifests);
    let wanted = "\
DEVICE          BEFORE   AFTER        CHANGE
default/edge1   db,web   db,new,web   +new ~web
default/edge2   -        -            settings

refused  EdgeWorkload default/bad: InvalidSpec: spec.pod.spec.containers[0].livenessProbe: devices do not probe; take it out
missing  EdgeDeployment default/web: SecretMissing: there is no Secret default/password; \
spec.pod.spec.containers[0].envFrom[0].secretRef needs it
port     default/edge1: 80/TCP is wanted twice: db, new
";
    assert_eq!(print(&planned, Format::Table).unwrap(), wanted);
    assert_eq!(sentence(&manifests.all, &planned), "4 objects: 2 devices, 2 of them change.");
    assert!(!planned.is_well());
    let json: Value = serde_json::from_str(&print(&planned, Format::Json).unwrap()).unwrap();
    assert_eq!(json["devices"][0]["collisions"][0]["workloads"], json!(["db", "new"]));
    assert_eq!(json["refused"][0]["reason"], "InvalidSpec");
    let yaml: Value = serde_saphyr::from_str(&print(&planned, Format::Yaml).unwrap()).unwrap();
    assert_eq!(yaml, json);
}

#[test]
fn a_secret_in_the_same_file_is_there_and_what_may_not_be_read_is_unknown() {
    let reference =
        json!({ "valueFrom": { "secretKeyRef": { "name": "password", "key": "p" } }, "name": "P" });
    let needs = object("EdgeWorkload", "web", &web(json!({ "env": [reference] })));
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "password" }, "stringData": { "p": "hunter2" },
    });
    let well = planned(&fleet(Vec::new()), &read(vec![needs.clone(), secret, Value::Null]));
    assert!(well.is_well() && well.unknown.is_empty(), "{well:?}");
    let mut manifests = read(vec![needs]);
    manifests.material.put_unreadable_secret("default", "password");
    let unknown = planned(&fleet(Vec::new()), &manifests);
    assert!(unknown.is_well(), "nobody can say that it is not there");
    let text = print(&unknown, Format::Table).unwrap();
    assert!(text.ends_with("\n?        Secret default/password: you may not read it\n"), "{text}");
}

#[test]
fn a_list_is_its_objects_and_what_makes_no_sense_is_said() {
    let one = object("EdgeWorkload", "web", &web(json!({})));
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": [one.clone(), one.clone()] });
    assert_eq!(read(vec![list]).all.len(), 2);
    let refused = |documents: Vec<Value>, asked: Option<&str>| {
        Manifests::of(documents, "default", asked).err().unwrap().to_string()
    };
    assert!(refused(vec![Value::Null], None).contains("there is no EdgeDeployment"));
    assert!(refused(vec![json!({ "kind": "EdgeWorkload\u{1b}" })], None).contains("has no name"));
    assert!(refused(vec![json!([1])], None).contains("has no name"));
    let asked = refused(vec![one.clone()], Some("factory"));
    assert!(asked.contains("EdgeWorkload web is in namespace default, and -n says factory"));
    let mut elsewhere = one;
    elsewhere["metadata"]["namespace"] = json!("factory");
    assert!(refused(vec![elsewhere.clone()], Some("default")).contains("-n says default"));
    assert_eq!(read(vec![elsewhere]).all[0].place().1, "factory");
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "data": { "a": "hunter2!" } });
    assert!(!refused(vec![secret], None).contains("hunter2"));
}
