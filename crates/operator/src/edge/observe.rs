//! From API objects to what decisions depend on.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use flashjob_api::edge::Hardware;
use flashjob_plan::edge::facts::{EdgeDeviceFacts, HeartbeatFacts, SignedRequestFacts};
use flashjob_plan::edge::keys::{self, Keys};
use flashjob_plan::edge::{finalizers, labels};
use kube::ResourceExt;
use serde_json::Value;

use super::slim;

/// On an EdgeDeviceSignedRequest: whoever sets it to `true` refuses the device.
pub const DECLINED: &str = "management.project-flotta.io/declined";

/// The longest name that Kubernetes takes.
const LONGEST: usize = 253;

/// An object with its name.
pub type Named<T> = Box<(String, T)>;

pub fn device(object: &slim::EdgeDevice) -> Named<EdgeDeviceFacts> {
    let meta = &object.metadata;
    let hardware = object.status.get("hardware").filter(|hardware| !hardware.is_null());
    let of_hardware = |(key, _): &(&String, &String)| {
        let name = key.strip_prefix(labels::HARDWARE);
        name.is_some_and(|name| HARDWARE_LABELS.contains(&name))
    };
    let own = |(key, value): (&String, &String)| (key.clone(), value.clone());
    let facts = EdgeDeviceFacts {
        namespace: object.namespace().unwrap_or_default(),
        uid: object.uid().unwrap_or_default(),
        resource_version: version(meta.resource_version.as_deref()),
        being_deleted: meta.deletion_timestamp.is_some(),
        finalizers: finalizers::known(
            meta.finalizers.clone().unwrap_or_default(),
            meta.deletion_timestamp.is_some(),
        ),
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
        scope: short(spec.pointer(&format!("{profile}/scope"))),
    }
}

pub fn signed_request(object: &slim::SignedRequest) -> Named<SignedRequestFacts> {
    let text = |field: &str| short(object.spec.get(field));
    let facts = SignedRequestFacts {
        uid: object.uid().unwrap_or_default(),
        resource_version: version(object.metadata.resource_version.as_deref()),
        being_deleted: object.metadata.deletion_timestamp.is_some(),
        approved: object.spec.get("approved").and_then(Value::as_bool).unwrap_or_default(),
        declined: is_true(object.annotations().get(DECLINED)),
        namespace: text("targetNamespace").unwrap_or_default(),
        set: text("targetSet"),
        phase: short(object.status.get("phase")),
        message: short(object.status.pointer("/conditions/0/message")),
    };
    Box::new((object.name_any(), facts))
}

/// A name or a word. Of what is too long to be one as much is kept as shows that: anybody may have written it, into any number
/// of objects.
fn short(text: Option<&Value>) -> Option<String> {
    let text = text?.as_str()?.trim();
    (!text.is_empty()).then(|| text.chars().take(LONGEST + 1).collect())
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

const HARDWARE_LABELS: [&str; 6] = [
    "hostname",
    "cpu-architecture",
    "cpu-model",
    "system-manufacturer",
    "system-product",
    "system-serial",
];

/// The labels that come from the hardware.
pub fn hardware_labels(hardware: &Hardware) -> BTreeMap<String, String> {
    let cpu = hardware.cpu.as_ref();
    let vendor = hardware.system_vendor.as_ref();
    let said = [
        hardware.hostname.as_deref(),
        cpu.and_then(|cpu| cpu.architecture.as_deref()),
        cpu.and_then(|cpu| cpu.model_name.as_deref()),
        vendor.and_then(|vendor| vendor.manufacturer.as_deref()),
        vendor.and_then(|vendor| vendor.product_name.as_deref()),
        vendor.and_then(|vendor| vendor.serial_number.as_deref()),
    ];
    let label = |(name, text): (&str, Option<&str>)| {
        Some((format!("{}{name}", labels::HARDWARE), labels::value(text?)?))
    };
    HARDWARE_LABELS.into_iter().zip(said).filter_map(label).collect()
}

fn is_true(text: Option<&String>) -> bool {
    text.is_some_and(|text| text == "true")
}

/// A resourceVersion as a number. Kubernetes promises since 1.35 that newer ones are greater, and they always were.
fn version(text: Option<&str>) -> u64 {
    text.and_then(|version| version.parse().ok()).unwrap_or(0)
}
