//! Whether devices can run what a workload asks for. The original asks that in a webhook; here it is asked when a workload
//! is seen, so what has come in some other way is found too, and the answer stands in its status.

use std::collections::BTreeMap;
use std::sync::Arc;

use flashjob_api::edge::{DataPath, EdgeReason, NameRef, WorkloadMetrics, WorkloadSpec};

use super::super::problem::Problem;
use super::facts::WorkloadFacts;
use super::pod_spec;
use super::selector::Selector;
use super::shape::{cut, invalid, is_label_name, object_name};

/// The longest spec, in bytes of JSON. What all workloads of a device come to has another limit.
const LONGEST_SPEC: usize = 256 * 1024;

/// A name longer than this is no label `workload/<name>`.
const LONGEST_NAME: usize = 63;

/// The longest path of a file, as S3 has it.
const LONGEST_PATH: usize = 1024;

/// More folders than anybody syncs.
const MOST_FOLDERS: usize = 256;

/// A workload that devices can run. All that is in it counts for them, so while it is equal nothing has changed for them.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    pub namespace: String,
    pub name: String,
    /// Labels and annotations of the pod.
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub spec: Arc<WorkloadSpec>,
    /// Who it is for, by the spec.
    pub target: Target,
    /// The pod is one that is to come to an end.
    pub ends: bool,
}

impl Accepted {
    /// Whether a device that runs the one runs the other: they differ in nothing but whom they are for.
    pub fn is_same_pod(&self, other: &Self) -> bool {
        let part =
            |of: &Self| WorkloadSpec { device: None, device_selector: None, ..(*of.spec).clone() };
        self.labels == other.labels
            && self.annotations == other.annotations
            && (Arc::ptr_eq(&self.spec, &other.spec) || part(self) == part(other))
    }
}

/// The devices of its namespace that a workload is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The one of this name.
    Device(String),
    Selector(Selector),
    Nobody,
}

impl Target {
    fn read(spec: &WorkloadSpec) -> Result<Self, Problem> {
        match (spec.device.as_deref(), &spec.device_selector) {
            (Some(name), _) if name.len() > 253 => {
                Err(invalid("spec.device", "is longer than the name of any device"))
            }
            // To Go an empty text is none.
            (Some(name), _) if !name.is_empty() => Ok(Self::Device(name.to_owned())),
            (_, Some(selector)) => Ok(Self::Selector(Selector::read(selector)?)),
            _ => Ok(Self::Nobody),
        }
    }

    /// Whether the device of this name and with these labels is one of them.
    pub fn chooses(&self, device: &str, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::Device(name) => name == device,
            Self::Selector(selector) => selector.matches(labels),
            Self::Nobody => false,
        }
    }
}

/// Judges a workload by itself. Whether its name is free, the index knows.
pub fn accept(facts: &WorkloadFacts) -> Result<Accepted, Problem> {
    check_name(&facts.name)?;
    let unreadable = |why: &String| Problem::new(EdgeReason::InvalidSpec, cut(why.clone()));
    let spec = facts.spec.as_ref().map_err(unreadable)?;
    let size = serde_json::to_vec(&**spec).unwrap_or_default().len();
    if size > LONGEST_SPEC {
        return Err(invalid("spec", format!("has {size} bytes, and devices take {LONGEST_SPEC}")));
    }
    if spec.type_.as_deref().is_some_and(|type_| type_ != "pod") {
        return Err(invalid("spec.type", "devices run nothing but pods; make it pod"));
    }
    let target = Target::read(spec)?;
    let pod = spec.pod.as_ref().and_then(|pod| pod.spec.as_ref());
    let pod = pod.ok_or_else(|| invalid("spec.pod.spec", "is missing"))?;
    pod_spec::check(pod)?;
    check_data(spec)?;
    let registries = spec.image_registries.as_ref().and_then(|r| r.secret_ref.as_ref());
    check_reference("spec.imageRegistries.secretRef.name", registries)?;
    spec.metrics.as_ref().map_or(Ok(()), check_metrics)?;
    Ok(Accepted {
        namespace: facts.namespace.clone(),
        name: facts.name.clone(),
        labels: facts.labels.clone(),
        annotations: facts.annotations.clone(),
        spec: spec.clone(),
        target,
        ends: pod_spec::ends(pod),
    })
}

/// Devices carry the name in a label.
fn check_name(name: &str) -> Result<(), Problem> {
    let long = name.len();
    if long > LONGEST_NAME {
        let why = format!(
            "metadata.name: has {long} characters; devices carry it in a label, which takes \
             {LONGEST_NAME}"
        );
        return Err(Problem::new(EdgeReason::NameTooLong, why));
    }
    let why = "devices carry it in a label, and a label cannot have it";
    if is_label_name(name) { Ok(()) } else { Err(invalid("metadata.name", why)) }
}

fn check_data(spec: &WorkloadSpec) -> Result<(), Problem> {
    let Some(data) = &spec.data else { return Ok(()) };
    let lists = [("egress", &data.egress), ("ingress", &data.ingress), ("paths", &data.paths)];
    for (key, list) in lists {
        let list: &[DataPath] = list.as_deref().unwrap_or_default();
        if list.len() > MOST_FOLDERS {
            let why = format!("has more than {MOST_FOLDERS} entries");
            return Err(invalid(&format!("spec.data.{key}"), why));
        }
        for (index, folder) in list.iter().enumerate() {
            for (end, path) in [("source", &folder.source), ("target", &folder.target)] {
                let refuse = |why| invalid(&format!("spec.data.{key}[{index}].{end}"), why);
                check_path(path.as_deref().unwrap_or_default()).map_err(refuse)?;
            }
        }
    }
    Ok(())
}

/// The agent puts the folder of the workload, or the bucket, before it.
fn check_path(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        Err("is missing; the folder itself is .")
    } else if path.len() > LONGEST_PATH {
        Err("is longer than any path")
    } else if path.chars().any(char::is_control) {
        Err("has a character that no path has")
    } else if path.starts_with('/') {
        Err("must not begin with a slash: it is a path inside the folder")
    } else if path.split('/').any(|part| part == "..") {
        Err("must not lead out of the folder")
    } else {
        Ok(())
    }
}

fn check_metrics(metrics: &WorkloadMetrics) -> Result<(), Problem> {
    check_reference("spec.metrics.allowList.name", metrics.allow_list.as_ref())?;
    let containers = metrics.containers.iter().flatten();
    let ports =
        containers.map(|(name, of)| (format!("spec.metrics.containers.{name}.port"), of.port));
    for (path, port) in [("spec.metrics.port".to_owned(), metrics.port)].into_iter().chain(ports) {
        if port.is_some_and(|port| !(0..=i32::from(u16::MAX)).contains(&port)) {
            return Err(invalid(&path, format!("has to be a number from 0 to {}", u16::MAX)));
        }
    }
    Ok(())
}

fn check_reference(path: &str, reference: Option<&NameRef>) -> Result<(), Problem> {
    let name = reference.and_then(|reference| reference.name.as_deref());
    name.filter(|name| !name.is_empty()).map_or(Ok(()), |name| object_name(path, name))
}

#[cfg(test)]
mod tests;
