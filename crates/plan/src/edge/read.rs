//! From objects, whatever is in them, to what decisions depend on: the same for the operator, which decides, and for the command
//! line, which foretells that. The CRDs may be the original's, and looser than ours, and anybody may have written an object.

use std::collections::BTreeMap;
use std::sync::Arc;

use flashjob_api::edge::Settings;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

use super::labels;
use super::storage::{ClaimFacts, ClaimOwner};
use super::workloads::{WorkloadFacts, WorkloadKind, known_finalizers, podman, read_spec};

/// Labels of an EdgeDevice that count. Anybody who may write one may give it as many as the server takes.
const MOST_LABELS: usize = 512;
/// The longest spec of an EdgeDevice or of a set, in bytes.
const LONGEST_SPEC: usize = 64 << 10;
/// The longest spec of a workload. What devices take is less.
const LONGEST_WORKLOAD: usize = 512 << 10;

/// The longest name that Kubernetes takes.
const LONGEST: usize = 253;

/// Our own are kept in any case: those that nobody wants any more have to go.
pub fn device_labels(all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let (ours, others): (Vec<_>, Vec<_>) =
        all.iter().partition(|(key, _)| key.starts_with(labels::WORKLOAD));
    let kept = ours.into_iter().chain(others.into_iter().take(MOST_LABELS));
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// What an EdgeDevice says for itself, or why that cannot be read. Most say nothing.
pub fn device_settings(spec: &Value) -> Option<Result<Settings, String>> {
    let mut spec = spec.as_object()?.clone();
    spec.remove("requestTime");
    spec.retain(|_, value| !value.is_null());
    (!spec.is_empty()).then(|| settings(&Value::Object(spec)))
}

/// What an EdgeDeviceSet or an EdgeDeviceGroup says for its members, or why that cannot be read.
pub fn settings(spec: &Value) -> Result<Settings, String> {
    if spec.is_null() {
        return Ok(Settings::default());
    }
    bounded(spec, LONGEST_SPEC)?;
    Settings::deserialize(spec).map_err(|error| format!("spec: {error}"))
}

/// An EdgeDeployment or EdgeWorkload. One that was never made is younger than any.
pub fn workload(kind: WorkloadKind, meta: &ObjectMeta, spec: &Value) -> WorkloadFacts {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let podman = |all: &Option<BTreeMap<_, _>>| all.as_ref().map(podman).unwrap_or_default();
    WorkloadFacts {
        kind,
        namespace: text(&meta.namespace),
        name: text(&meta.name),
        uid: text(&meta.uid),
        resource_version: version(meta.resource_version.as_deref()),
        generation: meta.generation.unwrap_or_default(),
        created: meta.creation_timestamp.as_ref().map_or(Timestamp::MAX, |time| time.0),
        being_deleted: meta.deletion_timestamp.is_some(),
        finalizers: known_finalizers(meta.finalizers.clone().unwrap_or_default()),
        labels: podman(&meta.labels),
        annotations: podman(&meta.annotations),
        spec: bounded(spec, LONGEST_WORKLOAD).and_then(|()| read_spec(spec)).map(Arc::new),
    }
}

/// What an ObjectBucketClaim is to the device of its name.
pub fn claim(meta: &ObjectMeta, status: &Value) -> ClaimFacts {
    let (name, owners) = (meta.name.as_deref(), meta.owner_references.as_deref());
    ClaimFacts {
        owner: ClaimOwner::read(name.unwrap_or_default(), owners.unwrap_or_default()),
        phase: short(status.get("phase")),
        being_deleted: meta.deletion_timestamp.is_some(),
    }
}

/// All of it is kept for as long as the object is there, and anybody may have written it.
pub fn bounded(part: &Value, most: usize) -> Result<(), String> {
    let length = part.to_string().len();
    if length <= most {
        Ok(())
    } else {
        Err(format!("spec: has {length} bytes, and {most} are taken"))
    }
}

/// A name or a word. Of what is too long to be one as much is kept as shows that: anybody may have written it, into any number
/// of objects.
pub fn short(text: Option<&Value>) -> Option<String> {
    let text = text?.as_str()?.trim();
    (!text.is_empty()).then(|| text.chars().take(LONGEST + 1).collect())
}

/// A resourceVersion as a number. Kubernetes promises since 1.35 that newer ones are greater, and they always were.
pub fn version(text: Option<&str>) -> u64 {
    text.and_then(|version| version.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_device_that_says_nothing_has_no_settings_whatever_flotta_wrote() {
        for silent in [json!(null), json!({}), json!({ "requestTime": "2026-11-19T00:00:00Z" })] {
            assert_eq!(device_settings(&silent), None);
        }
        assert_eq!(device_settings(&json!({ "heartbeat": null, "mounts": null })), None);
        let said = device_settings(&json!({ "requestTime": 7, "mounts": [] })).unwrap().unwrap();
        assert_eq!(said.mounts, Some(Vec::new()));
        let wrong = device_settings(&json!({ "heartbeat": 7 })).unwrap().unwrap_err();
        assert!(wrong.starts_with("spec: "), "{wrong}");
    }

    #[test]
    fn what_is_too_long_is_not_read() {
        let long = "x".repeat(LONGEST_SPEC);
        let refused = settings(&json!({ "mounts": [{ "device": long }] })).unwrap_err();
        assert!(refused.contains("65536 are taken"), "{refused}");
        let spec = json!({ "type": "x".repeat(LONGEST_WORKLOAD) });
        let facts = workload(WorkloadKind::EdgeWorkload, &ObjectMeta::default(), &spec);
        assert!(facts.spec.unwrap_err().contains("524288 are taken"));
        assert_eq!(facts.created, Timestamp::MAX, "it was never made");
    }

    #[test]
    fn of_too_many_labels_our_own_are_kept() {
        let others = (0..2 * MOST_LABELS).map(|n| format!("a{n:04}"));
        let ours = ["workload/web".to_owned()];
        let all = others.chain(ours).map(|key| (key, String::new())).collect();
        let kept = device_labels(&all);
        assert_eq!(kept.len(), MOST_LABELS + 1);
        assert!(kept.contains_key("workload/web") && kept.contains_key("a0511"));
    }
}
