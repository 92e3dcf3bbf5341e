//! The kinds of Edge: their CRDs ask for nothing and refuse no null, and what they let pass can be read.

#![allow(clippy::unwrap_used)] // a test may stop at once and say why

mod crds;
mod manifests;

use flashjob_api::edge::{
    EdgeDeployment, EdgeDevice, EdgeDeviceGroup, EdgeDeviceSet, EdgeDeviceSignedRequest,
    EdgeWorkload,
};
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads an object as the kind with this plural and writes it again.
fn read(plural: &str, object: Value) -> Result<Value, String> {
    fn as_kind<K: Resource + DeserializeOwned + Serialize>(object: Value) -> Result<Value, String> {
        let kind: K = serde_json::from_value(object).map_err(|error| error.to_string())?;
        serde_json::to_value(kind).map_err(|error| error.to_string())
    }
    match plural {
        "edgedevices" => as_kind::<EdgeDevice>(object),
        "edgedeployments" => as_kind::<EdgeDeployment>(object),
        "edgeworkloads" => as_kind::<EdgeWorkload>(object),
        "edgedevicegroups" => as_kind::<EdgeDeviceGroup>(object),
        "edgedevicesets" => as_kind::<EdgeDeviceSet>(object),
        "edgedevicesignedrequest" => as_kind::<EdgeDeviceSignedRequest>(object),
        other => Err(format!("{other} is no kind of Edge")),
    }
}
