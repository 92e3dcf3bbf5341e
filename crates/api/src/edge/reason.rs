//! Why a workload or a device is not in order: one closed list, shared by operator, CLI and docs.
//!
//! A reason is what people search for and machines group by, so it never carries a value; the message beside it does.

use crate::reasons::reasons;

// Each with what it means and what a person can do about it.
reasons! {
    /// Why a workload or a device is not in order.
    EdgeReason;
    // Of an EdgeDeployment or EdgeWorkload: it is sent to no device.
    /// The spec asks for something that devices cannot do.
    InvalidSpec: "mend the field that the message names",
    /// An older EdgeDeployment or EdgeWorkload has the name.
    NameConflict: "give one of the two another name",
    /// The name is longer than a label may be.
    NameTooLong: "give it a name of at most 63 characters",
    // Of a workload on a device, or of a device: something that the configuration needs is not there.
    /// A Secret is not there.
    SecretMissing: "make the Secret, or take the reference out",
    /// A Secret has no such key, or what it has there cannot be used.
    SecretKeyMissing: "put the key into the Secret, or take the reference out",
    /// A ConfigMap is not there.
    ConfigMapMissing: "make the ConfigMap, or take the reference out",
    /// A ConfigMap has no such key, or what it has there cannot be used.
    ConfigMapKeyMissing: "put the key into the ConfigMap, or take the reference out",
    /// A Secret or ConfigMap cannot be read.
    ReadFailed: "the message has the API server's words; it is tried again. Check the rights of the operator's account",
    /// The workload is not there, and its CRD was deleted or made anew: nobody may have said that it shall go.
    WorkloadMissing: "apply the workload again; if it is to go, wait until its CRD is five minutes old",
    /// The EdgeDeviceSet or EdgeDeviceGroup of the device is not there.
    SetMissing: "make the EdgeDeviceSet, or change the label flotta/member-of of the device",
    /// What the device is to be sent is longer than any device takes.
    TooLarge: "use smaller Secrets and ConfigMaps, or fewer workloads",
    // Of a device.
    /// The device has missed three heartbeats.
    NoHeartbeat: "check power and network of the device",
    /// The device has not been heard of since it registered.
    NeverReported: "check that the agent runs on the device, and its log",
    /// The device has not carried out its latest configuration.
    Behind: "look at the workloads of the device; if it reports, its agent's log says what holds it up",
    /// The bucket of the device is not there yet.
    BucketPending: "look at the ObjectBucketClaim: its provisioner has not answered",
    /// The bucket of the device cannot be had.
    BucketRefused: "the message has the cluster's words",
    /// The certificate of the device ends soon, and its agent has not renewed it.
    ExpiresSoon: "Flotta's agent cannot renew: change to flashjob-agent, or reset the device and register it anew",
    /// The agent of the device does not do what its configuration asks for.
    NotSupportedByAgent: "take the settings out; nothing is done about them on this device",
}
