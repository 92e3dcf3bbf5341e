//! Heartbeats as agents of every age write them: each is taken, and what it says stands in the status of its EdgeDevice. That
//! the rest of what is said may be anything is in `fuzz`.

use anyhow::Result;
use flashjob_sim::edge::Manner;
use flashjob_sim::edge::site::EdgeSite;
use futures::future::try_join_all;
use serde_json::{Value, json};

use super::heartbeats::{beat, condition, deploy, seen};

/// What a device says, and what stands in its status then.
type Shape = (&'static str, Value, Value);

/// Flotta's, from its first days to its last.
fn of_flotta() -> Vec<Shape> {
    let never = "0001-01-01T00:00:00.000Z";
    let running = json!({ "name": "nginx", "phase": "Running", "lastDataUpload": null });
    let up = json!({ "phase": "up", "lastSyncedResourceVersion": "54429", "running": "1/1", "workloads": [running] });
    let of_first_days = json!({
        "status": "up", "version": "54429", "time": "2022-03-20T14:45:25.271828182Z", "events": [],
        "workloads": [{ "name": "nginx", "status": "Running", "last_data_upload": never }],
    });
    let of_last_days = json!({
        "status": "up", "version": "54429", "playbook-executions": null,
        "workloads": [{ "name": "nginx", "status": "Running", "last_data_upload": never }],
        "upgrade": { "current_commit_ID": "unknown" },
        "events": [{ "reason": "Failed", "message": "no such image", "type": "warn" }],
    });
    let playbooks = json!({
        "status": "up", "version": "54429", "events": null,
        "playbook-executions": [{ "name": "p", "status": "Running", "last_data_upload": never }],
        "workloads": [{ "name": "nginx", "status": "Running", "last_data_upload": "2026-11-18T12:00:01.5Z" }],
    });
    let uploaded =
        json!({ "name": "nginx", "phase": "Running", "lastDataUpload": "2026-11-18T12:00:01Z" });
    let upgraded = json!({
        "status": "degraded", "version": "54429", "workloads": [], "events": [], "playbook-executions": [],
        "upgrade": {
            "current_commit_ID": "0123abcd", "last_upgrade_status": "failed",
            "last_upgrade_time": "2022-09-28 14:45:25.271828182 +0000 UTC m=+0.1",
        },
    });
    let upgrade = json!({
        "currentCommitID": "0123abcd", "lastUpgradeStatus": "failed",
        "lastUpgradeTime": "2022-09-28 14:45:25.271828182 +0000 UTC m=+0.1",
    });
    let hardware = json!({
        "status": "up", "version": "54429", "workloads": null, "events": null, "playbook-executions": null,
        "hardware": {
            "hostname": "pump", "disks": null, "gpus": null, "memory": null,
            "cpu": { "architecture": "x86_64", "model_name": "A (R)", "flags": [] },
            "system_vendor": { "manufacturer": "LENOVO", "product_name": "20EQ", "serial_number": "PC0M" },
            "interfaces": [{ "ipv4_addresses": ["10.0.0.2/24"], "ipv6_addresses": [], "flags": [] }],
            "host_devices": [{ "path": "/dev/null", "device_type": "char", "owner": 0, "group": 6, "major": 1, "minor": 3 }],
            "mounts": [{ "device": "/dev/sda1", "directory": "/", "type": "ext4", "options": "rw" }],
        },
    });
    let mount = json!({ "device": "/dev/sda1", "folder": "/", "type": "ext4", "options": "rw" });
    let told = json!({
        "hostname": "pump", "cpu": { "architecture": "x86_64", "modelName": "A (R)" },
        "systemVendor": { "manufacturer": "LENOVO", "productName": "20EQ", "serialNumber": "PC0M" },
        "interfaces": [{ "ipv4Addresses": ["10.0.0.2/24"] }], "mounts": [mount],
        "hostDevices": [{ "path": "/dev/null", "group": 6 }],
    });
    let delta = json!({ "status": "up", "version": "54429", "hardware": { "hostname": "valve" } });
    vec![
        ("first-days", of_first_days, up.clone()),
        (
            "last-days",
            of_last_days,
            merged(&up, json!({ "upgradeInformation": { "currentCommitID": "unknown" } })),
        ),
        ("playbooks", playbooks, merged(&up, json!({ "workloads": [uploaded] }))),
        (
            "upgraded",
            upgraded,
            json!({ "phase": "degraded", "running": "0/1", "upgradeInformation": upgrade }),
        ),
        ("hardware", hardware, json!({ "phase": "up", "hardware": told })),
        ("delta", delta, json!({ "phase": "up", "hardware": { "hostname": "valve" } })),
    ]
}

/// What any of them, or ours, may leave out or put in.
fn of_others() -> Vec<Shape> {
    let nulls = json!({
        "status": null, "version": null, "workloads": null, "events": null, "playbook-executions": null,
        "upgrade": null, "hardware": null, "agent": null,
    });
    let ours = json!({
        "status": "up", "version": "1", "agent": { "name": "flashjob-agent", "version": "0.1.0" },
        "workloads": [{ "name": "nginx", "status": "Exited", "exit_code": 3, "message": "no disk", "restarts": 7 }],
        "something": { "that": ["is", "yet", "to", "come"] },
    });
    let exited = json!({ "name": "nginx", "phase": "Exited", "exitCode": 3, "message": "no disk", "restarts": 7 });
    let deploying =
        json!({ "running": "0/1", "workloads": [{ "name": "nginx", "phase": "Deploying" }] });
    vec![
        ("null", Value::Null, deploying.clone()),
        ("nothing", json!({}), deploying.clone()),
        ("nulls", nulls, deploying),
        (
            "word",
            json!({ "status": "up" }),
            json!({ "phase": "up", "lastSyncedResourceVersion": null }),
        ),
        ("ours", ours, json!({ "phase": "up", "workloads": [exited], "running": "0/1" })),
    ]
}

fn merged(one: &Value, more: Value) -> Value {
    let mut all = one.clone();
    for (key, value) in more.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    all
}

/// Whether all that is wanted stands there. Null is nothing.
fn has(found: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::Object(fields) => fields.iter().all(|(key, wanted)| has(&found[key], wanted)),
        Value::Array(items) => {
            let found = found.as_array().map(Vec::as_slice).unwrap_or_default();
            found.len() == items.len() && found.iter().zip(items).all(|(f, w)| has(f, w))
        }
        other => found == other,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_of_every_age_are_taken_and_stand_in_the_status() -> Result<()> {
    let site = EdgeSite::new().await?;
    let operator = site.operator().await?;
    deploy(&site, &["nginx"]).await?;
    let shapes: Vec<Shape> = of_flotta().into_iter().chain(of_others()).collect();
    let told = shapes.iter().map(async |(name, said, wanted)| {
        // Whoever registers beats once, and that is a shape of its own.
        let device = site.registered(name, Manner::Flotta).await?;
        assert_eq!(beat(&device, said).await?.code(), 200, "{name}: {said:#}");
        let is_so = |found: &Value| {
            let ready = condition(found, "Ready")["status"] == "True";
            ready
                && has(&found["status"], wanted)
                && found["status"]["deployments"] == found["status"]["workloads"]
        };
        seen(&site, name, &format!("{wanted:#}"), is_so).await
    });
    try_join_all(told).await?;
    assert!(!operator.log().contains("panic"), "{}", operator.log());

    // What no agent has ever said is refused with the place, and changes nothing.
    let device = site.registered("wrong", Manner::Flotta).await?;
    for wrong in [json!(7), json!([1]), json!({ "workloads": {} }), json!({ "status": {} })] {
        let told = beat(&device, &wrong).await?;
        let reason = told.reason().unwrap_or_default();
        assert!(told.code() == 400 && reason.contains("heartbeat"), "{wrong}: {told:?}");
    }
    Ok(())
}
