//! What users write and devices run, as the command line shows it: before, meanwhile and after.

use anyhow::Result;
use flashjob_api::edge::wire::{DeviceConfigurationMessage, Message};
use flashjob_plan::edge::configuration::masked;
use flashjob_sim::edge::{Device, Manner};
use flashjob_sim::{PATIENCE, eventually};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::EdgeCli;
use super::roles::account;

pub fn manifest(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "management.project-flotta.io/v1alpha1", "kind": kind,
        "metadata": { "name": name }, "spec": spec,
    })
}

fn pod(container: Value) -> Value {
    let mut all = json!({ "name": "web", "image": "nginx:1" });
    all.as_object_mut().unwrap().extend(container.as_object().unwrap().clone());
    json!({ "spec": { "containers": [all] } })
}

/// A workload for the devices with the label `app: web`.
pub fn web(kind: &str, name: &str, container: Value) -> Value {
    let selector = json!({ "matchLabels": { "app": "web" } });
    manifest(
        kind,
        name,
        &json!({ "type": "pod", "pod": pod(container), "deviceSelector": selector }),
    )
}

pub async fn apply(site: &EdgeCli, object: &Value) -> Result<()> {
    site.cluster.apply_yaml_in(&site.namespace, &object.to_string()).await
}

pub async fn label(site: &EdgeCli, device: &str, labels: Value) -> Result<()> {
    let change = Patch::Merge(json!({ "metadata": { "labels": labels } }));
    site.devices().patch(device, &PatchParams::default(), &change).await?;
    Ok(())
}

/// What a device is told, as it stands in the answer. Flotta's agents are told all of it each time.
async fn told(device: &Device) -> Result<Option<DeviceConfigurationMessage>> {
    let answer = device.fetch_configuration().await?;
    if answer.code() != 200 {
        return Ok(None);
    }
    let message: Message = serde_json::from_slice(&answer.body)?;
    Ok(Some(serde_json::from_value(message.content)?))
}

/// Waits until what it is told is as wished.
pub async fn is_told_what(
    device: &Device,
    what: &str,
    wish: impl Fn(&DeviceConfigurationMessage) -> bool,
) -> Result<DeviceConfigurationMessage> {
    eventually(&format!("{what} on {}", device.id()), PATIENCE, async || {
        Ok(told(device).await?.filter(|told| wish(told)))
    })
    .await
}

/// Waits until it is told to run these.
pub async fn is_told(device: &Device, wanted: &[&str]) -> Result<DeviceConfigurationMessage> {
    let names = |told: &DeviceConfigurationMessage| {
        told.workloads.iter().map(|of| of.name.clone()).collect::<Vec<_>>() == wanted
    };
    is_told_what(device, &format!("{wanted:?}"), names).await
}

/// Seconds between two heartbeats.
fn period(told: &DeviceConfigurationMessage) -> Option<i64> {
    Some(told.configuration.as_ref()?.heartbeat.as_ref()?.period_seconds)
}

fn json(text: &str) -> Result<Value> {
    Ok(serde_json::from_str(text)?)
}

#[tokio::test]
async fn an_edge_deployment_is_followed_from_its_making_to_its_end() -> Result<()> {
    workflow("EdgeDeployment", "edgedeployments").await
}

#[tokio::test]
async fn an_edge_workload_is_followed_from_its_making_to_its_end() -> Result<()> {
    workflow("EdgeWorkload", "edgeworkloads").await
}

