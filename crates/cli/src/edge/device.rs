//! An EdgeDevice as people look at it, whatever anybody has written into it.

use flashjob_api::edge::DeviceWorkload;
use flashjob_plan::edge::certificates::DeviceKeys;
use flashjob_plan::edge::devices::Devices;
use flashjob_plan::edge::facts::{EdgeDeviceFacts, StatusFacts};
use flashjob_plan::edge::keys::{self, Key, Keys, UnreadableKeys};
use flashjob_plan::edge::labels;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::edge::read::text;

/// Workloads, conditions: more of them nobody reads.
const MOST: usize = 500;

#[derive(Clone, Debug)]
pub struct Device {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub since: Option<Timestamp>,
    pub being_deleted: bool,
    /// It waits for a box to register: it has the label for that.
    pub unclaimed: bool,
    pub keys: Result<Keys, UnreadableKeys>,
    pub set: String,
    pub conditions: Vec<Condition>,
    pub phase: String,
    /// Workloads that run, of all that are meant for it.
    pub running: String,
    pub workloads: Vec<DeviceWorkload>,
    pub hostname: String,
    pub architecture: String,
    pub model: String,
}

/// A condition as far as it can be read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// What is on record of a device's key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyState<'a> {
    InUse(&'a Key),
    /// No box has used a certificate yet.
    Awaited,
    /// It was let in by Flotta and has not asked for anything since.
    NotOnRecord,
    Unreadable,
}

impl Device {
    pub fn read(object: DynamicObject) -> Device {
        let label = |name: &str| object.labels().get(name).cloned();
        let keys = object.annotations().get(keys::ANNOTATION).map(String::as_str);
        let status = &object.data["status"];
        let mut workloads = entries(status, "/workloads");
        if workloads.is_empty() {
            workloads = entries(status, "/deployments");
        }
        Device {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            since: object.creation_timestamp().map(|time| time.0),
            being_deleted: object.metadata.deletion_timestamp.is_some(),
            unclaimed: label(labels::UNCLAIMED).is_some_and(|value| value == "true"),
            keys: Keys::read(keys),
            set: label(labels::SET).unwrap_or_default(),
            conditions: entries(status, "/conditions"),
            phase: text(status, "/phase"),
            running: text(status, "/running"),
            workloads,
            hostname: text(status, "/hardware/hostname"),
            architecture: text(status, "/hardware/cpu/architecture"),
            model: text(status, "/hardware/systemVendor/productName"),
        }
    }

    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }

    pub fn key(&self) -> KeyState<'_> {
        match &self.keys {
            Err(UnreadableKeys) => KeyState::Unreadable,
            Ok(Keys { current: Some(key), .. }) => KeyState::InUse(key),
            Ok(Keys { next: None, .. }) if !self.unclaimed => KeyState::NotOnRecord,
            Ok(_) => KeyState::Awaited,
        }
    }

    /// The latest end of the certificates it was given.
    pub fn certificate_ends(&self) -> Option<Timestamp> {
        self.keys.as_ref().ok()?.until
    }

    /// As decisions about CAs see it.
    fn facts(&self) -> EdgeDeviceFacts {
        EdgeDeviceFacts {
            namespace: self.namespace.clone(),
            uid: self.uid.clone(),
            resource_version: 0,
            generation: None,
            being_deleted: self.being_deleted,
            finalizers: Vec::new(),
            keys: self.keys.clone(),
            unclaimed: self.unclaimed,
            labels: Default::default(),
            settings: None,
            status: StatusFacts::default(),
        }
    }
}

/// Which devices depend on which CA, as the operator counts them before it retires one.
pub fn keys_by_ca(devices: &[Device]) -> DeviceKeys {
    let mut index = Devices::default();
    devices.iter().for_each(|device| index.see_device(&device.name, device.facts()));
    index.keys_by_ca()
}

/// Such as "True", "Unknown NoHeartbeat".
pub fn state(condition: Option<&Condition>) -> String {
    match condition {
        None => String::new(),
        Some(Condition { status, reason, .. }) if status == "True" || reason.is_empty() => {
            status.clone()
        }
        Some(Condition { status, reason, .. }) => format!("{status} {reason}"),
    }
}

/// Whole days until then; negative when it is over.
pub fn days_until(end: Timestamp, now: Timestamp) -> i64 {
    end.duration_since(now).as_hours().div_euclid(24)
}

pub fn entries<T: for<'a> Deserialize<'a>>(status: &Value, pointer: &str) -> Vec<T> {
    let list = status.pointer(pointer).and_then(Value::as_array).into_iter().flatten().take(MOST);
    list.filter_map(|entry| T::deserialize(entry).ok()).collect()
}
