//! How a device is to behave: what an EdgeDevice says for itself, and an EdgeDeviceSet (or EdgeDeviceGroup) for its members.
//!
//! Every field is optional. What a set leaves out is taken from the device, and what both leave out has a default, so
//! nothing here has one of its own.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::edge::wire::lenient::{maybe_list, maybe_map};
use crate::edge::{DeviceMetrics, Mount};

/// How devices are to behave.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// The operating system image that the device is to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_information: Option<OsInformation>,
    /// How often the device reports, and what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Heartbeat>,
    /// Where the device uploads files to and downloads them from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// What is measured on the device, how long it is kept there, and where it goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<DeviceMetrics>,
    /// Where logs of workloads may go. A workload names one of these keys in its own logCollection.
    #[serde(default, deserialize_with = "maybe_map", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<BTreeMap<String, Option<LogCollection>>>")]
    pub log_collection: Option<BTreeMap<String, LogCollection>>,
    /// Block devices that the device is to mount.
    #[serde(default, deserialize_with = "maybe_list", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<Option<Mount>>>")]
    pub mounts: Option<Vec<Mount>>,
}

/// The operating system image of a device.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct OsInformation {
    /// True: the device changes to the commit by itself, and starts anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automatically_upgrade: Option<bool>,
    /// The OSTree commit that the device is to run.
    #[serde(default, rename = "commitID", skip_serializing_if = "Option::is_none")]
    pub commit_id: Option<String>,
    /// The address of the web server that has the commits.
    #[serde(default, rename = "hostedObjectsURL", skip_serializing_if = "Option::is_none")]
    pub hosted_objects_url: Option<String>,
}

/// How often a device reports, and what.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// Seconds between two heartbeats. Default 60. A device that misses three is no longer Ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub period_seconds: Option<i64>,
    /// What heartbeats say of the hardware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware_profile: Option<HardwareProfile>,
}

/// What heartbeats say of the hardware.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HardwareProfile {
    /// True: heartbeats carry the hardware, which is then shown in the status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<bool>,
    /// full: all of it, each time. delta: only what has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// Where a device uploads files to and downloads them from.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// A bucket of an S3 service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Storage>,
}

/// A bucket: one that you have, by a Secret and a ConfigMap; or one that is claimed for the device.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct S3Storage {
    /// The Secret with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, if the server needs it, its CA as tls.crt. It is in the
    /// namespace of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
    /// The ConfigMap with BUCKET_HOST, BUCKET_PORT, BUCKET_NAME and BUCKET_REGION, in the namespace of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_name: Option<String>,
    /// True: a bucket is claimed for the device, by an ObjectBucketClaim. Not beside secretName and configMapName.
    #[serde(default, rename = "createOBC", skip_serializing_if = "Option::is_none")]
    pub create_obc: Option<bool>,
}

/// Where logs of workloads go.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct LogCollection {
    /// How logs are sent. There is only syslog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// KiB of logs that are held on the device before they are sent. Default 12.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2147483647))]
    pub buffer_size: Option<i32>,
    /// The ConfigMap that says where the server is: Address (host and port) and Protocol (tcp or udp, default tcp).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syslog_config: Option<NameRef>,
}

/// Another object, in the same namespace.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct NameRef {
    /// The name of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