async fn workflow(kind: &str, plural: &str) -> Result<()> {
    let site = EdgeCli::new().await?;
    let _operator = site.operator().await?;
    let viewer = account(&site, "flotta-edge-viewer-role").await?;
    let editor = account(&site, "flotta-edge-editor-role").await?;
    let one = site.registered("one", Manner::Flotta).await?;
    let other = site.registered("other", Manner::Flotta).await?;
    label(&site, "one", json!({ "app": "web" })).await?;
    label(&site, "other", json!({ "app": "web" })).await?;
    let none = site.run_as(&viewer, &["workloads"]).await;
    assert!(none.err.contains("No workloads found.") && none.out.is_empty(), "{none:#?}");
    site.run(&["status", "web"]).await.badly(1, "there is no EdgeDeployment or EdgeWorkload web");

    apply(&site, &web(kind, "web", json!({}))).await?;
    let late = site.run_as(&viewer, &["status", "web", "--wait", "--timeout", "2s"]).await;
    assert!(late.err.contains("Devices go on; see: kubectl flashjob edge status web"), "{late:#?}");
    late.badly(4, "Not done in time.");

    for device in [&one, &other] {
        is_told(device, &["web"]).await?;
    }
    one.heartbeat().await?;
    // The status of a device is written after that of its workload, and not more often than every ten seconds.
    eventually("one of them to run it, and the other to lag", PATIENCE, async || {
        let text = site.run_as(&viewer, &["status", "web"]).await.well();
        let lags = text.contains("\n  other  ") && !text.contains("\n  one  ");
        Ok((lags && text.contains("[##########..........]  1 of 2")).then_some(()))
    })
    .await?;
    let explained = site.run_as(&editor, &["explain", "workload/web"]).await.well();
    let head = format!("{kind} {}/web: 1 of 2 devices", site.namespace);
    assert!(explained.starts_with(&head), "{explained}");
    assert!(explained.contains("\ndevices: one, other\nother: "), "{explained}");

    let waits = site.run_as(&editor, &["status", "web", "--wait", "--timeout", "60s"]);
    let (ended, beat) = tokio::join!(waits, async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        other.heartbeat().await
    });
    assert_eq!(beat?.code(), 200);
    ended.well();
    let table = site.run_as(&viewer, &["workloads"]).await.well();
    let cells: Vec<&str> = table.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    assert_eq!(cells[1..7], [kind, "web", "True", "2/2", "0", "0"], "{table}");
    let listed = json(&site.run_as(&editor, &["workloads", "-o", "json"]).await.well())?;
    assert_eq!(listed["workloads"][0]["counts"]["running"], 2, "{listed:#}");

    remove(&site, kind, plural, "web").await?;
    is_told(&one, &[]).await?;
    is_told(&other, &[]).await?;
    let probe = json!({ "livenessProbe": {} });
    apply(&site, &web(kind, "probe", probe)).await?;
    let refused = site.run(&["status", "probe", "--wait", "--timeout", "60s"]).await;
    assert!(refused.err.contains("InvalidSpec: spec.pod.spec.containers[0].livenessProbe"));
    refused.badly(3, "What to do: kubectl flashjob edge explain workload/probe");
    Ok(())
}

async fn remove(site: &EdgeCli, kind: &str, plural: &str, name: &str) -> Result<()> {
    let kind = kube::core::GroupVersionKind::gvk("management.project-flotta.io", "v1alpha1", kind);
    let resource = kube::api::ApiResource::from_gvk_with_plural(&kind, plural);
    let api: kube::Api<kube::api::DynamicObject> =
        kube::Api::namespaced_with(site.client.clone(), &site.namespace, &resource);
    api.delete(name, &kube::api::DeleteParams::default()).await?;
    Ok(())
}

