//! What a decision knows of the objects of one device, and of the settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use flashjob_api::edge;
use serde_json::Value;

use super::keys::{Keys, UnreadableKeys};

/// An EdgeDevice, as far as decisions depend on it.
#[derive(Clone, Debug, PartialEq)]
pub struct EdgeDeviceFacts {
    pub namespace: String,
    pub uid: String,
    pub resource_version: u64,
    pub generation: Option<i64>,
    pub being_deleted: bool,
    pub finalizers: Vec<String>,
    pub keys: Result<Keys, UnreadableKeys>,
    /// No key is in use: it has the label for that.
    pub unclaimed: bool,
    pub labels: BTreeMap<String, String>,
    /// What its spec says, or why it cannot be read; `None`: nothing.
    pub settings: Option<Arc<Result<edge::Settings, String>>>,
    pub status: StatusFacts,
}

/// What stands in the status of an EdgeDevice, whoever wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatusFacts {
    /// There is one, whatever it says.
    pub is_there: bool,
    /// What `status.hardware` says.
    pub hardware: Option<HardwareFacts>,
    /// All the rest, as JSON. There are as many of these as there are devices, and it is shorter than what it says.
    pub rest: Option<Arc<str>>,
}

/// What a device is made of, as hashes of its parts: most heartbeats say something of it again, and as a rule nothing is new.
/// 0 is a part that is not mentioned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardwareFacts(pub [u32; HARDWARE_PARTS.len()]);

/// The parts, as the status names them.
pub const HARDWARE_PARTS: [&str; 10] = [
    "hostname",
    "boot",
    "cpu",
    "memory",
    "systemVendor",
    "interfaces",
    "disks",
    "gpus",
    "hostDevices",
    "mounts",
];

impl HardwareFacts {
    /// Whether all that is said here is known already.
    pub fn knows(&self, said: &Self) -> bool {
        self.0.iter().zip(said.0).all(|(known, said)| said == 0 || *known == said)
    }
}

impl StatusFacts {
    /// All but the hardware; null if there is no status.
    pub fn value(&self) -> Value {
        match &self.rest {
            Some(rest) => serde_json::from_str(rest).unwrap_or_default(),
            // It is there, and not kept: it is written over as a whole.
            None => Value::Null,
        }
    }
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
