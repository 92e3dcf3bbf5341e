use flashjob_plan::edge::heartbeat::roll;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::*;
use crate::output::{Output, print};

const NOW: &str = "2026-11-19T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn keys(until: &str) -> String {
    let key =
        json!({ "key": "a".repeat(64), "ca": "ad1435ec50a06a40", "since": "2026-11-18T00:00:00Z" });
    json!({ "current": key, "until": until }).to_string()
}

/// As the API server has it, whatever is in it.
fn device(name: &str, metadata: Value, status: Value) -> ListedDevice {
    let mut object = json!({
        "metadata": { "name": name, "namespace": "default", "creationTimestamp": "2026-11-19T09:00:00Z" },
        "status": status,
    });
    let merged = object["metadata"].as_object_mut().unwrap();
    merged.extend(metadata.as_object().unwrap().clone());
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let device = Device::read(object);
    let last_seen = last_seen().of(&device);
    ListedDevice::new(device, last_seen, now())
}

/// Two ConfigMaps of the roll; one device is in both, and somebody has written nonsense into one.
fn last_seen() -> LastSeen {
    let second = |minute: i64| now().as_second() - minute * 60;
    let maps = [
        format!("default/edge1 {} 60\nnonsense\n", second(9)),
        format!("default/edge1 {} 60\ndefault/edge4 {} 60\n", second(3), second(180)),
    ];
    let decode = |devices| roll::decode(&[("devices".to_owned(), devices)].into());
    LastSeen::from_roll(maps.map(decode))
}

fn fleet() -> Vec<ListedDevice> {
    let annotation = |until| json!({ "management.project-flotta.io/keys": keys(until) });
    let unclaimed = json!({ "edgedeviceSignedRequest": "true" });
    let at = "2026-11-19T11:00:00Z";
    vec![
        device(
            "edge1",
            json!({ "annotations": annotation("2027-11-18T12:00:00Z"), "labels": { "flotta/member-of": "cameras" } }),
            json!({
                "conditions": [
                    { "type": "Ready", "status": "True", "reason": "Reports", "lastTransitionTime": at, "message": "" },
                    { "type": "Synced", "status": "False", "reason": "Behind", "message": "for 3m", "lastTransitionTime": at },
                ],
                "running": "2/3",
                "phase": "up",
                "hardware": {
                    "hostname": "camera-7",
                    "cpu": { "architecture": "aarch64" },
                    "systemVendor": { "productName": "Pi\u{1b}4" },
                },
            }),
        ),
        device("edge2", json!({ "labels": unclaimed }), Value::Null),
        device(
            "edge3",
            json!({}),
            json!({ "conditions": "nonsense", "running": 7, "hardware": [] }),
        ),
        device(
            "edge4",
            json!({ "annotations": { "management.project-flotta.io/keys": "{" } }),
            json!({ "conditions": [7, { "type": "Ready", "status": "Unknown", "reason": "NoHeartbeat" }] }),
        ),
        device(
            "edge5",
            json!({ "annotations": annotation("2026-11-18T12:00:00Z"), "labels": unclaimed, "deletionTimestamp": at }),
            json!({}),
        ),
    ]
}

fn printed(output: Output) -> String {
    print(&fleet(), output, now(), true).unwrap()
}

#[test]
fn the_table_says_who_reports_and_whose_certificate_is_good_for_how_long() {
    let wanted = "\
NAMESPACE   NAME    READY                 LAST SEEN   SYNCED         WORKLOADS   CERTIFICATE     AGE
default     edge1   True                  3m          False Behind   2/3         364d            3h
default     edge2   -                     -           -              -           awaited         3h
default     edge3   -                     -           -              -           not on record   3h
default     edge4   Unknown NoHeartbeat   3h          -              -           unreadable      3h
default     edge5   being deleted         -           -              -           ended, reset    3h
";
    assert_eq!(printed(Output::Table), wanted);
}

#[test]
fn wide_has_what_the_device_is_made_of_and_its_ca() {
    let wide = printed(Output::Wide);
    let lines: Vec<&str> = wide.lines().collect();
    let head = "AGE   PHASE   SET       HOSTNAME   ARCHITECTURE   MODEL   CA";
    assert!(lines[0].ends_with(head), "{wide}");
    let first = "3h    up      cameras   camera-7   aarch64        Pi 4    ad1435ec50a06a40";
    assert!(lines[1].ends_with(first), "{wide}");
}

#[test]
fn json_yaml_and_names_are_for_programs() {
    let json: Value = serde_json::from_str(&printed(Output::Json)).unwrap();
    let first = &json["devices"][0];
    assert_eq!(first["synced"]["reason"], "Behind");
    let certificate = json!({
        "key": "in use", "mayRegister": false, "ca": "ad1435ec50a06a40", "ends": "2027-11-18T12:00:00Z", "daysLeft": 364,
    });
    assert_eq!(first["certificate"], certificate);
    assert_eq!(json["devices"][4]["beingDeleted"], true);
    let yaml: Value = serde_saphyr::from_str(&printed(Output::Yaml)).unwrap();
    assert_eq!(yaml, json);
    let names = "default/edge1\ndefault/edge2\ndefault/edge3\ndefault/edge4\ndefault/edge5\n";
    assert_eq!(printed(Output::Name), names);
    assert_eq!(print::<ListedDevice>(&[], Output::Table, now(), true).unwrap(), "");
}

#[test]
fn who_was_heard_of_again_and_is_the_same_is_not_watched_anew() {
    let before = fleet().remove(0);
    let again = ListedDevice { last_seen: Some(now()), ..before.clone() };
    assert!(again.is_same(&before));
    let other = ListedDevice { workloads: "3/3".into(), ..again };
    assert!(!other.is_same(&before));
}
