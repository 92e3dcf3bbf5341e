//! From the registration certificate to a certificate of one's own, and from that to the next.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{
    Device, DeviceLedger, DeviceOptions, Fleet, FleetOptions, Identity, Manner, Operation, Protocol,
};
use flashjob_sim::{PATIENCE, eventually};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use super::kit::patch_device;

/// Twenty times as often as in the field: a poll every quarter of a second, a heartbeat every three.
pub const POLL: Duration = Duration::from_millis(250);

/// It has a certificate, a configuration, and has said how it is.
fn lives(ledger: &DeviceLedger) -> bool {
    let beats = ledger.answered(Operation::Heartbeat, 200) > 0;
    ledger.registered() && ledger.configuration().is_some() && beats
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_of_both_manners_come_in_by_themselves() -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator().await?;
    let mut fleets = Vec::new();
    for (manner, protocol) in [
        (Manner::Flotta, Protocol::H1),
        (Manner::Flotta, Protocol::H2),
        (Manner::Ours, Protocol::H1),
        (Manner::Ours, Protocol::H2),
    ] {
        let prefix = format!("{manner:?}-{protocol:?}").to_lowercase();
        let options = site.options(&prefix, manner).await?;
        let device = DeviceOptions { poll: POLL, protocol, ..options };
        fleets.push(Fleet::start(5, FleetOptions { prefix, stagger: POLL, device })?);
    }
    for fleet in &mut fleets {
        fleet.wait_until("all to live", PATIENCE, lives).await?;
        fleet.stop().await;
    }
    let found = site.devices().list(&ListParams::default()).await?.items;
    assert_eq!(found.len(), 20);
    for device in fleets.iter().flat_map(Fleet::devices) {
        let name = device.id();
        let found = found.iter().find(|found| found.name_any() == name).context("no EdgeDevice")?;
        let labels = found.labels();
        assert_eq!(labels.get("device.hostname").map(String::as_str), Some(name));
        assert_eq!(labels["device.cpu-architecture"], "x86_64");
        assert_eq!(labels["device.system-manufacturer"], "flashjob");
        assert!(!labels.contains_key("edgedeviceSignedRequest"), "its key is in use: {labels:?}");
        let hardware = found.status.as_ref().and_then(|status| status.hardware.as_ref());
        assert_eq!(hardware.context("no hardware")?.hostname.as_deref(), Some(name));
        assert!(found.spec.request_time.is_some());

        let (keys, ledger) = (site.keys(name).await?, device.ledger());
        let current = keys["current"]["key"].as_str().context("no key in use")?;
        assert!(ledger.keys_in_use().contains(current));
        assert_eq!((ledger.unreadable, ledger.stray_bodies), (vec![], 0));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ours_renews_before_its_certificate_ends_and_after() -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator().await?;
    // Two thirds of its life are over, and all of it.
    for (id, days) in [("old", 60), ("late", -1)] {
        let first = site.registered(id, Manner::Ours).await?;
        let own = first.credential().context("a certificate")?;
        let key = own.shown().context("a key")?.key();
        let before = site.keys(id).await?["current"]["key"].clone();
        let own = Some(Arc::new(site.forge(id, key, days).await?));
        let options = site.options(id, Manner::Ours).await?;
        let device = Device::new(DeviceOptions { own, poll: POLL, ..options })?;
        let running = device.clone();
        let life = tokio::spawn(async move { running.run(std::future::pending()).await });
        let renewed = |ledger: &DeviceLedger| {
            let beats = ledger.answered(Operation::Heartbeat, 200) > 0;
            beats && ledger.answered(Operation::Renew, 200) == 1
        };
        device.until("a renewal and a heartbeat", PATIENCE, renewed).await?;
        life.abort();
        let after = site.keys(id).await?["current"]["key"].clone();
        assert_ne!(after, before, "a renewal changes the key");
        assert_eq!(device.ledger().keys_in_use(), BTreeSet::from([after.as_str().unwrap()]));
        let replaced = first.heartbeat().await?;
        assert_eq!(replaced.code(), 401, "{id}: the key before is worth nothing");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_is_only_where_devices_are_served() -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator().await?;
    let options = site.options("elsewhere", Manner::Ours).await?;
    let namespace = "kube-system".to_owned();
    let device = Device::new(DeviceOptions { target_namespace: namespace, ..options })?;
    let refused = device.enrol().await?;
    assert_eq!(refused.code(), 403);
    let reason = refused.reason().unwrap_or_default();
    assert!(reason.contains("--edge-namespaces"), "{reason}");
    assert_eq!(site.devices().get_opt("elsewhere").await?, None);
    Ok(())
}

/// Two boxes with one id: the first to use its certificate is the device. The other is told why it is not, until a person
/// says that it is.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_boxes_with_one_id_the_first_to_use_its_certificate_wins() -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator().await?;
    let mut boxes = Vec::new();
    for manner in [Manner::Ours, Manner::Flotta] {
        let device = Device::new(site.options("twin", manner).await?)?;
        assert_eq!(device.enrol().await?.code(), 208);
        assert_eq!(device.register().await?.code(), 200);
        boxes.push(device);
    }
    let [loser, winner] = [&boxes[0], &boxes[1]];
    assert_eq!(winner.heartbeat().await?.code(), 200);
    for operation in [loser.heartbeat().await?, loser.renew().await?, loser.enrol().await?] {
        assert_eq!(operation.code(), 401);
        assert!(operation.reason().unwrap_or_default().contains("another key is in use"));
    }
    let again = loser.with(Identity::Registration).register().await?;
    assert_eq!(again.code(), 403);
    assert!(again.reason().unwrap_or_default().contains("reset the EdgeDevice"));
    assert_eq!(winner.heartbeat().await?.code(), 200);

    // The reset: the label is back, and the bundle registers once more.
    let label = json!({ "metadata": { "labels": { "edgedeviceSignedRequest": "true" } } });
    patch_device(&site, "twin", label).await?;
    let let_in = async || {
        let told = loser.with(Identity::Registration).register().await?;
        Ok((told.code() == 200).then_some(()))
    };
    eventually("the reset to be seen", PATIENCE, let_in).await?;
    assert_eq!(winner.heartbeat().await?.code(), 200, "it goes on until the new one is used");
    assert_eq!(loser.heartbeat().await?.code(), 200);
    assert_eq!(winner.heartbeat().await?.code(), 401);
    assert_eq!(site.devices().list(&ListParams::default()).await?.items.len(), 1);
    Ok(())
}
