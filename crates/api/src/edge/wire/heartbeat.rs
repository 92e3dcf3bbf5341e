//! How a device is.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::HardwareInfo;
use super::lenient::{is_empty, list, or_empty, or_nothing, time};

/// The content of `heartbeat`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct Heartbeat {
    /// `up` or `degraded`.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub status: String,
    /// The version of the configuration that the device runs.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub version: String,
    /// The workloads it knows.
    #[serde(deserialize_with = "list")]
    pub workloads: Vec<WorkloadStatus>,
    /// Playbooks, which we do not run.
    #[serde(rename = "playbook-executions", deserialize_with = "list")]
    pub playbook_executions: Vec<Value>,
    /// The operating system's upgrades.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<UpgradeStatus>,
    /// What happened since the last heartbeat.
    #[serde(deserialize_with = "list")]
    pub events: Vec<Event>,
    /// What the device is made of, when the configuration asks for it; in part, when only a part is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HardwareInfo>,
    /// Which agent speaks. Ours: the original's agents do not say.
    #[serde(deserialize_with = "or_nothing", skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
}

/// The program that speaks for a device.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct Agent {
    /// [`Agent::OURS`], or that of another.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub name: String,
    /// Its version.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub version: String,
}

impl Agent {
    /// What our agent calls itself.
    pub const OURS: &str = "flashjob-agent";
}

/// A workload as the device sees it.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct WorkloadStatus {
    /// The workload's name.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub name: String,
    /// Podman's word for the pod: Created, Running, Exited, Error and so on.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub status: String,
    /// When all its files were last uploaded.
    #[serde(with = "time", skip_serializing_if = "Option::is_none")]
    pub last_data_upload: Option<Timestamp>,
    /// With what it exited. Ours: the original's agents do not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// A sentence about what is wrong. Ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How often it was started again. Ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<i64>,
}

/// The operating system's upgrades.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct UpgradeStatus {
    /// The commit that runs; `unknown` without ostree.
    #[serde(
        rename = "current_commit_ID",
        deserialize_with = "or_empty",
        skip_serializing_if = "is_empty"
    )]
    pub current_commit_id: String,
    /// `succeeded` or `failed`.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub last_upgrade_status: String,
    /// When that was, in the words of the agent: Go's, not RFC 3339.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub last_upgrade_time: String,
}

/// Something that happened on the device.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct Event {
    /// One word for it.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub reason: String,
    /// A sentence about it.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub message: String,
    /// `warn` for a warning.
    #[serde(rename = "type", deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub type_: String,
}
