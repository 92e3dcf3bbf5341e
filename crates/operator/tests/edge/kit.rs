//! What several of these tests do.

use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_api::edge::EdgeDeviceSignedRequest;
use flashjob_sim::edge::device::FIELD_POLL;
use flashjob_sim::edge::site::{EdgeSite, patiently};
use flashjob_sim::edge::{
    Answer, Device, DeviceLedger, DeviceOptions, Identity, Manner, Operation,
};
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Devices that live by themselves do so a hundred times as fast as in the field.
pub const POLL: Duration = FIELD_POLL.checked_div(100).unwrap();

/// Every operation of a device, in the order of the table in docs/edge-security.md.
pub const COLUMNS: [Operation; 6] = [
    Operation::FetchConfiguration,
    Operation::FetchCommands,
    Operation::SayConnectionStatus,
    Operation::Heartbeat,
    Operation::Enrol,
    Operation::Register,
];

/// Does one of these with that certificate, and once more if the machine was too busy for an answer in time.
pub async fn ask(device: &Device, identity: Identity, operation: Operation) -> Result<Answer> {
    patiently(async || ask_once(device, identity.clone(), operation).await).await
}

async fn ask_once(device: &Device, identity: Identity, operation: Operation) -> Result<Answer> {
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

/// Such a device.
pub async fn quick(site: &EdgeSite, id: &str, manner: Manner) -> Result<DeviceOptions> {
    Ok(DeviceOptions { poll: POLL, ..site.options(id, manner).await? })
}

/// One that is registered already.
pub async fn quick_and_registered(site: &EdgeSite, id: &str, manner: Manner) -> Result<Device> {
    let own = site.registered(id, manner).await?.credential().and_then(|own| own.shown().cloned());
    let device = Device::new(DeviceOptions { own, ..quick(site, id, manner).await? })?;
    assert_eq!(codes(&device, Identity::Own, &[Operation::Heartbeat]).await, [200]);
    Ok(device)
}

/// Lets a device live by itself until what this returns is dropped.
pub fn live(device: &Device) -> JoinSet<()> {
    let (device, mut life) = (device.clone(), JoinSet::new());
    life.spawn(async move { device.run(std::future::pending()).await });
    life
}

/// Waits until a device that lives by itself has beaten once more, and was answered that all is well.
pub async fn beats(device: &Device) -> Result<()> {
    let taken = |ledger: &DeviceLedger| ledger.answered(Operation::Heartbeat, 200);
    let before = device.read(taken);
    device.until("a heartbeat to be taken", PATIENCE, |ledger| taken(ledger) > before).await
}

/// The fingerprint of the key that a device has in use.
pub fn key(device: &Device) -> Result<String> {
    let own = device.credential().context("no certificate of its own")?;
    Ok(own.shown().context("no key")?.leaf().key_fingerprint())
}

/// Waits until the record says that the device's key is in use, and that it needs no registration certificate any more.
pub async fn in_use(site: &EdgeSite, device: &Device) -> Result<()> {
    let what = format!("the key of {} to be the one in use", device.id());
    eventually(&what, PATIENCE, async || {
        let there = site.devices().get(device.id()).await?;
        let current = site.keys(device.id()).await?["current"]["key"].clone();
        let unclaimed = there.labels().contains_key("edgedeviceSignedRequest");
        Ok((current == json!(key(device)?) && !unclaimed).then_some(()))
    })
    .await
}

/// The names of all EdgeDevices of the site.
pub async fn names(site: &EdgeSite) -> Result<Vec<String>> {
    let all = site.devices().list(&ListParams::default()).await?;
    Ok(all.iter().map(ResourceExt::name_any).collect())
}

/// What is written down of devices that were deleted.
pub async fn tombstones(site: &EdgeSite) -> Result<Vec<Value>> {
    let maps: Api<ConfigMap> = Api::namespaced(site.client.clone(), &site.home);
    let label = ListParams::default().labels("management.project-flotta.io/tombstones=true");
    let maps = maps.list(&label).await?.items;
    let texts = maps.into_iter().flat_map(|map| map.data.unwrap_or_default().into_values());
    texts.map(|text| Ok(serde_json::from_str(&text)?)).collect()
}

/// Annotates Secret flotta-ca, as a person does, and waits for what comes of it.
pub async fn ask_of_ca(site: &EdgeSite, command: &str) -> Result<String> {
    let (ask, answer) =
        ("management.project-flotta.io/ca", "management.project-flotta.io/ca-message");
    let change = json!({ "metadata": { "annotations": { (ask): command, (answer): null } } });
    let (secrets, params) = (site.secrets(), PatchParams::default());
    secrets.patch("flotta-ca", &params, &Patch::Merge(change)).await?;
    eventually(&format!("what comes of {command}"), PATIENCE, async || {
        let ca = secrets.get("flotta-ca").await?;
        Ok(ca.annotations().get(answer).cloned())
    })
    .await
}
