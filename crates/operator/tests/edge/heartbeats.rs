//! What devices say of themselves, and what becomes of it: in the status of their EdgeDevices, and not in any write that says
//! nothing new.

use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_api::edge::wire::{UpgradeStatus, WorkloadStatus};
use flashjob_sim::cluster::AuditEntry;
use flashjob_sim::edge::site::{EdgeSite, patiently};
use flashjob_sim::edge::{Answer, Call, Device, Identity, Manner, Operation};
use flashjob_sim::{PATIENCE, eventually};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::kit::patch_device;

/// Longer than it takes from one write of a device's status to the next.
const AFTER_A_PAUSE: Duration = Duration::from_secs(13);

/// Waits until an EdgeDevice is as wished, and gives it.
pub async fn seen(
    site: &EdgeSite,
    device: &str,
    what: &str,
    wish: impl Fn(&Value) -> bool,
) -> Result<Value> {
    let last = Mutex::new(Value::Null);
    let found = eventually(&format!("{device}: {what}"), PATIENCE, async || {
        let found = serde_json::to_value(site.devices().get(device).await?)?;
        let is_so = wish(&found);
        *last.lock().unwrap() = found.clone();
        Ok(is_so.then_some(found))
    })
    .await;
    found.with_context(|| format!("{:#}", last.lock().unwrap()))
}

pub fn condition<'a>(device: &'a Value, type_: &str) -> &'a Value {
    let conditions = device["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == type_);
    found.unwrap_or(&Value::Null)
}

/// The status of one workload in both lists, which say the same.
fn workload<'a>(device: &'a Value, name: &str) -> &'a Value {
    let of = |list: &str| {
        let entries = device["status"][list].as_array();
        entries.into_iter().flatten().find(|entry| entry["name"] == name).unwrap_or(&Value::Null)
    };
    assert_eq!(of("workloads"), of("deployments"), "{device:#}");
    of("workloads")
}

/// Workloads of these names, for all devices of the site.
pub async fn deploy(site: &EdgeSite, names: &[&str]) -> Result<()> {
    for name in names {
        let spec = json!({ "containers": [{ "name": "web", "image": "nginx:1" }] });
        let made = json!({
            "apiVersion": "management.project-flotta.io/v1alpha1", "kind": "EdgeDeployment",
            "metadata": { "name": name },
            "spec": { "deviceSelector": {}, "type": "pod", "pod": { "spec": spec } },
        });
        site.cluster.apply_yaml_in(&site.namespace, &made.to_string()).await?;
    }
    Ok(())
}

/// Asks until the device is told to run so many workloads.
async fn is_told(device: &Device, count: usize) -> Result<()> {
    eventually(&format!("{count} workloads on {}", device.id()), PATIENCE, async || {
        device.fetch_configuration().await?;
        let told = device.ledger().configuration().map(|known| known.workloads.len());
        Ok((told == Some(count)).then_some(()))
    })
    .await
}

/// A heartbeat with this content, word by word.
pub async fn beat(device: &Device, content: &Value) -> Result<Answer> {
    let message = json!({
        "type": "data", "message_id": "4acd7f23", "version": 1, "directive": "heartbeat",
        "sent": "2026-11-18T12:00:00Z", "content": content,
    });
    let call = Call::post(format!("/data/{}/out", device.id()), message.to_string().into_bytes());
    let own = device.with(Identity::Own);
    patiently(async || own.send(Operation::Heartbeat, call.clone()).await).await
}

