//! A workload as it is sent: rendered once, and shared by all devices that run it.
//!
//! Ten thousand devices may have the same workload, so what is kept for each of them is a pointer to this text, and the
//! Secrets that it uses are texts of their own: several workloads of a device may use the same one, which is sent once.
//!
//! A workload is rendered whole or not at all. One without its password would run, and fail on the device.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flashjob_api::edge::wire::{
    ContainerMetrics, DataConfiguration, DataPath, ImageRegistries, Secret, Workload,
    WorkloadMetrics,
};
use flashjob_api::edge::{EdgeReason, WorkloadSpec};
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::material::{ConfigMapData, Lack, Material, SecretData};
use super::needs::name;
use super::reader::Reader;
use super::references::{Kind, Reference, of_pod};
use super::yaml;
use crate::edge::problem::Problem;
use crate::edge::workloads::Accepted;

/// Bytes of a workload with its Secrets and ConfigMaps: the largest ConfigMap there can be and half as much again, so that two
/// of them fit into what a device takes.
pub const LARGEST_WORKLOAD: usize = 3 << 19;

/// Where the metrics of a pod are, and how many seconds lie between two measurements, where nobody says otherwise.
const METRICS_PATH: &str = "/";
pub(super) const METRICS_INTERVAL: i32 = 60;

/// A workload that is accepted.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadInput<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    /// Those for Podman, without the `podman/` they begin with.
    pub labels: &'a BTreeMap<String, String>,
    pub annotations: &'a BTreeMap<String, String>,
    pub spec: &'a WorkloadSpec,
}

impl<'a> From<&'a Accepted> for WorkloadInput<'a> {
    fn from(workload: &'a Accepted) -> Self {
        Self {
            namespace: &workload.namespace,
            name: &workload.name,
            labels: &workload.labels,
            annotations: &workload.annotations,
            spec: &workload.spec,
        }
    }
}

pub struct Fragment {
    pub name: String,
    /// Metrics and logs are asked for.
    pub(super) metrics: bool,
    pub(super) logs: bool,
    /// A [`Workload`] as JSON, and the hash of that.
    pub(super) json: Arc<str>,
    pub(super) hash: [u8; 32],
    /// What it uses, by name.
    pub(super) secrets: Vec<Arc<SecretText>>,
}

/// A [`Secret`] as it is sent.
pub struct SecretText {
    pub name: String,
    pub(super) json: String,
    pub(super) hash: [u8; 32],
}

/// All problems at once, so that nobody mends them one by one.
pub fn fragment(workload: &WorkloadInput<'_>, material: &dyn Material) -> Result<Fragment, Lack> {
    let WorkloadInput { namespace, spec, .. } = *workload;
    let mut reader = Reader::new(namespace, material);
    let pod = spec.pod.as_ref().and_then(|pod| pod.spec.as_ref());
    let Used { secrets, config_maps } = Used::of_pod(pod, &mut reader);
    let image_registries = image_registries(spec, &mut reader);
    let metrics = metrics(spec, pod, &mut reader);
    reader.finish()?;

    if size(&secrets, &config_maps) > LARGEST_WORKLOAD {
        return Err(too_large());
    }
    let config_map = |(name, map): (&&str, &Arc<ConfigMapData>)| config_map(namespace, name, map);
    let message = Workload {
        name: workload.name.to_owned(),
        namespace: namespace.to_owned(),
        labels: workload.labels.clone(),
        annotations: workload.annotations.clone(),
        specification: yaml::write(&pod)?,
        data: data(spec),
        image_registries,
        metrics,
        configmaps: config_maps.iter().map(config_map).collect::<Result<_, _>>()?,
        log_collection: spec.log_collection.clone().unwrap_or_default(),
    };
    let (json, hash) = text(&message);
    let secret = |(name, secret): (&&str, &Arc<SecretData>)| Arc::new(secret_text(name, secret));
    let secrets: Vec<_> = secrets.iter().map(secret).collect();
    let fragment = Fragment {
        name: message.name,
        metrics: message.metrics.is_some(),
        logs: !message.log_collection.is_empty(),
        json: json.into(),
        hash,
        secrets,
    };
    if fragment.size() > LARGEST_WORKLOAD { Err(too_large()) } else { Ok(fragment) }
}

impl Fragment {
    /// Bytes of it with its Secrets.
    fn size(&self) -> usize {
        self.json.len() + self.secrets.iter().map(|secret| secret.json.len()).sum::<usize>()
    }
}

fn too_large() -> Lack {
    let most = LARGEST_WORKLOAD >> 10;
    let message = format!("with its Secrets and ConfigMaps the workload has more than {most} KiB");
    Lack::Problems(vec![Problem::new(EdgeReason::TooLarge, message)])
}

/// What a pod uses, by name.
struct Used<'a> {
    secrets: BTreeMap<&'a str, Arc<SecretData>>,
    config_maps: BTreeMap<&'a str, Arc<ConfigMapData>>,
}

impl<'a> Used<'a> {
    fn of_pod(pod: Option<&'a Map<String, Value>>, reader: &mut Reader<'_>) -> Self {
        let mut used = Self { secrets: BTreeMap::new(), config_maps: BTreeMap::new() };
        for reference in pod.into_iter().flat_map(of_pod) {
            let name = reference.name;
            match reference.kind {
                Kind::Secret => {
                    used.secrets.extend(reader.secret(&reference).map(|found| (name, found)));
                }
                Kind::ConfigMap => {
                    used.config_maps.extend(reader.config_map(&reference).map(|map| (name, map)));
                }
            }
        }
        used
    }
}

