//! From API objects to what decisions depend on.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use flashjob_api::edge::Hardware;
use flashjob_plan::edge::facts::{EdgeDeviceFacts, HeartbeatFacts, SignedRequestFacts};
use flashjob_plan::edge::keys::{self, Keys};
use flashjob_plan::edge::labels;
use kube::ResourceExt;
use serde_json::Value;

use super::slim;

/// On an EdgeDeviceSignedRequest: whoever sets it to `true` refuses the device.
pub const DECLINED: &str = "management.project-flotta.io/declined";

/// An object with its name.
pub type Named<T> = Box<(String, T)>;

pub fn device(object: &slim::EdgeDevice) -> Named<EdgeDeviceFacts> {
    let meta = &object.metadata;
    let hardware = object.status.get("hardware").filter(|hardware| !hardware.is_null());
    let of_hardware = |(key, _): &(&String, &String)| key.starts_with(labels::HARDWARE);
    let own = |(key, value): (&String, &String)| (key.clone(), value.clone());
    let facts = EdgeDeviceFacts {
        namespace: object.namespace().unwrap_or_default(),
        uid: object.uid().unwrap_or_default(),
        resource_version: version(meta.resource_version.as_deref()),
        being_deleted: meta.deletion_timestamp.is_some(),
        finalizers: meta.finalizers.clone().unwrap_or_default(),
        keys: Keys::read(object.annotations().get(keys::ANNOTATION).map(String::as_str)),
        unclaimed: is_true(object.labels().get(labels::UNCLAIMED)),
        labels: object.labels().iter().filter(of_hardware).map(own).collect(),
        hardware: hardware.map(hash),
        has_status: object.status.is_object(),
        heartbeat: heartbeat(&object.spec),
    };
    Box::new((object.name_any(), facts))
}

fn heartbeat(spec: &Value) -> HeartbeatFacts {
    let profile = "/heartbeat/hardwareProfile";
    HeartbeatFacts {
        period_seconds: spec.pointer("/heartbeat/periodSeconds").and_then(Value::as_i64),
        hardware: spec.pointer(&format!("{profile}/include")).and_then(Value::as_bool),
        scope: spec.pointer(&format!("{profile}/scope")).and_then(Value::as_str).map(str::to_owned),
    }
}

pub fn signed_request(object: &slim::SignedRequest) -> Named<SignedRequestFacts> {
    let text = |field: &str| {
        let text = object.spec.get(field).and_then(Value::as_str).map(str::trim);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let facts = SignedRequestFacts {
        uid: object.uid().unwrap_or_default(),
        resource_version: version(object.metadata.resource_version.as_deref()),
        being_deleted: object.metadata.deletion_timestamp.is_some(),
        approved: object.spec.get("approved").and_then(Value::as_bool).unwrap_or_default(),
        declined: is_true(object.annotations().get(DECLINED)),
        namespace: text("targetNamespace").unwrap_or_default(),
        set: text("targetSet"),
        phase: object.status.get("phase").and_then(Value::as_str).map(str::to_owned),
    };
    Box::new((object.name_any(), facts))
}

/// What a device says of its hardware, as it is kept.
pub fn hardware_hash(hardware: &Hardware) -> u64 {
    hash(&serde_json::to_value(hardware).unwrap_or_default())
}

/// Keys of an object are in order in a `Value`, so equal ones have equal texts.
fn hash(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}

/// The labels that come from the hardware.
pub fn hardware_labels(hardware: &Hardware) -> BTreeMap<String, String> {
    let cpu = hardware.cpu.as_ref();
    let vendor = hardware.system_vendor.as_ref();
    let said = [
        ("hostname", hardware.hostname.as_deref()),
        ("cpu-architecture", cpu.and_then(|cpu| cpu.architecture.as_deref())),
        ("cpu-model", cpu.and_then(|cpu| cpu.model_name.as_deref())),
        ("system-manufacturer", vendor.and_then(|vendor| vendor.manufacturer.as_deref())),
        ("system-product", vendor.and_then(|vendor| vendor.product_name.as_deref())),
        ("system-serial", vendor.and_then(|vendor| vendor.serial_number.as_deref())),
    ];
    let label = |(name, text): (&str, Option<&str>)| {
        Some((format!("{}{name}", labels::HARDWARE), labels::value(text?)?))
    };
    said.into_iter().filter_map(label).collect()
}

fn is_true(text: Option<&String>) -> bool {
    text.is_some_and(|text| text == "true")
}

/// A resourceVersion as a number. Kubernetes promises since 1.35 that newer ones are greater, and they always were.
fn version(text: Option<&str>) -> u64 {
    text.and_then(|version| version.parse().ok()).unwrap_or(0)
}
