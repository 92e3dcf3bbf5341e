//! What a device is to do: the content of the message it fetches.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::lenient::{is_empty, list, or_empty};
use super::{DeviceMetrics, Mount, Workload};

/// The content of a message with the directive `device`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct DeviceConfigurationMessage {
    /// The device.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub device_id: String,
    /// The version of all this; the device names it in its heartbeats.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub version: String,
    /// The device itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<DeviceConfiguration>,
    /// What it runs: these and no others.
    #[serde(deserialize_with = "list", skip_serializing_if = "is_empty")]
    pub workloads: Vec<Workload>,
    /// The Secrets that the workloads take variables from.
    #[serde(deserialize_with = "list", skip_serializing_if = "is_empty")]
    pub secrets: Vec<Secret>,
    /// Seconds between two looks at the workloads.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub workloads_monitoring_interval: i64,
}

/// How the device itself is set up.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct DeviceConfiguration {
    /// Its heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<HeartbeatConfiguration>,
    /// Where files of workloads go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// What is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<DeviceMetrics>,
    /// The operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<OsInformation>,
    /// Where logs go, by the name that workloads use.
    #[serde(
        rename = "log-collection",
        deserialize_with = "or_empty",
        skip_serializing_if = "is_empty"
    )]
    pub log_collection: BTreeMap<String, LogCollection>,
    /// Playbooks, which we do not send.
    #[serde(rename = "ansible-manager", skip_serializing_if = "Option::is_none")]
    pub ansible_manager: Option<AnsibleManager>,
    /// What is mounted.
    #[serde(deserialize_with = "list")]
    pub mounts: Vec<Mount>,
}

/// The heartbeat.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct HeartbeatConfiguration {
    /// Seconds between two.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub period_seconds: i64,
    /// What it says of the hardware.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware_profile: Option<HardwareProfile>,
}

/// What a heartbeat says of the hardware.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct HardwareProfile {
    /// Whether it says anything.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub include: bool,
    /// `full`, or `delta` for what has changed.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub scope: String,
}

/// Where files of workloads go.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct Storage {
    /// A bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3>,
}

/// A bucket. Keys and CA are in base64, once more than in their Secret.
#[derive(Serialize, Deserialize, Clone, Default, PartialEq)]
#[serde(default)]
pub struct S3 {
    /// The server.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub bucket_host: String,
    /// Its port.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub bucket_port: i32,
    /// The bucket.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub bucket_name: String,
    /// Its region.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub bucket_region: String,
    /// The name of the key.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub aws_access_key_id: String,
    /// The key.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub aws_secret_access_key: String,
    /// The CA of the server, in PEM.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub aws_ca_bundle: String,
}

/// The operating system.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct OsInformation {
    /// The ostree commit that is to run.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub commit_id: String,
    /// Where commits come from.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub hosted_objects_url: String,
    /// Whether the device upgrades by itself.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub automatically_upgrade: bool,
}

/// Where logs go.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct LogCollection {
    /// `syslog`.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub kind: String,
    /// KiB that are kept until they are sent.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub buffer_size: i32,
    /// The server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syslog_config: Option<SyslogConfig>,
}

/// A syslog server.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct SyslogConfig {
    /// Host and port.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub address: String,
    /// `tcp` or `udp`.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub protocol: String,
}

/// How often a device asks for playbooks.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct AnsibleManager {
    /// Seconds between two questions.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub period_seconds: i64,
}

/// A Secret that workloads take variables from.
#[derive(Serialize, Deserialize, Clone, Default, PartialEq)]
#[serde(default)]
pub struct Secret {
    /// Its name.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub name: String,
    /// Its data: a JSON object of base64, as a text.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub data: String,
}

/// Without the keys.
impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3")
            .field("bucket_host", &self.bucket_host)
            .field("bucket_port", &self.bucket_port)
            .field("bucket_name", &self.bucket_name)
            .finish_non_exhaustive()
    }
}

/// Without the data.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("name", &self.name).finish_non_exhaustive()
    }
}