/// Bytes of what is used. Written out it is never less, so more than that need not be written.
fn size(
    secrets: &BTreeMap<&str, Arc<SecretData>>,
    config_maps: &BTreeMap<&str, Arc<ConfigMapData>>,
) -> usize {
    let secrets = secrets.values().flat_map(|secret| secret.data.values().map(Vec::len));
    let texts = config_maps.values().flat_map(|map| map.data.values().map(String::len));
    let binary = config_maps.values().flat_map(|map| map.binary.values().map(Vec::len));
    secrets.chain(texts).chain(binary).sum()
}

/// A ConfigMap as `podman play kube` takes it, in a document of its own.
fn config_map(namespace: &str, name: &str, map: &ConfigMapData) -> Result<String, Lack> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Document<'a> {
        api_version: &'a str,
        kind: &'a str,
        metadata: BTreeMap<&'a str, &'a str>,
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        data: &'a BTreeMap<String, String>,
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        binary_data: BTreeMap<&'a str, String>,
    }
    yaml::write(&Document {
        api_version: "v1",
        kind: "ConfigMap",
        metadata: BTreeMap::from([("name", name), ("namespace", namespace)]),
        data: &map.data,
        binary_data: base64(&map.binary),
    })
}

/// The data of a Secret is JSON in a text.
fn secret_text(name: &str, secret: &SecretData) -> SecretText {
    let data = serde_json::to_string(&base64(&secret.data)).unwrap_or_default();
    let (json, hash) = text(&Secret { name: name.to_owned(), data });
    SecretText { name: name.to_owned(), json, hash }
}

fn base64(data: &BTreeMap<String, Vec<u8>>) -> BTreeMap<&str, String> {
    data.iter().map(|(key, value)| (key.as_str(), STANDARD.encode(value))).collect()
}

/// A message as it is sent, and its hash.
pub(super) fn text(message: &impl Serialize) -> (String, [u8; 32]) {
    let json = serde_json::to_string(message).unwrap_or_default();
    let hash = Sha256::digest(json.as_bytes()).into();
    (json, hash)
}

fn image_registries(spec: &WorkloadSpec, reader: &mut Reader<'_>) -> Option<ImageRegistries> {
    let secret = name(spec.image_registries.as_ref()?.secret_ref.as_ref())?;
    let path = "spec.imageRegistries.secretRef";
    let wanted = Reference::new(Kind::Secret, secret, Some(".dockerconfigjson"), path);
    Some(ImageRegistries { auth_file: reader.secret_text(&wanted)? })
}

/// Up is `egress` and, in the words of the first days, `paths`.
fn data(spec: &WorkloadSpec) -> Option<DataConfiguration> {
    let data = spec.data.as_ref()?;
    let path = |path: &flashjob_api::edge::DataPath| DataPath {
        source: path.source.clone().unwrap_or_default(),
        target: path.target.clone().unwrap_or_default(),
    };
    let mut egress: Vec<DataPath> = data.egress.iter().flatten().map(path).collect();
    for older in data.paths.iter().flatten().map(path) {
        if !egress.contains(&older) {
            egress.push(older);
        }
    }
    Some(DataConfiguration { egress, ingress: data.ingress.iter().flatten().map(path).collect() })
}

/// Nothing without a port. The original's agent goes to port 0 of a container that has none, so those are switched off.
fn metrics(
    spec: &WorkloadSpec,
    pod: Option<&Map<String, Value>>,
    reader: &mut Reader<'_>,
) -> Option<WorkloadMetrics> {
    let wanted = spec.metrics.as_ref()?;
    let path = |path: &Option<String>| {
        path.clone().filter(|path| !path.is_empty()).unwrap_or_else(|| METRICS_PATH.to_owned())
    };
    let port = wanted.port.filter(|port| *port > 0).unwrap_or_default();
    let mut containers = BTreeMap::new();
    for (name, said) in wanted.containers.iter().flatten() {
        let port = said.port.filter(|port| *port > 0).unwrap_or(port);
        let disabled = said.disabled.unwrap_or_default() || port == 0;
        let metrics = ContainerMetrics { disabled, path: path(&said.path), port };
        containers.insert(name.clone(), metrics);
    }
    if port == 0 {
        if containers.values().all(|container| container.disabled) {
            return None;
        }
        let silent = || ContainerMetrics { disabled: true, ..ContainerMetrics::default() };
        for name in container_names(pod) {
            containers.entry(name.to_owned()).or_insert_with(silent);
        }
    }
    let list = name(wanted.allow_list.as_ref());
    Some(WorkloadMetrics {
        path: path(&wanted.path),
        port,
        interval: wanted.interval.filter(|seconds| *seconds > 0).unwrap_or(METRICS_INTERVAL),
        allow_list: list.and_then(|list| reader.allow_list(list, "spec.metrics.allowList")),
        containers,
    })
}

fn container_names(pod: Option<&Map<String, Value>>) -> impl Iterator<Item = &str> {
    let containers = pod.and_then(|pod| pod.get("containers")?.as_array());
    containers.into_iter().flatten().filter_map(|container| container["name"].as_str())
}

/// Without what is sent, which has passwords in it.
impl fmt::Debug for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fragment").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Without the data.
impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretText").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(super) mod tests;
