//! What is measured on a device.

use serde::{Deserialize, Serialize};

use super::lenient::{is_empty, list, or_empty};

/// What is measured on a device, and where it goes.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct DeviceMetrics {
    /// How much is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<MetricsRetention>,
    /// The device itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<ComponentMetrics>,
    /// The upload of files.
    #[serde(rename = "data-transfer", skip_serializing_if = "Option::is_none")]
    pub data_transfer: Option<ComponentMetrics>,
    /// Where it goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver: Option<MetricsReceiver>,
}

/// How much is kept on the device.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct MetricsRetention {
    /// MiB.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub max_mib: i32,
    /// Hours.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub max_hours: i32,
}

/// How a part of the device is measured.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct ComponentMetrics {
    /// Seconds between two measurements.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub interval: i32,
    /// What is kept of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_list: Option<AllowList>,
    /// Not at all.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub disabled: bool,
}

/// The metrics that are kept.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct AllowList {
    /// Their names.
    #[serde(deserialize_with = "list")]
    pub names: Vec<String>,
}

/// Where metrics go, by Prometheus remote write.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct MetricsReceiver {
    /// The address.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub url: String,
    /// Seconds that a request may take.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub timeout_seconds: i64,
    /// Samples in a request.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub request_num_samples: i64,
    /// The CA of the receiver, in PEM.
    #[serde(rename = "caCert", deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub ca_cert: String,
}
