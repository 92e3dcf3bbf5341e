//! What a device is to run.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::AllowList;
use super::lenient::{is_empty, list, or_empty};

/// A pod, and what it needs.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct Workload {
    /// Its name, and the pod's.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub name: String,
    /// Its namespace in the cluster.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub namespace: String,
    /// Labels of the pod.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pod.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The PodSpec, in YAML.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub specification: String,
    /// Files that go up and come down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<DataConfiguration>,
    /// What images are fetched with.
    #[serde(rename = "imageRegistries", skip_serializing_if = "Option::is_none")]
    pub image_registries: Option<ImageRegistries>,
    /// What is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<WorkloadMetrics>,
    /// The ConfigMaps it uses, each in YAML.
    #[serde(deserialize_with = "list", skip_serializing_if = "is_empty")]
    pub configmaps: Vec<String>,
    /// Where its logs go: a name in the device's log-collection.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub log_collection: String,
}

/// Files that go up and come down.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct DataConfiguration {
    /// From the device to the bucket. The oldest configurations say `paths`.
    #[serde(alias = "paths", deserialize_with = "list")]
    pub egress: Vec<DataPath>,
    /// From the bucket to the device.
    #[serde(deserialize_with = "list")]
    pub ingress: Vec<DataPath>,
}

/// A folder and where it goes.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct DataPath {
    /// Where files are.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub source: String,
    /// Where they go.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub target: String,
}

/// What images are fetched with.
#[derive(Serialize, Deserialize, Clone, Default, PartialEq)]
#[serde(default)]
pub struct ImageRegistries {
    /// Registries and passwords, in the form of Docker's config.json.
    #[serde(rename = "authFile", deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub auth_file: String,
}

/// How a workload is measured.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct WorkloadMetrics {
    /// The path that has metrics.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub path: String,
    /// Its port.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub port: i32,
    /// Seconds between two measurements.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub interval: i32,
    /// What is kept of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_list: Option<AllowList>,
    /// What is different for a container.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub containers: BTreeMap<String, ContainerMetrics>,
}

/// How a container is measured.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct ContainerMetrics {
    /// Not at all.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub disabled: bool,
    /// The path that has metrics.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub path: String,
    /// Its port.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub port: i32,
}

/// Without the passwords.
impl fmt::Debug for ImageRegistries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageRegistries").finish_non_exhaustive()
    }
}
