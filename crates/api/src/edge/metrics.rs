//! What is measured on a device and in its workloads, as the kinds say it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::edge::NameRef;
use crate::edge::wire::lenient::maybe_map;

/// What is measured on a device, how long it is kept there, and where it goes.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DeviceMetrics {
    /// How much is kept on the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<MetricsRetention>,
    /// Metrics of the device itself: processors, memory, disks, network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<ComponentMetrics>,
    /// Metrics of the upload and download of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_transfer: Option<ComponentMetrics>,
    /// The server that the device sends its metrics to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver_configuration: Option<MetricsReceiver>,
}

/// How much is kept on the device. What exceeds one of the two is dropped, the oldest first.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct MetricsRetention {
    /// MiB of disk for metrics.
    #[serde(default, rename = "maxMiB", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2147483647))]
    pub max_mib: Option<i32>,
    /// Hours that metrics are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2147483647))]
    pub max_hours: Option<i32>,
}

/// How a part of the device is measured.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ComponentMetrics {
    /// Seconds between two measurements. Default 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2147483647))]
    pub interval: Option<i32>,
    /// The ConfigMap whose metrics_list.yaml names the metrics that are kept. Unset: a short list that is built in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_list: Option<NameRef>,
    /// True: this part is not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
}

/// The server that metrics are sent to, by Prometheus remote write.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct MetricsReceiver {
    /// The address metrics are written to, with its scheme and path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The Secret whose ca.crt proves the server. Unset: the CAs of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret_name: Option<String>,
    /// Samples in one request. Default 30000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_num_samples: Option<i64>,
    /// Seconds that one request may take. Default 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i64>,
}

/// Where the metrics of a workload are found. Without a port, here or for a container, there are none.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadMetrics {
    /// The path of the metrics. Default "/".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The port of the metrics, in every container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub port: Option<i32>,
    /// Seconds between two measurements. Default 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2147483647))]
    pub interval: Option<i32>,
    /// The ConfigMap whose metrics_list.yaml names the metrics that are kept. Unset: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_list: Option<NameRef>,
    /// What is different for a container, by its name.
    #[serde(default, deserialize_with = "maybe_map", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, Option<ContainerMetrics>>>")]
    pub containers: Option<BTreeMap<String, ContainerMetrics>>,
}

/// Where the metrics of a container are found.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ContainerMetrics {
    /// The path of the metrics. Default "/".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The port of the metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub port: Option<i32>,
    /// True: this container is not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
}