#[tokio::test]
async fn what_is_planned_is_what_devices_are_then_told() -> Result<()> {
    let site = EdgeCli::new().await?;
    let _operator = site.operator().await?;
    let viewer = account(&site, "flotta-edge-viewer-role").await?;
    let one = site.registered("one", Manner::Flotta).await?;
    let other = site.registered("other", Manner::Flotta).await?;
    let third = site.registered("third", Manner::Flotta).await?;
    label(&site, "one", json!({ "app": "web" })).await?;
    label(&site, "other", json!({ "app": "web", "flotta/member-of": "floor" })).await?;
    let port = || json!({ "ports": [{ "containerPort": 80, "hostPort": 8080 }] });
    apply(&site, &web("EdgeDeployment", "old", json!({}))).await?;
    apply(&site, &web("EdgeWorkload", "port", port())).await?;
    is_told(&one, &["old", "port"]).await?;
    is_told(&other, &["old", "port"]).await?;

    let new = [
        manifest(
            "EdgeDeployment",
            "old",
            &json!({ "type": "pod", "pod": pod(json!({})), "device": "third" }),
        ),
        web("EdgeWorkload", "new", port()),
        web("EdgeWorkload", "port", json!({ "image": "nginx:2", "ports": port()["ports"] })),
        web("EdgeWorkload", "bad", json!({ "lifecycle": {} })),
        web(
            "EdgeWorkload",
            "lacks",
            json!({ "envFrom": [{ "secretRef": { "name": "nowhere" } }] }),
        ),
        manifest("EdgeDeviceSet", "floor", &json!({ "heartbeat": { "periodSeconds": 5 } })),
    ];
    let documents: Vec<String> = new.iter().map(ToString::to_string).collect();
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("new.yaml");
    std::fs::write(&file, documents.join("\n---\n"))?;
    let plan = ["plan", "-f", &file.to_string_lossy(), "-o"];
    let ended = site.run(&[&plan[..], &["json"]].concat()).await;
    assert!(ended.err.contains("6 objects: 3 devices, 3 of them change."), "{ended:#?}");
    assert_eq!(ended.code, 3, "{ended:#?}");
    let planned = json(&ended.out)?;
    assert_eq!(planned["missing"][0]["reason"], "SecretMissing", "{planned:#}");
    assert_eq!(planned["refused"][0]["name"], "bad", "{planned:#}");
    assert_eq!(planned["devices"][0]["collisions"][0]["workloads"], json!(["new", "port"]));
    assert_eq!(planned["devices"][1]["otherSettings"], true, "{planned:#}");
    // Who may not read Secrets is told that nobody can say it.
    let seen = site.run_as(&viewer, &[&plan[..], &["table"]].concat()).await;
    let unknown = format!("?        Secret {}/nowhere: you may not read it", site.namespace);
    assert!(seen.out.contains(&unknown) && !seen.out.contains("missing "), "{seen:#?}");
    let before = is_told(&other, &["old", "port"]).await?;

    for object in &new {
        apply(&site, object).await?;
    }
    // What lacks its Secret is planned and not sent.
    let wanted = |device: &Value| -> Vec<String> {
        let after = device["after"].as_array().into_iter().flatten().filter_map(Value::as_str);
        after.filter(|name| *name != "lacks").map(str::to_owned).collect()
    };
    for (device, planned) in
        [&one, &other, &third].into_iter().zip(planned["devices"].as_array().unwrap())
    {
        assert_eq!(planned["name"], device.id());
        let wanted = wanted(planned);
        is_told(device, &wanted.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    }
    let after = is_told_what(&other, "the set's period", |told| period(told) == Some(5)).await?;
    assert_ne!(before.version, after.version);
    let again = site.run(&[&plan[..], &["json"]].concat()).await;
    assert!(again.err.contains("3 devices, 0 of them change."), "{again:#?}");
    Ok(())
}

#[tokio::test]
async fn what_is_rendered_is_what_the_device_is_told_but_for_the_masks() -> Result<()> {
    let site = EdgeCli::new().await?;
    let _operator = site.operator().await?;
    let viewer = account(&site, "flotta-edge-viewer-role").await?;
    let editor = account(&site, "flotta-edge-editor-role").await?;
    let one = site.registered("one", Manner::Flotta).await?;
    label(&site, "one", json!({ "app": "web", "flotta/member-of": "floor" })).await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "password" }, "stringData": { "p": "hunter2" },
    });
    let page = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "page" }, "data": { "index.html": "hello" },
    });
    let set = json!({ "heartbeat": { "periodSeconds": 7 } });
    let needs = json!({
        "env": [{ "name": "P", "valueFrom": { "secretKeyRef": { "name": "password", "key": "p" } } }],
        "envFrom": [{ "configMapRef": { "name": "page" } }],
    });
    for object in
        [secret, page, manifest("EdgeDeviceSet", "floor", &set), web("EdgeWorkload", "web", needs)]
    {
        apply(&site, &object).await?;
    }
    let is_all =
        |told: &DeviceConfigurationMessage| period(told) == Some(7) && !told.workloads.is_empty();
    let told = is_told_what(&one, "all of it", is_all).await?;
    assert!(serde_json::to_string(&told)?.contains("aHVudGVyMg=="), "the device has the password");
    let wanted = serde_json::to_value(masked(&told))?;

    let rendered = site.run(&["render", "one", "-o", "json"]).await;
    assert!(!rendered.err.contains("note:"), "{rendered:#?}");
    assert_eq!(json(&rendered.out)?, wanted);
    let yaml = site.run(&["render", "one"]).await.well();
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml)?, wanted);

    for kubeconfig in [&viewer, &editor] {
        let ended = site.run_as(kubeconfig, &["render", "one", "-o", "json"]).await;
        let note = format!("Secret {}/password you may not read", site.namespace);
        assert!(ended.err.contains(&note), "{ended:#?}");
        assert!(!ended.out.contains("hunter2") && !ended.out.contains("aHVudGVyMg"), "{ended:#?}");
        let mut partial = json(&ended.well())?;
        assert_eq!(partial["version"], "<not readable>");
        assert!(
            partial["workloads"][0]["configmaps"][0].as_str().unwrap().contains("<not readable>")
        );
        // All else is the same.
        partial["version"] = wanted["version"].clone();
        partial["secrets"] = wanted["secrets"].clone();
        partial["workloads"][0]["configmaps"] = wanted["workloads"][0]["configmaps"].clone();
        assert_eq!(partial, wanted);
    }
    site.run(&["render", "nobody"]).await.badly(1, "there is no EdgeDevice nobody");
    Ok(())
}

