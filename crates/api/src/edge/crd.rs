//! The CRDs of Edge. Nothing in them is required, and every field may be null: manifests written for the original carry
//! nulls, and what its operator wrote into a status has a null for every time that was not set.
//!
//! The exception are standard conditions: they are ours, and a list that is merged by a key needs the key.

use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::crd;
use crate::edge::{
    EdgeDeployment, EdgeDevice, EdgeDeviceGroup, EdgeDeviceSet, EdgeDeviceSignedRequest,
    EdgeWorkload,
};

/// The kinds by their plurals: what [`named`] knows.
pub const NAMES: [&str; 6] = [
    "edgedevices",
    "edgedeployments",
    "edgeworkloads",
    "edgedevicegroups",
    "edgedevicesets",
    "edgedevicesignedrequest",
];

/// The CRD of a kind, by its plural, ready to be applied.
pub fn named(plural: &str) -> Option<Value> {
    Some(match plural {
        "edgedevices" => of::<EdgeDevice>(),
        "edgedeployments" => of::<EdgeDeployment>(),
        "edgeworkloads" => of::<EdgeWorkload>(),
        "edgedevicegroups" => of::<EdgeDeviceGroup>(),
        "edgedevicesets" => of::<EdgeDeviceSet>(),
        "edgedevicesignedrequest" => of::<EdgeDeviceSignedRequest>(),
        _ => return None,
    })
}

fn of<K: CustomResourceExt>() -> Value {
    let mut crd = crd::of::<K>();
    if let Some(root) = crd.pointer_mut("/spec/versions/0/schema/openAPIV3Schema") {
        ask_for_nothing(root);
        if let Some(hardware) = root.pointer_mut("/properties/status/properties/hardware") {
            take_the_unknown(hardware);
        }
    }
    crd
}

/// The schema itself stays as it is about null: an entry of a list may be null only where its type says so.
fn ask_for_nothing(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    map.remove("required");
    let merged_by_key = map.get("x-kubernetes-list-type") == Some(&json!("map"));
    for (key, value) in map {
        match (key.as_str(), value) {
            ("properties", Value::Object(fields)) => fields.values_mut().for_each(may_be_null),
            ("items", entry) if !merged_by_key => ask_for_nothing(entry),
            ("additionalProperties", entry) => ask_for_nothing(entry),
            _ => {}
        }
    }
}

fn may_be_null(schema: &mut Value) {
    if let Value::Object(map) = schema {
        map.insert("nullable".into(), json!(true));
        ask_for_nothing(schema);
    }
}

/// The original's sample of an EdgeDevice, and devices of its first months, have the hardware in snake_case. Server-side
/// apply refuses a field that it does not know, and so does kubectl.
fn take_the_unknown(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    if map.contains_key("properties") {
        map.insert("x-kubernetes-preserve-unknown-fields".into(), json!(true));
    }
    for (key, value) in map {
        match (key.as_str(), value) {
            ("properties", Value::Object(fields)) => fields.values_mut().for_each(take_the_unknown),
            ("items", entry) => take_the_unknown(entry),
            _ => {}
        }
    }
}