/// What the operator has written into the status of a device so far.
pub async fn status_writes(site: &EdgeSite, device: &str) -> Result<Vec<AuditEntry>> {
    let mut writes = site.operators.writes_settled(&site.namespace).await?;
    writes.retain(|write| {
        write.resource == "edgedevices"
            && write.subresource.as_deref() == Some("status")
            && write.name.as_deref() == Some(device)
    });
    Ok(writes)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_says_how_its_workloads_are_and_only_what_changes_has_a_new_time() -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator().await?;
    let ours = site.registered("ours", Manner::Ours).await?;
    let theirs = site.registered("theirs", Manner::Flotta).await?;
    deploy(&site, &["a", "b"]).await?;
    let mut first = Vec::new();
    for device in [&ours, &theirs] {
        is_told(device, 2).await?;
        device.heartbeat().await?;
        let run = |found: &Value| found["status"]["running"] == "2/2";
        first.push(seen(&site, device.id(), "all run", run).await?);
    }
    for (device, first) in [&ours, &theirs].into_iter().zip(&first) {
        assert_eq!(first["status"]["phase"], "up");
        let version = device.ledger().configuration().unwrap().version.clone();
        assert_eq!(first["status"]["lastSyncedResourceVersion"], version);
        assert_eq!(condition(first, "Synced")["status"], "True", "{first:#}");
        let failed = WorkloadStatus {
            status: "Exited".into(),
            exit_code: Some(3),
            message: Some("no such\nimage".into()),
            restarts: Some(2),
            ..WorkloadStatus::default()
        };
        device.set_workload_status("a", failed);
        device.set_upgrade(UpgradeStatus {
            current_commit_id: "0123abcd".into(),
            last_upgrade_status: "succeeded".into(),
            last_upgrade_time: "2026-11-18 12:00:00.1 +0000 UTC".into(),
        });
        device.heartbeat().await?;
    }
    for (device, first) in [&ours, &theirs].into_iter().zip(&first) {
        let exited = |found: &Value| workload(found, "a")["phase"] == "Exited";
        let found = seen(&site, device.id(), "a has ended", exited).await?;
        let [before, after] = [first, &found].map(|found| workload(found, "a").clone());
        assert!(after["lastTransitionTime"].as_str() > before["lastTransitionTime"].as_str());
        assert_eq!(workload(&found, "b"), workload(first, "b"), "nothing is new of it");
        assert_eq!(found["status"]["running"], "1/2");
        let (code, message, restarts) = if device.id() == "ours" {
            (json!(3), json!("no such image"), json!(2))
        } else {
            (Value::Null, Value::Null, Value::Null)
        };
        let told = [&after["exitCode"], &after["message"], &after["restarts"]];
        assert_eq!(told, [&code, &message, &restarts], "{found:#}");
        let upgrade = json!({
            "currentCommitID": "0123abcd", "lastUpgradeStatus": "succeeded",
            "lastUpgradeTime": "2026-11-18 12:00:00.1 +0000 UTC",
        });
        assert_eq!(found["status"]["upgradeInformation"], upgrade);
        let beats = |found: &Value| condition(found, "Ready")["lastTransitionTime"].clone();
        assert_eq!(beats(&found), beats(first), "Ready has not turned");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_in_another_order_or_of_strangers_costs_no_write_and_uploads_wait()
-> Result<()> {
    let site = EdgeSite::new().await?;
    let mut operator = site.operator().await?;
    let device = site.registered("edge1", Manner::Flotta).await?;
    deploy(&site, &["a", "b"]).await?;
    is_told(&device, 2).await?;
    let version = device.ledger().configuration().unwrap().version.clone();
    let says =
        |workloads: Value| json!({ "status": "up", "version": version, "workloads": workloads });
    let [a, b] = ["a", "b"].map(|name| json!({ "name": name, "status": "Running" }));
    beat(&device, &says(json!([a, b]))).await?;
    let found = seen(&site, "edge1", "all run", |f| f["status"]["running"] == "2/2").await?;
    let written = status_writes(&site, "edge1").await?.len();

    let ghost =
        json!({ "name": "ghost", "status": "Exited", "last_data_upload": "2026-11-18T12:00:00Z" });
    beat(&device, &says(json!([b, a]))).await?;
    beat(&device, &says(json!([b, ghost, a]))).await?;
    beat(&device, &says(json!([a, { "status": "Exited" }, null, b, ghost, a]))).await?;
    let upload = |time: &str| {
        let mut a = a.clone();
        a["last_data_upload"] = json!(time);
        says(json!([a, b]))
    };
    beat(&device, &upload("0001-01-01T00:00:00.000Z")).await?;
    beat(&device, &upload("2026-11-18T12:00:01.271Z")).await?;
    sleep(AFTER_A_PAUSE).await;
    beat(&device, &upload("2026-11-18T12:00:02Z")).await?;
    sleep(Duration::from_secs(1)).await;
    let writes = status_writes(&site, "edge1").await?;
    assert_eq!(writes[written..], [], "{}", operator.log());

    // Something else is new, and the time goes with it.
    let degraded = json!({
        "status": "degraded", "version": version,
        "workloads": upload("2026-11-18T12:00:02Z")["workloads"],
    });
    beat(&device, &degraded).await?;
    let found_later =
        seen(&site, "edge1", "degraded", |f| f["status"]["phase"] == "degraded").await?;
    let uploaded = workload(&found_later, "a")["lastDataUpload"].clone();
    assert_eq!(uploaded, "2026-11-18T12:00:02Z");
    let since = |found: &Value| workload(found, "a")["lastTransitionTime"].clone();
    assert_eq!(since(&found_later), since(&found));

    // Another process reads what this one has written, and the same heartbeat is no news to it either.
    let written = status_writes(&site, "edge1").await?.len();
    operator.kill();
    let operator = site.operator().await?;
    beat(&device, &degraded).await?;
    sleep(Duration::from_secs(3)).await;
    let writes = status_writes(&site, "edge1").await?;
    assert_eq!(writes[written..], [], "{}", operator.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn hardware_is_put_together_from_its_parts_and_what_is_known_costs_no_write() -> Result<()> {
    let site = EdgeSite::new().await?;
    let mut operator = site.operator().await?;
    let device = site.registered("edge1", Manner::Ours).await?;
    let ask = async |profile: Value, version: Option<String>| {
        let heartbeat = json!({ "hardwareProfile": profile });
        patch_device(&site, "edge1", json!({ "spec": { "heartbeat": heartbeat } })).await?;
        eventually("another configuration", PATIENCE, async || {
            device.fetch_configuration().await?;
            let now = device.ledger().configuration().map(|known| known.version.clone());
            Ok(now.filter(|now| Some(now) != version.as_ref()))
        })
        .await
    };
    device.fetch_configuration().await?;
    let version = device.ledger().configuration().map(|known| known.version.clone());
    let version = ask(json!({ "include": true, "scope": "delta" }), version).await?;
    device.heartbeat().await?;
    let synced = |version: String| {
        move |found: &Value| found["status"]["lastSyncedResourceVersion"] == version
    };
    let found = seen(&site, "edge1", "synced", synced(version.clone())).await?;
    assert_eq!(found["status"]["hardware"]["hostname"], "edge1");
    assert_eq!(found["status"]["hardware"]["cpu"]["modelName"], "Simulated CPU", "{found:#}");

    // Something new, and before that is written something else: both are there in the end.
    device.set_hostname("pump");
    device.heartbeat().await?;
    device.set_upgrade(UpgradeStatus {
        current_commit_id: "0123abcd".into(),
        ..UpgradeStatus::default()
    });
    device.heartbeat().await?;
    let renamed = seen(&site, "edge1", "its other name", |found| {
        found["status"]["hardware"]["hostname"] == "pump"
            && found["status"]["upgradeInformation"]["currentCommitID"] == "0123abcd"
    })
    .await?;
    let mut wanted = found["status"]["hardware"].clone();
    wanted["hostname"] = json!("pump");
    assert_eq!(renamed["status"]["hardware"], wanted, "all else is as it was");

    // From now on it says again and again what it has said before.
    let version = ask(json!({ "include": true, "scope": "full" }), Some(version)).await?;
    device.heartbeat().await?;
    let found = seen(&site, "edge1", "synced", synced(version)).await?;
    assert_eq!(found["status"]["hardware"], wanted);
    let written = status_writes(&site, "edge1").await?.len();
    for _ in 0..3 {
        device.heartbeat().await?;
    }
    operator.kill();
    let operator = site.operator().await?;
    device.heartbeat().await?;
    sleep(Duration::from_secs(3)).await;
    let writes = status_writes(&site, "edge1").await?;
    assert_eq!(writes[written..], [], "{}", operator.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_somebody_fills_with_nonsense_is_put_right_at_once() -> Result<()> {
    let site = EdgeSite::new().await?;
    let operator = site.operator().await?;
    let device = site.registered("edge1", Manner::Ours).await?;
    let heartbeat = json!({ "hardwareProfile": { "include": true, "scope": "full" } });
    patch_device(&site, "edge1", json!({ "spec": { "heartbeat": heartbeat } })).await?;
    deploy(&site, &["a"]).await?;
    is_told(&device, 1).await?;
    device.heartbeat().await?;
    let run = |found: &Value| {
        found["status"]["running"] == "1/1" && condition(found, "Synced")["status"] == "True"
    };
    let right = seen(&site, "edge1", "it runs", run).await?["status"].clone();
    let without_hardware = |status: &Value| {
        let mut status = status.clone();
        status.as_object_mut().and_then(|fields| fields.remove("hardware"));
        status
    };
    let nonsense = [
        json!({ "phase": "Eaten", "workloads": [{ "name": "b", "phase": "x" }], "dataObc": "mine" }),
        json!({ "workloads": null, "conditions": null, "lastSyncedResourceVersion": "9", "running": "7/0" }),
        json!({ "hardware": { "hostname": "nobody" }, "phase": "y".repeat(200_000) }),
        json!(null),
    ];
    for nonsense in nonsense {
        let patch = Patch::Merge(json!({ "status": nonsense }));
        site.devices().patch_status("edge1", &PatchParams::default(), &patch).await?;
        // Without a heartbeat, as far as anybody can know it then.
        let wanted = without_hardware(&right);
        let is_right = |found: &Value| without_hardware(&found["status"]) == wanted;
        seen(&site, "edge1", &format!("all but the hardware after {nonsense:.60}"), is_right)
            .await?;
        device.heartbeat().await?;
        let named = |found: &Value| found["status"]["hardware"]["hostname"] == "edge1";
        seen(&site, "edge1", "the hardware", named).await?;
    }
    assert!(!operator.log().contains("panic"), "{}", operator.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_our_agent_does_not_do_is_said_of_devices_with_our_agent() -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator().await?;
    let mut found = Vec::new();
    for manner in [Manner::Ours, Manner::Flotta] {
        let name = format!("{manner:?}").to_lowercase();
        let device = site.registered(&name, manner).await?;
        let os = json!({ "spec": { "osInformation": { "commitID": "0123abcd" } } });
        patch_device(&site, &name, os).await?;
        let synced =
            seen(&site, &name, "synced", |found| condition(found, "Synced")["status"] == "True");
        let beats = async {
            loop {
                let _ = device.fetch_configuration().await;
                let _ = device.heartbeat().await;
                sleep(Duration::from_secs(1)).await;
            }
        };
        found.push(tokio::select! {
            synced = synced => synced?,
            () = beats => unreachable!("it beats on"),
        });
    }
    let said = |found: &Value| condition(found, "NotSupportedByAgent").clone();
    assert_eq!(said(&found[0])["status"], "True", "{:#}", found[0]);
    let message = said(&found[0])["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.ends_with(" os"), "{message}");
    assert_eq!(said(&found[1]), Value::Null, "{:#}", found[1]);

    patch_device(&site, "ours", json!({ "spec": { "osInformation": null } })).await?;
    seen(&site, "ours", "nothing is missed", |found| said(found) == Value::Null).await?;
    Ok(())
}
