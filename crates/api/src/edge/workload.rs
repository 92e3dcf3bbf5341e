//! EdgeWorkload and EdgeDeployment, its older name: a pod, the devices that are to run it, and how far they are.
//!
//! The original's status is empty; all that is in it here is ours.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::crd::open_object;
use crate::edge::wire::lenient::{maybe_list, or_empty};
use crate::edge::{NameRef, WorkloadMetrics};

/// What to run, and on which devices.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadSpec {
    /// The devices that run it, by their labels. An empty selector is every device of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_selector: Option<LabelSelector>,
    /// The one device that runs it, by its name. With it, deviceSelector does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// What is run. There is only pod.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// The pod that devices run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<Pod>,
    /// Files that are uploaded from the device, and downloaded to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
    /// What images are pulled with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_registries: Option<ImageRegistries>,
    /// Where the metrics of the pod are found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<WorkloadMetrics>,
    /// Where the logs of the pod go: a key in the logCollection of the device. Unset: they stay on the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_collection: Option<String>,
}

/// The pod that devices run.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Pod {
    /// A PodSpec as in Kubernetes. One that asks for what devices cannot do is not sent to them; the condition Accepted
    /// says which field it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "open_object")]
    pub spec: Option<Map<String, Value>>,
}

/// Files that are uploaded from the device, and downloaded to it.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Data {
    /// Folders of the pod that are uploaded to the bucket of the device.
    #[serde(default, deserialize_with = "maybe_list", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Option<DataPath>>>")]
    pub egress: Option<Vec<DataPath>>,
    /// Folders of the bucket that are downloaded for the pod.
    #[serde(default, deserialize_with = "maybe_list", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Option<DataPath>>>")]
    pub ingress: Option<Vec<DataPath>>,
    /// The older name of egress. Both count.
    #[serde(default, deserialize_with = "maybe_list", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Option<DataPath>>>")]
    pub paths: Option<Vec<DataPath>>,
}

/// A folder and where its files go.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DataPath {
    /// Where the files are: in the pod below /export for egress, in the bucket for ingress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Where the files go: in the bucket for egress, in the pod below /export for ingress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// What images are pulled with.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ImageRegistries {
    /// The Secret whose .dockerconfigjson has the registries and passwords.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<NameRef>,
}

/// Whether devices are sent the pod, and how many run it.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadStatus {
    /// Accepted: devices can run what the spec asks for. Complete: every device that it is for runs it.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// How many devices are how far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<WorkloadCounts>,
    /// Devices that run it, of all devices it is for, such as "3/5".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<String>,
    /// One sentence about the workload as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The generation of the spec this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// How many devices are how far. All but the first add up to the first.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadCounts {
    /// Devices that it is for.
    #[serde(deserialize_with = "or_empty")]
    pub matched: i32,
    /// Devices that run it.
    #[serde(deserialize_with = "or_empty")]
    pub running: i32,
    /// Devices that have not told of it yet.
    #[serde(deserialize_with = "or_empty")]
    pub deploying: i32,
    /// Devices where it has ended or could not start.
    #[serde(deserialize_with = "or_empty")]
    pub failed: i32,
    /// Devices that do not report.
    #[serde(deserialize_with = "or_empty")]
    pub offline: i32,
}
