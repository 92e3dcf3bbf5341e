//! From API objects to what decisions depend on.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use flashjob_api::edge::{self, Hardware};
use flashjob_plan::edge::facts::{
    EdgeDeviceFacts, HARDWARE_PARTS, HardwareFacts, SignedRequestFacts, StatusFacts,
};
use flashjob_plan::edge::keys::{self, Keys};
use flashjob_plan::edge::storage::{ClaimFacts, ClaimOwner};
use flashjob_plan::edge::workloads::{
    WorkloadFacts, WorkloadKind, known_finalizers, podman, read_spec,
};
use flashjob_plan::edge::{finalizers, labels};
use jiff::Timestamp;
use kube::ResourceExt;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::sets::SetSettings;
use super::slim::{self, Open};

/// On an EdgeDeviceSignedRequest: whoever sets it to `true` refuses the device.
pub const DECLINED: &str = "management.project-flotta.io/declined";

/// Labels of an EdgeDevice that count. Anybody who may write one may give it as many as the server takes.
const MOST_LABELS: usize = 512;
/// The longest spec of an EdgeDevice or of a set, and the longest status, in bytes.
const LONGEST_SPEC: usize = 64 << 10;
/// The longest spec of a workload. What devices take is less.
const LONGEST_WORKLOAD: usize = 512 << 10;
const LONGEST_STATUS: usize = 128 << 10;

/// The longest name that Kubernetes takes.
const LONGEST: usize = 253;

/// An object with its name.
pub type Named<T> = Box<(String, T)>;

pub fn device(object: &slim::EdgeDevice) -> Named<EdgeDeviceFacts> {
    let meta = &object.metadata;
    let facts = EdgeDeviceFacts {
        namespace: object.namespace().unwrap_or_default(),
        uid: object.uid().unwrap_or_default(),
        resource_version: version(meta.resource_version.as_deref()),
        generation: meta.generation,
        being_deleted: meta.deletion_timestamp.is_some(),
        finalizers: finalizers::known(
            meta.finalizers.clone().unwrap_or_default(),
            meta.deletion_timestamp.is_some(),
        ),
        keys: Keys::read(object.annotations().get(keys::ANNOTATION).map(String::as_str)),
        unclaimed: is_true(object.labels().get(labels::UNCLAIMED)),
        labels: device_labels(object.labels()),
        settings: device_settings(&object.spec).map(Arc::new),
        status: status(&object.status),
    };
    Box::new((object.name_any(), facts))
}

/// Our own are kept in any case: those that nobody wants any more have to go.
fn device_labels(all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let (ours, others): (Vec<_>, Vec<_>) =
        all.iter().partition(|(key, _)| key.starts_with(labels::WORKLOAD));
    let kept = ours.into_iter().chain(others.into_iter().take(MOST_LABELS));
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Most devices say nothing for themselves.
fn device_settings(spec: &Value) -> Option<Result<edge::Settings, String>> {
    let mut spec = spec.as_object()?.clone();
    spec.remove("requestTime");
    spec.retain(|_, value| !value.is_null());
    (!spec.is_empty()).then(|| settings(&Value::Object(spec)))
}

/// What an EdgeDevice, an EdgeDeviceSet or an EdgeDeviceGroup says, or why it cannot be read.
pub fn settings(spec: &Value) -> Result<edge::Settings, String> {
    if spec.is_null() {
        return Ok(edge::Settings::default());
    }
    bounded(spec, LONGEST_SPEC)?;
    edge::Settings::deserialize(spec).map_err(|error| format!("spec: {error}"))
}

/// All of it is kept for as long as the object is there, and anybody may have written it.
fn bounded(part: &Value, most: usize) -> Result<(), String> {
    let length = part.to_string().len();
    if length <= most {
        Ok(())
    } else {
        Err(format!("spec: has {length} bytes, and {most} are taken"))
    }
}

fn status(status: &Value) -> StatusFacts {
    let Some(fields) = status.as_object() else { return StatusFacts::default() };
    let hardware = fields.get("hardware").filter(|hardware| !hardware.is_null()).map(parts);
    let rest: Map<_, _> = fields
        .iter()
        .filter(|(field, _)| *field != "hardware")
        .map(|(f, v)| (f.clone(), v.clone()))
        .collect();
    // What is longer was not written by us, and is written over.
    let rest = serde_json::to_string(&rest).ok().filter(|rest| rest.len() <= LONGEST_STATUS);
    StatusFacts { is_there: true, hardware, rest: rest.map(Arc::from) }
}

/// An EdgeDeployment or EdgeWorkload.
pub fn workload(kind: WorkloadKind, object: &impl Open) -> SeenWorkload {
    let (meta, spec, status) = object.parts();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let podman = |all: &Option<BTreeMap<_, _>>| all.as_ref().map(podman).unwrap_or_default();
    let created = meta.creation_timestamp.as_ref().map(|time| time.0);
    let facts = WorkloadFacts {
        kind,
        namespace: text(&meta.namespace),
        name: text(&meta.name),
        uid: text(&meta.uid),
        resource_version: version(meta.resource_version.as_deref()),
        generation: meta.generation.unwrap_or_default(),
        created: created.unwrap_or(Timestamp::MAX),
        being_deleted: meta.deletion_timestamp.is_some(),
        finalizers: known_finalizers(meta.finalizers.clone().unwrap_or_default()),
        labels: podman(&meta.labels),
        annotations: podman(&meta.annotations),
        spec: bounded(spec, LONGEST_WORKLOAD).and_then(|()| read_spec(spec)).map(Arc::new),
    };
    // One that is longer was not written by us, and is written over.
    let status = Some(status).filter(|status| bounded(status, LONGEST_STATUS).is_ok());
    SeenWorkload { facts, status: status.cloned().unwrap_or_default() }
}

/// A workload with its status, whoever wrote that.
#[derive(Debug)]
pub struct SeenWorkload {
    pub facts: WorkloadFacts,
    pub status: Value,
}

/// An EdgeDeviceSet or EdgeDeviceGroup: its name, and what it says.
pub fn set(object: &impl Open) -> (String, SetSettings) {
    let (meta, spec, _) = object.parts();
    (meta.name.clone().unwrap_or_default(), Arc::new(settings(spec)))
}

/// An ObjectBucketClaim: its name, and what it is to the device of that name.
pub fn claim(object: &slim::ObjectBucketClaim) -> (String, ClaimFacts) {
    let meta = &object.metadata;
    let (name, owners) = (object.name_any(), meta.owner_references.as_deref());
    let facts = ClaimFacts {
        owner: ClaimOwner::read(&name, owners.unwrap_or_default()),
        phase: short(object.status.get("phase")),
        being_deleted: meta.deletion_timestamp.is_some(),
    };
    (name, facts)
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
pub fn hardware_facts(hardware: &Hardware) -> HardwareFacts {
    parts(&serde_json::to_value(hardware).unwrap_or_default())
}

fn parts(hardware: &Value) -> HardwareFacts {
    let part = |name| hardware.get(name).filter(|part| !part.is_null()).map_or(0, hash);
    HardwareFacts(HARDWARE_PARTS.map(part))
}

/// Never 0. Keys of an object are in order in a `Value`, so equal ones have equal texts.
fn hash(value: &Value) -> u32 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    u32::try_from(hasher.finish() >> 32).unwrap_or_default().max(1)
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
