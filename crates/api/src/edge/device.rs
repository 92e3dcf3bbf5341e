//! EdgeDevice: what a device is to be, and what it says of itself.
//!
//! The status is what the device said last, written in the words of the original; `conditions` and `running` are ours.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::edge::wire::lenient::{list, or_empty};
use crate::edge::{Hardware, Settings};

/// How one device is to behave.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DeviceSpec {
    /// When the device was let in. Written by the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_time: Option<Time>,
    /// What its set can say, too. On the device it counts where the set says nothing.
    #[serde(flatten)]
    pub settings: Settings,
}

/// What a device said last, and whether it still speaks.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DeviceStatus {
    /// The device's own word for its state: up or degraded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// When the device was heard of last, in manifests of the original's first months. It is not written any more: the
    /// condition Ready says whether the device reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen_time: Option<Time>,
    /// The version of the configuration that the device has carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_synced_resource_version: Option<String>,
    /// Ready: the device reports. Synced: it has carried out its latest configuration.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Workloads that run, of all that are meant for the device, such as "2/3".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<String>,
    /// What the device is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<Hardware>,
    /// The workloads of the device and how they are.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<DeviceWorkload>,
    /// The same as workloads, under the name that tools for EdgeDeployments read.
    #[serde(default, deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub deployments: Vec<DeviceWorkload>,
    /// The ObjectBucketClaim of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_obc: Option<String>,
    /// The operating system image that the device runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_information: Option<UpgradeInformation>,
}

/// A workload on a device.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DeviceWorkload {
    /// The EdgeDeployment or EdgeWorkload.
    #[serde(default, deserialize_with = "or_empty")]
    pub name: String,
    /// Deploying until the device has told of it, then Podman's word: Created, Running, Degraded, Paused, Stopped, Exited
    /// or Error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Since when the workload is in this phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// When its files were uploaded last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_data_upload: Option<Time>,
    /// What the container that ended last ended with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What the device says of it, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How often its containers were started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<i64>,
}

/// The operating system image of a device.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeInformation {
    /// The OSTree commit that the device runs.
    #[serde(default, rename = "currentCommitID", skip_serializing_if = "Option::is_none")]
    pub current_commit_id: Option<String>,
    /// How the last upgrade ended: succeeded or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_upgrade_status: Option<String>,
    /// When the last upgrade ended, as the device writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_upgrade_time: Option<String>,
}
