use flashjob_plan::edge::keys::Keys;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::*;
use crate::check::ReadError;

fn now() -> Timestamp {
    "2026-11-19T12:00:00Z".parse().unwrap()
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

fn device(keys: &str, more: Value, status: Value) -> Device {
    let mut metadata = json!({
        "name": "edge1", "namespace": "default", "annotations": { "management.project-flotta.io/keys": keys },
    });
    metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Device::read(object(json!({ "metadata": metadata, "status": status })))
}

fn keys(until: &str) -> String {
    let key = json!({ "key": "48a1e0a1ac9f".repeat(6)[..64], "ca": "ad1435ec50a06a40", "since": "2026-11-18T00:00:00Z" });
    json!({ "current": key, "until": until }).to_string()
}

fn known(device: Option<Device>) -> Known {
    let last_seen = Ok(Some("2026-11-19T11:57:00Z".parse().unwrap()));
    Known {
        name: "edge1".into(),
        device,
        last_seen,
        requests: Vec::new(),
        tombstones: Ok(Vec::new()),
    }
}

fn says(known: &Known) -> String {
    explain(known, now()).join("\n")
}

#[test]
fn a_device_in_trouble_has_a_sentence_and_something_to_do_for_each() {
    let status = json!({
        "conditions": [
            {
                "type": "Ready", "status": "Unknown", "reason": "NoHeartbeat", "message": "none since 11:50\u{1b}",
                "lastTransitionTime": "2026-11-19T11:55:00Z",
            },
            { "type": "Synced", "status": "False", "reason": "SomethingNew" },
        ],
        "running": "1/2",
        "workloads": [
            { "name": "web", "phase": "Running" },
            { "name": "db", "phase": "Exited", "message": "exit code 1", "lastTransitionTime": "2026-11-19T11:00:00Z" },
        ],
    });
    let wanted = "\
default/edge1: it does not report; 1/2 workloads run
Ready: Unknown for 5m, NoHeartbeat: none since 11:50 \n  What to do: check power and network of the device
Synced: False, SomethingNew
workload db: Exited for 60m: exit code 1
last seen: 3m ago, by a record that is written every 5m
key: 48a1e0a1ac9f… in use since 2026-11-18, with a certificate of the CA ad1435ec50a06a40; the last certificate it was given ends on 2026-11-22 (3 days)
  What to do: Flotta's agent cannot renew: change to flashjob-agent, or reset the device and register it anew";
    assert_eq!(
        says(&known(Some(device(&keys("2026-11-22T13:00:00Z"), json!({}), status)))),
        wanted
    );
}

#[test]
fn a_key_that_is_missing_spoilt_or_reset_is_told_apart() {
    let far = keys("2027-11-19T12:00:00Z");
    let label = json!({ "labels": { "edgedeviceSignedRequest": "true" } });
    let cases = [
        (far.as_str(), label.clone(), "reset: any box with the registration certificate"),
        ("{", json!({}), "kubectl flashjob edge reset edge1 -n default, and have its box register"),
        ("", json!({ "annotations": {} }), "key: none on record"),
        (
            "",
            json!({ "annotations": {}, "labels": label["labels"] }),
            "key: no box has used a certificate yet\n  What to do: start the box",
        ),
        (
            &far,
            json!({ "deletionTimestamp": "2026-11-19T11:00:00Z" }),
            "default/edge1: it is being deleted\n  What to do: wait",
        ),
    ];
    for (keys, metadata, wanted) in cases {
        let text = says(&known(Some(device(keys, metadata, Value::Null))));
        assert!(text.contains(wanted), "{wanted}:\n{text}");
    }
}

#[test]
fn a_request_says_who_has_to_answer_it() {
    let request = |annotations: Value, spec: Value| {
        let metadata =
            json!({ "name": "edge1", "namespace": "default", "annotations": annotations });
        let request = Request::read(&object(json!({ "metadata": metadata, "spec": spec })));
        says(&Known { requests: vec![request], ..known(None) })
    };
    let approve = "kubectl flashjob edge approve edge1 -n default";
    let pending = request(json!({}), json!({ "targetNamespace": "factory" }));
    assert!(
        pending.contains("for namespace factory: pending") && pending.contains(approve),
        "{pending}"
    );
    let declined = json!({ "management.project-flotta.io/declined": "true" });
    let declined = request(declined, json!({ "approved": true }));
    assert!(
        declined.contains("declined: the device is refused\n  What to do: if it may"),
        "{declined}"
    );
    assert!(
        request(json!({}), json!({ "approved": true })).contains("whether its namespace is served")
    );
}

#[test]
fn a_tombstone_says_whether_the_box_knows() {
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    let waits = Tombstone {
        namespace: "default".into(),
        name: "edge1".into(),
        uid: "u".into(),
        deleted: at("2026-11-18T00:00:00Z"),
        until: at("2027-11-18T00:00:00Z"),
        keys: Keys::default(),
        fetched: None,
    };
    let fetched = Tombstone { fetched: Some(at("2026-11-19T00:00:00Z")), ..waits.clone() };
    let over = Tombstone { until: at("2026-11-19T00:00:00Z"), ..waits.clone() };
    let cases = [
        (waits, "when it next asks"),
        (fetched, "told to disconnect on 2026-11-19"),
        (over, "ended on 2026-11-19"),
    ];
    for (tombstone, wanted) in cases {
        let text = says(&Known { tombstones: Ok(vec![tombstone]), ..known(None) });
        assert!(
            text.starts_with("default/edge1 was deleted on 2026-11-18; ") && text.contains(wanted),
            "{text}"
        );
    }
}

#[test]
fn of_whom_nothing_is_known_nothing_is_said() {
    assert!(explain(&known(None), now()).is_empty());
    let unseen = Known { tombstones: Err(ReadError::Forbidden), ..known(None) };
    assert!(explain(&unseen, now()).is_empty());
    let going = device("{", json!({ "deletionTimestamp": "2026-11-19T11:00:00Z" }), Value::Null);
    let unseen = Known { device: Some(going), ..unseen };
    assert!(says(&unseen).contains("you may not see"));
}

#[test]
fn a_workload_says_who_lags_why_and_what_to_do() {
    use crate::edge::lagging::tests::{fleet, web};
    let wanted = "\
EdgeWorkload default/web: 1 of 6 devices run it
Accepted: True, Accepted: devices can run it
Complete: False, Deploying
devices: edge1, edge2, edge3, edge4, edge5, edge6
edge2: Deploying: Deploying for 2m
edge3: Failed: Exited, exit code 1 for 2m: no such file
edge4: Offline: NoHeartbeat: no heartbeat since 11:50 \n  What to do: check power and network of the device
edge5: Failed: Deploying: SecretMissing: there is no Secret default/password
  What to do: make the Secret, or take the reference out
edge6: Deploying: InProgress: for 5s";
    assert_eq!(of_workload::lines(&web(1, "Always"), &fleet(), now()).join("\n"), wanted);
}

#[test]
fn a_workload_that_is_refused_says_what_to_do() {
    let object = object(json!({
        "metadata": { "name": "web", "namespace": "default", "generation": 1 },
        "status": {
            "conditions": [{ "type": "Accepted", "status": "False", "reason": "NameTooLong", "message": "m" }],
            "message": "NameTooLong: m", "observedGeneration": 1,
        },
    }));
    let workload =
        Workload::read(flashjob_plan::edge::workloads::WorkloadKind::EdgeDeployment, &object);
    let text = of_workload::lines(&workload, &[], now()).join("\n");
    assert!(text.ends_with("  What to do: give it a name of at most 63 characters"), "{text}");
    assert!(text.starts_with("EdgeDeployment default/web: NameTooLong: m\n"), "{text}");
}

#[test]
fn what_is_meant_may_be_said_before_the_name() {
    let cases = [
        ("web", (Subject::Either, "web")),
        ("factory/web", (Subject::Either, "factory/web")),
        ("device/edge1", (Subject::Device, "edge1")),
        ("EdgeDevice/factory/edge1", (Subject::Device, "factory/edge1")),
        ("workload/web", (Subject::Workload, "web")),
        ("edgedeployments/factory/web", (Subject::Workload, "factory/web")),
    ];
    for (written, wanted) in cases {
        assert_eq!(Subject::read(written), wanted, "{written}");
    }
}
