//! From API objects to what decisions depend on.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use flashjob_api::edge::Hardware;
use flashjob_plan::edge::facts::{
    EdgeDeviceFacts, HARDWARE_PARTS, HardwareFacts, SignedRequestFacts, StatusFacts,
};
use flashjob_plan::edge::keys::{self, Keys};
use flashjob_plan::edge::read::{self, bounded, short, version};
use flashjob_plan::edge::sets::SetSettings;
use flashjob_plan::edge::storage::ClaimFacts;
use flashjob_plan::edge::workloads::{WorkloadFacts, WorkloadKind};
use flashjob_plan::edge::{finalizers, labels};
use kube::ResourceExt;
use serde_json::{Map, Value};

use super::slim::{self, Open};

/// On an EdgeDeviceSignedRequest: whoever sets it to `true` refuses the device.
pub const DECLINED: &str = "management.project-flotta.io/declined";

/// The longest status, in bytes.
const LONGEST_STATUS: usize = 128 << 10;

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
        labels: read::device_labels(object.labels()),
        settings: read::device_settings(&object.spec).map(Arc::new),
        status: status(&object.status),
    };
    Box::new((object.name_any(), facts))
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
    let facts = read::workload(kind, meta, spec);
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
    (meta.name.clone().unwrap_or_default(), Arc::new(read::settings(spec)))
}

/// An ObjectBucketClaim: its name, and what it is to the device of that name.
pub fn claim(object: &slim::ObjectBucketClaim) -> (String, ClaimFacts) {
    (object.name_any(), read::claim(&object.metadata, &object.status))
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
