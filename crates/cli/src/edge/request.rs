//! An EdgeDeviceSignedRequest as people look at it: a device that asks to be let in.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::edge::read::text;

/// On a request: whoever sets it to `true` refuses the device.
pub const DECLINED: &str = "management.project-flotta.io/declined";

#[derive(Clone, Debug, Default)]
pub struct Request {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub since: Option<Timestamp>,
    pub being_deleted: bool,
    pub approved: bool,
    pub declined: bool,
    /// What the operator has written last; it may be behind.
    pub phase: String,
    pub message: String,
    pub target_namespace: String,
    pub set: String,
    pub model: String,
    pub hostname: String,
    pub architecture: String,
}

impl Request {
    pub fn read(object: &DynamicObject) -> Request {
        let (spec, status) = (&object.data["spec"], &object.data["status"]);
        Request {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            since: object.creation_timestamp().map(|time| time.0),
            being_deleted: object.metadata.deletion_timestamp.is_some(),
            approved: spec.get("approved").and_then(Value::as_bool).unwrap_or_default(),
            declined: object.annotations().get(DECLINED).is_some_and(|value| value == "true"),
            phase: text(status, "/phase"),
            message: text(status, "/conditions/0/message"),
            target_namespace: text(spec, "/targetNamespace"),
            set: text(spec, "/targetSet"),
            model: text(spec, "/features/modelName"),
            hostname: text(spec, "/features/hardware/hostname"),
            architecture: text(spec, "/features/hardware/cpu/architecture"),
        }
    }

    /// Whether nobody has answered it yet.
    pub fn waits(&self) -> bool {
        !self.approved && !self.declined
    }

    /// What has become of it, in a word.
    pub fn state(&self) -> &str {
        match self {
            Request { declined: true, .. } => "declined",
            Request { phase, .. } if phase.is_empty() => "pending",
            Request { phase, .. } => phase,
        }
    }
}
