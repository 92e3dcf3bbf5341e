//! What the operator answers: `FlashJob.status`.
//!
//! Written whole and read by people and tools only; no decision is ever taken from it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::flashjob::DeviceState;

/// Where the job stands.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct FlashJobStatus {
    /// Pending, InProgress, Suspended, Completed or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_word")]
    pub phase: Option<Phase>,
    /// One sentence about the job as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Devices that were flashed, of all devices, such as "3/10".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<String>,
    /// How many devices are in which state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// The batch under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    /// Complete, Failed, Progressing, Suspended; and Ready, Reconciling, Stalled for tools that know these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The generation of the spec this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the operator took the job up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the last device got its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// The address of the board, for jobs with one device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_endpoint: Option<String>,
    /// The address the board dials, for jobs with one device.
    #[serde(default, rename = "externalIP", skip_serializing_if = "Option::is_none")]
    pub external_ip: Option<String>,
    /// The devices that are done, as written in spec.uuid; 5000 are shown.
    #[serde(default, rename = "completedUUIDs", skip_serializing_if = "Vec::is_empty")]
    pub completed_uuids: Vec<String>,
    /// completedUUIDs does not list all that are done; counts and the ledger have them all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The devices at work now; 100 are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_flight: Vec<InFlight>,
    /// The devices that failed; 100 are shown, counts.failed counts them all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
}

/// The job in one word.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing has started yet.
    Pending,
    /// At least one device has started.
    InProgress,
    /// Held by spec.suspend.
    Suspended,
    /// Every device runs the firmware: flashed, or left out because it did already.
    Completed,
    /// Ended, and at least one device was not flashed.
    Failed,
    /// A word of the original's, until the operator has written its own.
    #[serde(other)]
    Other,
}

/// How many devices are in which state. They add up to the total.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Counts {
    /// All devices of the job.
    pub total: i32,
    /// Not yet their turn.
    pub pending: i32,
    /// Their turn, but not to be found.
    pub offline: i32,
    /// Waiting for an address or for the next attempt.
    pub waiting: i32,
    /// Held by another job.
    pub blocked: i32,
    /// A flash Pod is at work.
    pub flashing: i32,
    /// The flash Pod says that it is done.
    pub succeeded: i32,
    /// Given up.
    pub failed: i32,
    /// Left out on purpose.
    pub skipped: i32,
}

/// The batch under way.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Batch {
    /// Which one, from 1.
    pub current: i32,
    /// Of how many.
    pub of: i32,
}

/// A device that is not done yet and why.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct InFlight {
    /// The device as written in spec.uuid.
    #[serde(default)]
    pub uuid: String,
    /// Its Akri Instance, namespace/name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The address of the board.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_endpoint: Option<String>,
    /// The address the board dials.
    #[serde(default, rename = "externalIP", skip_serializing_if = "Option::is_none")]
    pub external_ip: Option<String>,
    /// Offline, Blocked, Addressing, Starting, Flashing, Recording or BackOff.
    #[serde(default)]
    pub state: DeviceState,
    /// What it waits for, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Which attempt, from 1; 0 before the first.
    #[serde(default)]
    pub attempt: i32,
    /// Since when it is in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// When the operator acts by itself if nothing happens: it gives the device up, or tries it again. Not set while a write
    /// is under way, the job is held, or another job or an earlier Pod has to go first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

/// A device that was given up.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The device as written in spec.uuid.
    #[serde(default)]
    pub uuid: String,
    /// Its Akri Instance, namespace/name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// One word from the list in the documentation.
    #[serde(default)]
    pub reason: String,
    /// What happened, in words.
    #[serde(default)]
    pub message: String,
    /// How many attempts were made.
    #[serde(default)]
    pub attempts: i32,
}

/// Not a list of words: a job the original left behind has a phase of its own, and a server that refused it would refuse
/// every write to the job.
fn any_word(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "string", "nullable": true })
}
