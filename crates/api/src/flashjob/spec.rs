//! What a user asks for: `FlashJob.spec`.
//!
//! The eight fields of the original come first and mean what they meant; everything after them is optional. The doc
//! comments become the descriptions `kubectl explain` shows, so they are written for the person who fills them in.
//! Every optional field accepts an explicit null: manifests written for the original carry them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::crd::open_object;
use crate::flashjob::status::FlashJobStatus;

/// What to flash, onto which devices, and how.
#[allow(clippy::duplicated_attributes)] // several print columns have one type
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "application.flashjob.nbfc.io",
    version = "v1alpha1",
    kind = "FlashJob",
    plural = "flashjobs",
    doc = "FlashJob puts a firmware image onto devices that Akri has discovered, and says for each device whether it runs it.",
    namespaced,
    status = "FlashJobStatus",
    shortname = "fj",
    category = "edge",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Done",
        type_ = "string",
        json_path = ".status.done",
        description = "Devices that were flashed, of all devices"
    ),
    printcolumn(name = "Failed", type_ = "integer", json_path = ".status.counts.failed"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(validation = Rule::new("has(self.uuid) || has(self.deviceSelector)")
    .message("name at least one device: set uuid, deviceSelector or both"))]
#[serde(rename_all = "camelCase")]
pub struct FlashJobSpec {
    /// The devices to flash. Each entry is the metadata.uid of an Akri Instance, its namespace/name, or its name (the
    /// job's own namespace is searched first). A device keeps its place in the job when Akri discovers it again under
    /// a new uid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<Vec<String>>,

    /// The firmware: an OCI image by tag or digest, such as registry.example/team/esp32:0.2.0.
    #[schemars(length(min = 1, max = 1024))]
    pub firmware: String,

    /// The version the device reports once it runs the firmware. With verify Version (the default) the job is done
    /// only when the device itself says this version.
    #[schemars(length(min = 1, max = 128))]
    pub version: String,

    /// The address of the board, instead of the one Akri found. For jobs with one device; ignored with more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub host_endpoint: Option<String>,

    /// The type of board the firmware is for, such as esp32s3. A device of another type is refused, never flashed.
    /// Upper and lower case, "-" and "_" make no difference. Empty: any board.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub device: Option<String>,

    /// The type of application the firmware is, such as thermo. Passed to the flash Pod when the device does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub application_type: Option<String>,

    /// The address the board dials to fetch the firmware, instead of the Service's. For jobs with one device; ignored
    /// with more.
    #[serde(default, rename = "externalIP", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub external_ip: Option<String>,

    /// The image of the flash Pod. Empty: the operator's --flashjob-image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub flashjob_pod_image: Option<String>,

    /// Choose devices by what they are, beside or instead of uuid. The choice is made when the job starts and with
    /// each new firmware, and kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_selector: Option<DeviceSelector>,

    /// How many devices are flashed at once and in what steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,

    /// What happens when a device fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,

    /// How long to wait for what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<Timeouts>,

    /// What counts as done. Version: the device reports spec.version. Restart: the device went away and came back.
    /// None: the device took the whole image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,

    /// Always: flash every device. IfDifferent: leave out a device that already reports spec.version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_policy: Option<VersionPolicy>,

    /// How the board reaches the flash Pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceOptions>,

    /// Additions to the flash Pod, in the form of a Pod template: labels, annotations, scheduling, imagePullSecrets,
    /// volumes, and for the flash container resources, env, envFrom, volumeMounts. Anything that would give more
    /// rights than creating a Pod is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "open_object")]
    pub pod_template: Option<Map<String, Value>>,

    /// True: start nothing new. What is being flashed finishes; clocks stand still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,

    /// True: start nothing new, let what is being flashed finish, then end the job as Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abort: Option<bool>,

    /// Delete the finished job after this many seconds. Unset: it is kept as a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// Devices by what they are. All that is given must match.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct DeviceSelector {
    /// The Akri Configuration that found the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
    /// The type of board, such as esp32s3. Case, "-" and "_" make no difference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The application the device runs now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_type: Option<String>,
    /// A semver range for the version the device runs now, such as "<0.2.0".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Labels of the Akri Instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,
}

/// How many devices are flashed at once and in what steps.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// Devices per batch: a number, or a percentage of all devices (rounded up). Default 100%. The next batch starts
    /// when every device of this one has a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "number_or_percent")]
    pub batch_size: Option<IntOrString>,
    /// Seconds to wait after a batch. Default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2592000))]
    pub delay_seconds: Option<i32>,
    /// How many devices are flashed at the same time. Default 25; 0 means 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 500))]
    pub max_parallel: Option<i32>,
    /// How many devices may fail before nothing new is started: a number, or a percentage (rounded down). Unset: no
    /// limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "number_or_percent")]
    pub max_failures: Option<IntOrString>,
}

/// What happens when a device fails.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// How often a failed device is tried again. Default 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub limit: Option<i32>,
    /// Seconds before the first retry; doubles each time, up to 300. Default 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 300))]
    pub backoff_seconds: Option<i32>,
    /// A new value gives the failed devices of this firmware fresh attempts, once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub nonce: Option<String>,
}

/// How long to wait for what.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// Seconds one attempt at one device may take. Default 600.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub device_seconds: Option<i32>,
    /// Seconds to wait for an address while no other device gets one. Default 120.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub address_seconds: Option<i32>,
    /// Seconds a device may be missing once it is its turn. Default 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2592000))]
    pub offline_seconds: Option<i32>,
}

/// What counts as done.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// The device reports spec.version.
    #[default]
    Version,
    /// The device went away and came back.
    Restart,
    /// The device took the whole image.
    None,
}

/// Which devices are flashed.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersionPolicy {
    /// Every device.
    #[default]
    Always,
    /// Only a device that reports another version than spec.version.
    IfDifferent,
}

/// How the board reaches the flash Pod.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ServiceOptions {
    /// LoadBalancer (default), NodePort, or None: the Pod uses its node's network, which the operator must allow with
    /// --allow-host-network.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<ServiceType>,
    /// Annotations of the Service, for the load balancer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// The load balancer that serves it (Kubernetes 1.24 and later).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub load_balancer_class: Option<String>,
    /// Cluster or Local.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<ExternalTrafficPolicy>,
}

/// The kind of Service in front of the flash Pod.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceType {
    /// An address from the cluster's load balancer.
    #[default]
    LoadBalancer,
    /// A port on every node.
    NodePort,
    /// No Service: the Pod uses its node's network.
    None,
}

/// How traffic from outside reaches the Pod.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalTrafficPolicy {
    /// Through any node.
    Cluster,
    /// Only through the node the Pod is on.
    Local,
}

/// A whole number, or a percentage such as "10%".
fn number_or_percent(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "x-kubernetes-int-or-string": true,
        "nullable": true,
        "pattern": "^(100|[1-9]?[0-9])%$",
    })
}
