use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::*;
use flashjob_plan::edge::preview::Fleet;
use flashjob_plan::edge::read::workload;
use flashjob_plan::edge::workloads::WorkloadKind;

fn meta(name: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: Some("default".into()),
        name: Some(name.into()),
        ..ObjectMeta::default()
    }
}

fn target(runs: &[&str]) -> Target {
    Target {
        namespace: "default".into(),
        name: "edge1".into(),
        device: preview::Device::read(
            &meta("edge1"),
            &json!({ "heartbeat": { "periodSeconds": 7 } }),
        ),
        runs: runs.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// `plain`, and `db` with the key `p` of the Secret `password`.
fn index() -> Index {
    let of = |name: &str, env: Value| {
        let container = json!({ "name": "c", "image": "i", "env": env });
        let spec = json!({ "device": "edge1", "pod": { "spec": { "containers": [container] } } });
        workload(WorkloadKind::EdgeWorkload, &meta(name), &spec)
    };
    let from = json!({ "secretKeyRef": { "name": "password", "key": "p" } });
    let workloads =
        vec![of("plain", json!([])), of("db", json!([{ "name": "P", "valueFrom": from }]))];
    Fleet { workloads, ..Fleet::default() }.index()
}

fn rendered(material: &LiveMaterial, runs: &[&str]) -> (Value, Vec<String>) {
    let (message, notes) = render(&target(runs), &index(), material, &Bucket::default()).unwrap();
    (serde_json::to_value(message).unwrap(), notes)
}

#[test]
fn what_a_secret_holds_is_masked() {
    let mut material = LiveMaterial::default();
    let data = [("p".to_owned(), ByteString(b"hunter2".to_vec()))].into();
    let secret = Secret { data: Some(data), ..Secret::default() };
    material.put_secret(("default".into(), "password".into()), secret);
    let (message, notes) = rendered(&material, &[]);
    assert_eq!(message["secrets"], json!([{ "name": "password", "data": "{\"p\":\"***\"}" }]));
    assert_eq!(message["configuration"]["heartbeat"]["period_seconds"], 7);
    assert_eq!(message["workloads"][0]["name"], "db");
    assert_eq!(message["version"].as_str().map(str::len), Some(32));
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn what_may_not_be_read_has_its_place_and_no_version() {
    let mut material = LiveMaterial::default();
    material.put_unreadable_secret("default", "password");
    let (message, notes) = rendered(&material, &[]);
    assert_eq!(message["secrets"][0]["data"], "{\"<not readable>\":\"***\"}");
    assert_eq!(message["version"], "<not readable>");
    assert_eq!(message["workloads"].as_array().map(Vec::len), Some(2));
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn what_is_missing_is_left_out_and_who_runs_it_keeps_what_it_has() {
    let mut material = LiveMaterial::default();
    material.put_missing_secret("default", "password");
    let (message, notes) = rendered(&material, &["plain"]);
    assert_eq!(message["workloads"].as_array().map(Vec::len), Some(1));
    assert!(
        notes.len() == 1 && notes[0].starts_with("db is not sent: SecretMissing: "),
        "{notes:?}"
    );
    let (_, notes) = rendered(&material, &["db"]);
    assert!(notes[1].contains("keeps the configuration that it has"), "{notes:?}");
}
