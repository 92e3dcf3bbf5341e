//! Where a pod speaks of Secrets and ConfigMaps.

use std::fmt;

use flashjob_api::edge::EdgeReason;
use serde_json::{Map, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Secret,
    ConfigMap,
}

impl Kind {
    pub fn missing(self) -> EdgeReason {
        match self {
            Self::Secret => EdgeReason::SecretMissing,
            Self::ConfigMap => EdgeReason::ConfigMapMissing,
        }
    }

    pub fn key_missing(self) -> EdgeReason {
        match self {
            Self::Secret => EdgeReason::SecretKeyMissing,
            Self::ConfigMap => EdgeReason::ConfigMapKeyMissing,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        })
    }
}

/// Somebody wants an object, or a key of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference<'a> {
    pub kind: Kind,
    pub name: &'a str,
    pub key: Option<&'a str>,
    /// It may be missing.
    pub optional: bool,
    /// The field that says so.
    pub path: String,
}

impl<'a> Reference<'a> {
    /// One that may not be missing.
    pub fn new(kind: Kind, name: &'a str, key: Option<&'a str>, path: impl Into<String>) -> Self {
        Self { kind, name, key, optional: false, path: path.into() }
    }
}

/// Where the PodSpec of a workload is.
const POD: &str = "spec.pod.spec";

/// All that a PodSpec speaks of, in the order it has them. One without a name is none; what is not of the form that
/// Kubernetes knows is passed over, since such a workload is not accepted.
pub(super) fn of_pod(pod: &Map<String, Value>) -> Vec<Reference<'_>> {
    let mut found = Vec::new();
    for field in ["initContainers", "containers"] {
        for (i, container) in entries(pod.get(field)).enumerate() {
            of_container(container, &format!("{POD}.{field}[{i}]"), &mut found);
        }
    }
    for (i, volume) in entries(pod.get("volumes")).enumerate() {
        let path = format!("{POD}.volumes[{i}]");
        let (secret, map) = (&volume["secret"], &volume["configMap"]);
        of_volume(Kind::Secret, secret, "secretName", format!("{path}.secret"), &mut found);
        of_volume(Kind::ConfigMap, map, "name", format!("{path}.configMap"), &mut found);
    }
    found
}

fn of_container<'a>(container: &'a Value, path: &str, found: &mut Vec<Reference<'a>>) {
    for (i, from) in entries(container.get("envFrom")).enumerate() {
        for (kind, field) in [(Kind::Secret, "secretRef"), (Kind::ConfigMap, "configMapRef")] {
            let path = format!("{path}.envFrom[{i}].{field}");
            found.extend(reference(kind, &from[field], "name", path));
        }
    }
    for (i, variable) in entries(container.get("env")).enumerate() {
        let from = &variable["valueFrom"];
        for (kind, field) in [(Kind::Secret, "secretKeyRef"), (Kind::ConfigMap, "configMapKeyRef")]
        {
            let path = format!("{path}.env[{i}].valueFrom.{field}");
            let named = reference(kind, &from[field], "name", path);
            found
                .extend(named.map(|named| Reference { key: from[field]["key"].as_str(), ..named }));
        }
    }
}

/// The object, and each key that is picked out of it.
fn of_volume<'a>(
    kind: Kind,
    source: &'a Value,
    name: &str,
    path: String,
    found: &mut Vec<Reference<'a>>,
) {
    let Some(named) = reference(kind, source, name, path) else { return };
    for (i, item) in entries(source.get("items")).enumerate() {
        let path = format!("{}.items[{i}]", named.path);
        found.push(Reference { key: item["key"].as_str(), path, ..named.clone() });
    }
    found.push(named);
}

fn reference<'a>(kind: Kind, source: &'a Value, name: &str, path: String) -> Option<Reference<'a>> {
    let name = source[name].as_str().filter(|name| !name.is_empty())?;
    let optional = source["optional"].as_bool().unwrap_or_default();
    Some(Reference { kind, name, key: None, optional, path })
}

fn entries(list: Option<&Value>) -> impl Iterator<Item = &Value> {
    list.and_then(Value::as_array).into_iter().flatten()
}
