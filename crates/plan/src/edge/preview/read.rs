//! From objects, whatever is in them, to what a preview depends on. The bounds are those of the operator.

use std::collections::BTreeMap;
use std::sync::Arc;

use flashjob_api::edge::Settings;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use crate::edge::labels;
use crate::edge::workloads::{WorkloadFacts, WorkloadKind, known_finalizers, podman, read_spec};

/// The longest spec of an EdgeDevice or of a set, in bytes.
const LONGEST_SPEC: usize = 64 << 10;
/// The longest spec of a workload. What devices take is less.
const LONGEST_WORKLOAD: usize = 512 << 10;

/// An EdgeDevice.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    pub namespace: String,
    pub name: String,
    pub labels: BTreeMap<String, String>,
    /// What it says for itself, or why that cannot be read.
    pub settings: Result<Settings, String>,
}

impl Device {
    pub fn read(meta: &ObjectMeta, spec: &Value) -> Self {
        let mut spec = spec.clone();
        if let Some(fields) = spec.as_object_mut() {
            fields.remove("requestTime");
        }
        Self {
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            labels: meta.labels.clone().unwrap_or_default(),
            settings: settings(&spec),
        }
    }

    /// The set that its label names.
    pub fn set(&self) -> Option<&str> {
        self.labels.get(labels::SET).map(String::as_str).filter(|set| !set.is_empty())
    }
}

/// Of two sets with one name the one of the newer kind counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SetKind {
    EdgeDeviceSet,
    EdgeDeviceGroup,
}

impl SetKind {
    pub const ALL: [Self; 2] = [Self::EdgeDeviceSet, Self::EdgeDeviceGroup];

    pub fn kind(self) -> &'static str {
        match self {
            Self::EdgeDeviceSet => "EdgeDeviceSet",
            Self::EdgeDeviceGroup => "EdgeDeviceGroup",
        }
    }
}

/// An EdgeDeviceSet or EdgeDeviceGroup.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    pub kind: SetKind,
    pub namespace: String,
    pub name: String,
    /// What it says for its members, or why that cannot be read.
    pub settings: Result<Settings, String>,
}

impl Set {
    pub fn read(kind: SetKind, meta: &ObjectMeta, spec: &Value) -> Self {
        let (namespace, name) = (text(&meta.namespace), text(&meta.name));
        Self { kind, namespace, name, settings: settings(spec) }
    }
}

/// An EdgeDeployment or EdgeWorkload. One that was never made is younger than any.
pub fn workload(kind: WorkloadKind, meta: &ObjectMeta, spec: &Value) -> WorkloadFacts {
    let podman = |all: &Option<BTreeMap<_, _>>| all.as_ref().map(podman).unwrap_or_default();
    let version = meta.resource_version.as_ref().and_then(|version| version.parse().ok());
    WorkloadFacts {
        kind,
        namespace: text(&meta.namespace),
        name: text(&meta.name),
        uid: text(&meta.uid),
        resource_version: version.unwrap_or_default(),
        generation: meta.generation.unwrap_or_default(),
        created: meta.creation_timestamp.as_ref().map_or(Timestamp::MAX, |time| time.0),
        being_deleted: meta.deletion_timestamp.is_some(),
        finalizers: known_finalizers(meta.finalizers.clone().unwrap_or_default()),
        labels: podman(&meta.labels),
        annotations: podman(&meta.annotations),
        spec: bounded(spec, LONGEST_WORKLOAD).and_then(|()| read_spec(spec)).map(Arc::new),
    }
}

fn settings(spec: &Value) -> Result<Settings, String> {
    if spec.is_null() {
        return Ok(Settings::default());
    }
    bounded(spec, LONGEST_SPEC)?;
    Settings::deserialize(spec).map_err(|error| format!("spec: {error}"))
}

fn bounded(spec: &Value, most: usize) -> Result<(), String> {
    let length = spec.to_string().len();
    if length <= most {
        Ok(())
    } else {
        Err(format!("spec: has {length} bytes, and {most} are taken"))
    }
}

fn text(text: &Option<String>) -> String {
    text.clone().unwrap_or_default()
}
