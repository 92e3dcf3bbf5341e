//! What several of these tests do.

use anyhow::Result;
use flashjob_api::edge::EdgeDeviceSignedRequest;
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{Answer, Device, Identity, Operation};
use flashjob_sim::{PATIENCE, eventually};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

/// Every operation of a device, in the order of the table in docs/edge-security.md.
pub const COLUMNS: [Operation; 6] = [
    Operation::FetchConfiguration,
    Operation::FetchCommands,
    Operation::SayConnectionStatus,
    Operation::Heartbeat,
    Operation::Enrol,
    Operation::Register,
];

/// Does one of these with that certificate.
pub async fn ask(device: &Device, identity: Identity, operation: Operation) -> Result<Answer> {
    let device = device.with(identity);
    match operation {
        Operation::FetchConfiguration => device.fetch_configuration().await,
        Operation::FetchCommands => device.fetch_commands().await,
        Operation::SayConnectionStatus => device.say_connection_status().await,
        Operation::Heartbeat => device.heartbeat().await,
        Operation::Enrol => device.enrol().await,
        Operation::Register => device.register().await,
        Operation::Renew => device.renew().await,
    }
}

/// What each of them is answered; 0 if there is no answer. A refusal says why, and where any body would be taken for a message
/// it has none.
pub async fn codes(device: &Device, identity: Identity, columns: &[Operation]) -> Vec<u16> {
    let mut codes = Vec::new();
    for operation in columns {
        let Ok(answer) = ask(device, identity.clone(), *operation).await else {
            codes.push(0);
            continue;
        };
        let code = answer.code();
        if code >= 400 {
            assert!(answer.reason().is_some(), "{operation} of {}: {answer:?}", device.id());
            assert!(!operation.is_in() || answer.body.is_empty(), "{operation}: {answer:?}");
        }
        codes.push(code);
    }
    codes
}

/// Approves what a device has asked for, and waits until it says that the device may register.
pub async fn approve(site: &EdgeSite, device: &str) -> Result<()> {
    patch_request(site, device, json!({ "spec": { "approved": true } })).await?;
    phase(site, device, "approved").await
}

/// Waits until a request for approval says this.
pub async fn phase(site: &EdgeSite, device: &str, wanted: &str) -> Result<()> {
    let (requests, name) = (site.api::<EdgeDeviceSignedRequest>(), device.to_lowercase());
    let what = format!("the EdgeDeviceSignedRequest {name} to be {wanted}");
    eventually(&what, PATIENCE, async || {
        let phase = requests.get(&name).await?.status.and_then(|status| status.phase);
        Ok((phase.as_deref() == Some(wanted)).then_some(()))
    })
    .await
}

pub async fn patch_request(site: &EdgeSite, device: &str, change: Value) -> Result<()> {
    let requests: Api<EdgeDeviceSignedRequest> = site.api();
    let (params, patch) = (PatchParams::default(), Patch::Merge(change));
    requests.patch(&device.to_lowercase(), &params, &patch).await?;
    Ok(())
}

/// Deletes the EdgeDevice, and waits until it is gone.
pub async fn delete(site: &EdgeSite, device: &str) -> Result<()> {
    let (devices, name) = (site.devices(), device.to_lowercase());
    devices.delete(&name, &DeleteParams::default()).await?;
    gone(site, &name).await
}

/// Waits until the EdgeDevice is gone.
pub async fn gone(site: &EdgeSite, device: &str) -> Result<()> {
    let (devices, what) = (site.devices(), format!("the end of the EdgeDevice {device}"));
    eventually(&what, PATIENCE, async || Ok(devices.get_opt(device).await?.is_none().then_some(())))
        .await
}

/// Changes an EdgeDevice as a person with kubectl would.
pub async fn patch_device(site: &EdgeSite, device: &str, change: Value) -> Result<()> {
    site.devices().patch(device, &PatchParams::default(), &Patch::Merge(change)).await?;
    Ok(())
}
