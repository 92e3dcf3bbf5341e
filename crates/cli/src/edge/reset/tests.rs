use flashjob_plan::edge::keys::Keys;
use kube::api::DynamicObject;

use super::*;

fn device(keys: Option<&str>, unclaimed: bool) -> Device {
    let mut metadata = json!({ "name": "edge1", "namespace": "default", "uid": "u" });
    if let Some(keys) = keys {
        metadata["annotations"] = json!({ (keys::ANNOTATION): keys });
    }
    if unclaimed {
        metadata["labels"] = json!({ (labels::UNCLAIMED): "true" });
    }
    let object: DynamicObject = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
    Device::read(object)
}

fn in_use() -> String {
    let key =
        json!({ "key": "a".repeat(64), "ca": "0".repeat(16), "since": "2026-11-18T00:00:00Z" });
    let text = json!({ "current": key }).to_string();
    Keys::read(Some(&text)).unwrap();
    text
}

#[test]
fn a_reset_sets_the_label_and_never_takes_the_record_away_without_it() {
    let keys = in_use();
    let both = json!({ "uid": "u", "labels": { (labels::UNCLAIMED): "true" }, "annotations": { (keys::ANNOTATION): null } });
    let label = json!({ "uid": "u", "labels": { (labels::UNCLAIMED): "true" } });
    let cases: [(Option<&str>, bool, bool, Option<&Value>); 9] = [
        (Some(&keys), false, false, Some(&label)),
        (Some(&keys), false, true, Some(&both)),
        (Some(&keys), true, false, None),
        (Some(&keys), true, true, Some(&both)),
        (Some("{"), false, false, Some(&label)),
        (Some("{"), true, true, Some(&both)),
        (None, false, true, Some(&label)),
        (None, true, true, None),
        (None, true, false, None),
    ];
    for (keys, unclaimed, forget, wanted) in cases {
        let made = change(&device(keys, unclaimed), forget);
        let wanted = wanted.map(|metadata| json!({ "metadata": metadata }));
        assert_eq!(made, wanted, "{keys:?} {unclaimed} {forget}");
    }
}

#[test]
fn what_happens_next_is_said() {
    let keys = in_use();
    let says = |keys: Option<&str>, forgotten| next(&device(keys, false), forgotten);
    let undo = "kubectl label edgedevice edge1 -n default edgedeviceSignedRequest-";
    assert!(says(Some(&keys), false).contains(undo));
    assert!(says(Some("{"), false).contains("no box is served until one registers"));
    assert!(says(Some(&keys), true).contains("register again"));
    assert!(says(None, false).contains("register again"), "Flotta's own");
}
