//! What a decision knows of the objects of one device, and of the settings.

use std::collections::BTreeMap;

use super::keys::{Keys, UnreadableKeys};

/// An EdgeDevice, as far as decisions depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeDeviceFacts {
    pub namespace: String,
    pub uid: String,
    pub resource_version: u64,
    pub being_deleted: bool,
    pub finalizers: Vec<String>,
    pub keys: Result<Keys, UnreadableKeys>,
    /// No key is in use: it has the label for that.
    pub unclaimed: bool,
    /// The labels that come from its hardware.
    pub labels: BTreeMap<String, String>,
    /// A hash of `status.hardware`.
    pub hardware: Option<u64>,
    /// There is a status, whatever it says.
    pub has_status: bool,
    pub heartbeat: HeartbeatFacts,
}

/// `spec.heartbeat`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatFacts {
    pub period_seconds: Option<i64>,
    /// Whether heartbeats tell of the hardware.
    pub hardware: Option<bool>,
    /// `full` or `delta`.
    pub scope: Option<String>,
}

/// An EdgeDeviceSignedRequest: somebody has to say whether a device may come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedRequestFacts {
    pub uid: String,
    pub resource_version: u64,
    pub being_deleted: bool,
    pub approved: bool,
    pub declined: bool,
    /// Where the device is to be; empty is the first namespace that is served.
    pub namespace: String,
    /// The EdgeDeviceSet that the device is to be in.
    pub set: Option<String>,
    /// What its status says, in one word and in a sentence.
    pub phase: Option<String>,
    pub message: Option<String>,
}

/// How Edge was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Who registers needs nobody's leave.
    pub auto_approval: bool,
    /// The namespaces that devices may be in, at least one. Requests for approval are in the first.
    pub namespaces: Vec<String>,
    /// How many days a device's certificate is good.
    pub client_days: u32,
}

impl Settings {
    /// Where a device is that says nothing about it.
    pub fn first_namespace(&self) -> &str {
        self.namespaces.first().map_or(super::certificate::DEFAULT_NAMESPACE, String::as_str)
    }

    pub fn serves(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|served| served == namespace)
    }
}
