//! The kinds themselves. The original gave two of them a second name, so each is a thin cover over a spec and a status that
//! may have two.
//!
//! An object without a spec, or with a null for one, is read as one with an empty spec: the original takes both. `or_empty`
//! does that, also for an object without one, because serde asks what may be null before it says that a field is missing.

use std::ops::{Deref, DerefMut};

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::edge::wire::lenient::or_empty;
use crate::edge::{
    DeviceSpec, DeviceStatus, Settings, SignedRequestSpec, SignedRequestStatus, WorkloadSpec,
    WorkloadStatus,
};

/// How the device is to behave. What its EdgeDeviceSet or EdgeDeviceGroup says comes first.
#[allow(clippy::duplicated_attributes)] // several print columns have one type
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "management.project-flotta.io",
    version = "v1alpha1",
    kind = "EdgeDevice",
    plural = "edgedevices",
    doc = "EdgeDevice is a Linux device that has registered: how it is to behave, what it is made of and what it runs.",
    namespaced,
    status = "DeviceStatus",
    category = "edge",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether the device reports"
    ),
    printcolumn(
        name = "Synced",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Synced\")].status",
        description = "Whether the device has carried out its latest configuration"
    ),
    printcolumn(
        name = "Workloads",
        type_ = "string",
        json_path = ".status.running",
        description = "Workloads that run, of all that are meant for the device"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(transparent)]
pub struct EdgeDeviceSpec(#[serde(deserialize_with = "or_empty")] pub DeviceSpec);

/// What to run, and on which devices.
#[allow(clippy::duplicated_attributes)]
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "management.project-flotta.io",
    version = "v1alpha1",
    kind = "EdgeDeployment",
    plural = "edgedeployments",
    doc = "EdgeDeployment is a pod that devices of its namespace run. EdgeWorkload is the same under its newer name.",
    namespaced,
    status = "WorkloadStatus",
    category = "edge",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(
        name = "Accepted",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Accepted\")].status",
        description = "Whether devices can run what the spec asks for"
    ),
    printcolumn(
        name = "Running",
        type_ = "string",
        json_path = ".status.running",
        description = "Devices that run it, of all devices it is for"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(transparent)]
pub struct EdgeDeploymentSpec(#[serde(deserialize_with = "or_empty")] pub WorkloadSpec);

/// What to run, and on which devices.
#[allow(clippy::duplicated_attributes)]
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "management.project-flotta.io",
    version = "v1alpha1",
    kind = "EdgeWorkload",
    plural = "edgeworkloads",
    doc = "EdgeWorkload is a pod that devices of its namespace run. EdgeDeployment is the same under its older name.",
    namespaced,
    status = "WorkloadStatus",
    category = "edge",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(
        name = "Accepted",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Accepted\")].status",
        description = "Whether devices can run what the spec asks for"
    ),
    printcolumn(
        name = "Running",
        type_ = "string",
        json_path = ".status.running",
        description = "Devices that run it, of all devices it is for"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(transparent)]
pub struct EdgeWorkloadSpec(#[serde(deserialize_with = "or_empty")] pub WorkloadSpec);

/// How the members are to behave. What is left out here is taken from the EdgeDevice.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "management.project-flotta.io",
    version = "v1alpha1",
    kind = "EdgeDeviceGroup",
    plural = "edgedevicegroups",
    doc = "EdgeDeviceGroup says how its members are to behave: the EdgeDevices of its namespace whose label \
           flotta/member-of names it. EdgeDeviceSet is the same under its newer name.",
    namespaced,
    status = "SetStatus",
    category = "edge",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(transparent)]
pub struct EdgeDeviceGroupSpec(#[serde(deserialize_with = "or_empty")] pub Settings);

/// How the members are to behave. What is left out here is taken from the EdgeDevice.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "management.project-flotta.io",
    version = "v1alpha1",
    kind = "EdgeDeviceSet",
    plural = "edgedevicesets",
    doc = "EdgeDeviceSet says how its members are to behave: the EdgeDevices of its namespace whose label \
           flotta/member-of names it. EdgeDeviceGroup is the same under its older name.",
    namespaced,
    status = "SetStatus",
    category = "edge",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(transparent)]
pub struct EdgeDeviceSetSpec(#[serde(deserialize_with = "or_empty")] pub Settings);

/// Nothing: a set does nothing by itself, and its members say how they are.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetStatus {}

/// What the device asks for, and whether it gets it.
#[allow(clippy::duplicated_attributes)]
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "management.project-flotta.io",
    version = "v1alpha1",
    kind = "EdgeDeviceSignedRequest",
    plural = "edgedevicesignedrequest",
    shortname = "edsr",
    doc = "EdgeDeviceSignedRequest is a device that asks to be let in. It has the name of the device, and waits until \
           spec.approved is true.",
    namespaced,
    status = "SignedRequestStatus",
    category = "edge",
    derive = "PartialEq",
    derive = "Default",
    printcolumn(
        name = "deviceid",
        type_ = "string",
        json_path = ".metadata.name",
        description = "The id of the device"
    ),
    printcolumn(
        name = "targetNamespace",
        type_ = "string",
        json_path = ".spec.targetNamespace",
        description = "Where the EdgeDevice is made"
    ),
    printcolumn(
        name = "Approved",
        type_ = "boolean",
        json_path = ".spec.approved",
        description = "Whether somebody has let the device in"
    ),
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.phase",
        description = "What the device is told"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(transparent)]
pub struct EdgeDeviceSignedRequestSpec(
    #[serde(deserialize_with = "or_empty")] pub SignedRequestSpec,
);

/// A cover is used like what is in it.
macro_rules! covers {
    ($($cover:ident: $inner:ident,)*) => {$(
        impl Deref for $cover {
            type Target = $inner;
            fn deref(&self) -> &$inner {
                &self.0
            }
        }

        impl DerefMut for $cover {
            fn deref_mut(&mut self) -> &mut $inner {
                &mut self.0
            }
        }

        impl From<$inner> for $cover {
            fn from(inner: $inner) -> Self {
                Self(inner)
            }
        }
    )*};
}

covers! {
    EdgeDeviceSpec: DeviceSpec,
    EdgeDeploymentSpec: WorkloadSpec,
    EdgeWorkloadSpec: WorkloadSpec,
    EdgeDeviceGroupSpec: Settings,
    EdgeDeviceSetSpec: Settings,
    EdgeDeviceSignedRequestSpec: SignedRequestSpec,
}
