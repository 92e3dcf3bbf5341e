//! Sets of devices under both names: each field from the set, the device, or the default; and a set that is not there.

use anyhow::Result;
use flashjob_api::edge::wire::{DeviceConfiguration, DeviceConfigurationMessage};
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{Device, Manner};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::kit::patch_device;
use super::workload_kit::{condition, content, device, is_sent, make, objects, patch, version};

const LABEL: &str = "flotta/member-of";

async fn join(site: &EdgeSite, device: &str, set: Option<&str>) -> Result<()> {
    patch_device(site, device, json!({ "metadata": { "labels": { (LABEL): set } } })).await
}

/// What a device is told of itself.
async fn settings(device: &Device) -> Result<DeviceConfiguration> {
    Ok(content(device).await?.configuration.unwrap_or_default())
}

/// Waits until its heartbeats have this period, and gives the rest.
async fn beats_every(device: &Device, seconds: i64) -> Result<DeviceConfiguration> {
    let period = |of: &DeviceConfiguration| of.heartbeat.as_ref().map(|beat| beat.period_seconds);
    let what = format!("a beat every {seconds} s");
    let is_so = |sent: &DeviceConfigurationMessage| {
        sent.configuration.as_ref().and_then(period) == Some(seconds)
    };
    Ok(is_sent(device, &what, is_so).await?.configuration.unwrap_or_default())
}

fn shown(of: &DeviceConfiguration) -> Value {
    json!(of)
}

async fn workflow(kind: &str, plural: &str) -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator_with(&["--leader-elect=false"], None).await?;
    let sets = objects(&site, kind, plural);
    let one = site.registered("one", Manner::Flotta).await?;
    let other = site.registered("other", Manner::Flotta).await?;
    let plain = shown(&beats_every(&one, 60).await?);
    let own = json!({
        "heartbeat": { "periodSeconds": 30, "hardwareProfile": { "include": true } },
        "osInformation": { "commitID": "own", "hostedObjectsURL": "http://own" },
        "metrics": { "retention": { "maxMiB": 7 }, "system": { "interval": 11 } },
        "logCollection": { "own": { "bufferSize": 5 }, "both": { "bufferSize": 6 } },
    });
    patch_device(&site, "one", json!({ "spec": own })).await?;
    let alone = shown(&beats_every(&one, 30).await?);

    // Each field from the set, the device, or the default.
    let pumps = json!({
        "heartbeat": { "hardwareProfile": { "scope": "delta" }, "periodSeconds": 12 },
        "osInformation": { "commitID": "pumps" },
        "metrics": { "retention": { "maxHours": 3 }, "dataTransfer": { "disabled": true } },
        "logCollection": { "both": { "bufferSize": 9 } },
    });
    make(&sets, kind, "pumps", pumps).await?;
    make(&sets, kind, "valves", json!({ "heartbeat": { "periodSeconds": 13 } })).await?;
    join(&site, "one", Some("pumps")).await?;
    let merged = shown(&beats_every(&one, 12).await?);
    let beat = json!({ "period_seconds": 12,
        "hardware_profile": { "include": true, "scope": "delta" } });
    assert_eq!(merged["heartbeat"], beat);
    let of = |pointer: &str| merged.pointer(pointer).cloned().unwrap_or_default();
    assert_eq!(of("/os/commit_id"), "pumps");
    assert_eq!(of("/os/hosted_objects_url"), Value::Null, "half of the device's would be wrong");
    assert_eq!(of("/metrics/retention"), json!({ "max_mib": 7, "max_hours": 3 }));
    assert_eq!(of("/metrics/system/interval"), 11);
    assert_eq!(of("/metrics/data-transfer"), json!({ "disabled": true, "interval": 60 }));
    assert_eq!(of("/metrics/receiver"), plain["metrics"]["receiver"], "neither says anything");
    assert_eq!(of("/log-collection/own/buffer_size"), 5);
    assert_eq!(of("/log-collection/both/buffer_size"), 9);
    assert_eq!(of("/log-collection/both/kind"), "syslog");

    // An edit reaches members and nobody else.
    assert_eq!(shown(&settings(&other).await?), plain);
    let before = version(&other);
    patch(&sets, "pumps", json!({ "spec": { "heartbeat": { "periodSeconds": 14 } } })).await?;
    let edited = shown(&beats_every(&one, 14).await?);
    assert_eq!(edited["os"], merged["os"]);
    join(&site, "other", Some("valves")).await?;
    beats_every(&other, 13).await?;
    let told = other.ledger().configurations;
    let told: Vec<_> = told.iter().map(|told| told.version.clone()).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(Some(&told[0]), before.as_ref());

    // Another set, and then one that is not there.
    join(&site, "one", Some("valves")).await?;
    let moved = shown(&beats_every(&one, 13).await?);
    assert_eq!(moved["os"], alone["os"]);
    join(&site, "one", Some("nowhere")).await?;
    assert_eq!(shown(&beats_every(&one, 30).await?), alone);
    let missing = |found: &Value, set: &str| {
        let said = condition(found, "Configured");
        let message = said["message"].as_str().unwrap_or_default().to_owned();
        said["reason"] == "SetMissing" && message.contains(&format!("{}/{set}", site.namespace))
    };
    device(&site, "one", |found| missing(found, "nowhere")).await?;
    make(&sets, kind, "nowhere", json!({ "heartbeat": { "periodSeconds": 15 } })).await?;
    beats_every(&one, 15).await?;
    device(&site, "one", |found| condition(found, "Configured")["status"] == "True").await?;

    // Deleted, it is missing. Who is in no set has what it says itself.
    sets.delete("nowhere", &DeleteParams::default()).await?;
    assert_eq!(shown(&beats_every(&one, 30).await?), alone);
    device(&site, "one", |found| missing(found, "nowhere")).await?;
    join(&site, "one", None).await?;
    device(&site, "one", |found| condition(found, "Configured")["status"] == "True").await?;
    assert_eq!(shown(&settings(&one).await?), alone);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_of_an_edge_device_set() -> Result<()> {
    workflow("EdgeDeviceSet", "edgedevicesets").await
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_of_an_edge_device_group() -> Result<()> {
    workflow("EdgeDeviceGroup", "edgedevicegroups").await
}