#[tokio::test]
async fn when_a_device_was_heard_of_last_is_seen_by_who_may_look_there() -> Result<()> {
    let site = EdgeCli::new().await?;
    let _operator = site.operator().await?;
    let viewer = account(&site, "flotta-edge-viewer-role").await?;
    let one = site.registered("one", Manner::Ours).await?;
    apply(&site, &web("EdgeWorkload", "one", json!({}))).await?;
    one.heartbeat().await?;
    let device = async || -> Result<Value> {
        Ok(json(&site.run_at_home(&["devices", "-o", "json"]).await.well())?["devices"][0].clone())
    };
    // The first line of the roll is written at once.
    let found = eventually("the roll", PATIENCE, async || {
        let device = device().await?;
        Ok(device["lastSeen"].is_string().then_some(device))
    })
    .await?;
    assert_eq!(found["name"], "one");
    let explained = site.run_at_home(&["explain", "device/one"]).await.well();
    assert!(explained.contains("\nlast seen: "), "{explained}");
    assert!(!explained.contains("last seen: not on record"), "{explained}");

    let home = format!("--operator-namespace={}", site.home);
    let blind = site.run_as(&viewer, &["devices", &home]).await;
    assert_eq!(blind.err.matches("note:").count(), 1, "{blind:#?}");
    assert!(
        blind.err.contains("LAST SEEN is unknown: you may not see the ConfigMaps"),
        "{blind:#?}"
    );
    let table = blind.well();
    let head: Vec<&str> = table.lines().next().unwrap_or_default().split("   ").collect();
    assert!(head.iter().any(|cell| cell.trim() == "LAST SEEN"), "{table}");
    let explained = site.run_as(&viewer, &["explain", "device/one", &home]).await.well();
    assert!(explained.contains("last seen: unknown: you may not see"), "{explained}");

    // The name is a device's and a workload's.
    site.run_at_home(&["explain", "one"]).await.badly(1, "write device/one or workload/one");
    let workload = site.run_at_home(&["explain", "workload/one"]).await.well();
    assert!(workload.starts_with("EdgeWorkload "), "{workload}");

    let offered = site.completed(&["status", "o"]).await;
    assert_eq!(offered, "one\n:4\n");
    Ok(())
}
