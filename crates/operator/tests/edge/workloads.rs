//! What users write, devices run, and is told of it: the workflow of the design, step by step, under both names of each kind.

use std::sync::Mutex;

use anyhow::{Context, Result};
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{Device, Manner};
use flashjob_sim::{PATIENCE, eventually};
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::kit::patch_device;

/// The objects of one of Edge's kinds, whatever is in them.
pub fn objects(site: &EdgeSite, kind: &str, plural: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("management.project-flotta.io", "v1alpha1", kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, plural);
    Api::namespaced_with(site.client.clone(), &site.namespace, &resource)
}

pub fn nginx(image: &str, more: Value) -> Value {
    let mut spec = json!({
        "type": "pod",
        "pod": { "spec": { "containers": [{ "name": "web", "image": image }] } },
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}

pub async fn make(api: &Api<DynamicObject>, kind: &str, name: &str, spec: Value) -> Result<()> {
    let made = json!({
        "apiVersion": "management.project-flotta.io/v1alpha1", "kind": kind,
        "metadata": { "name": name }, "spec": spec,
    });
    api.create(&PostParams::default(), &serde_json::from_value(made)?).await?;
    Ok(())
}

async fn patch(api: &Api<DynamicObject>, name: &str, change: Value) -> Result<()> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await?;
    Ok(())
}

/// Waits until an EdgeDevice is as wished, and gives it.
pub async fn device(site: &EdgeSite, name: &str, wish: impl Fn(&Value) -> bool) -> Result<Value> {
    let read = async || Ok(serde_json::to_value(site.devices().get(name).await?)?);
    as_wished(name, read, wish).await
}

/// Waits until a workload is as wished, and gives it.
async fn workload(
    api: &Api<DynamicObject>,
    name: &str,
    wish: impl Fn(&Value) -> bool,
) -> Result<Value> {
    as_wished(name, async || Ok(serde_json::to_value(api.get(name).await?)?), wish).await
}

async fn as_wished(
    name: &str,
    read: impl AsyncFn() -> Result<Value>,
    wish: impl Fn(&Value) -> bool,
) -> Result<Value> {
    let last = Mutex::new(Value::Null);
    let what = format!("{name} to be as wished");
    let found = eventually(&what, PATIENCE, async || {
        let found = read().await?;
        let is_so = wish(&found);
        *last.lock().unwrap() = found.clone();
        Ok(is_so.then_some(found))
    })
    .await;
    found.with_context(|| format!("{:#}", last.lock().unwrap()))
}

fn phases(device: &Value, list: &str) -> Vec<(String, String)> {
    let entries = device["status"][list].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    entries.iter().map(|entry| (text(&entry["name"]), text(&entry["phase"]))).collect()
}

pub fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == type_);
    found.unwrap_or(&Value::Null)
}

fn label<'a>(device: &'a Value, workload: &str) -> Option<&'a str> {
    device["metadata"]["labels"][format!("workload/{workload}")].as_str()
}

/// What a device is told to run, by its own record, after it has asked once more.
async fn told(device: &Device) -> Result<Vec<String>> {
    device.fetch_configuration().await?;
    Ok(device.ledger().configuration().map(|known| known.workloads.clone()).unwrap_or_default())
}

/// Waits until it is told to run these.
pub async fn is_told(device: &Device, wanted: &[&str]) -> Result<()> {
    eventually(&format!("{wanted:?} on {}", device.id()), PATIENCE, async || {
        Ok((told(device).await? == wanted).then_some(()))
    })
    .await
}

async fn workflow(kind: &str, plural: &str) -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator().await?;
    let api = objects(&site, kind, plural);
    let one = site.registered("one", Manner::Ours).await?;
    let other = site.registered("other", Manner::Flotta).await?;
    patch_device(&site, "one", json!({ "metadata": { "labels": { "app": "web" } } })).await?;

    // Created, matched, referenced, Deploying, in the configuration.
    let selector = json!({ "deviceSelector": { "matchLabels": { "app": "web" } } });
    make(&api, kind, "nginx", nginx("nginx:1", selector)).await?;
    let found = device(&site, "one", |found| label(found, "nginx") == Some("true")).await?;
    assert_eq!(label(&found, "other"), None);
    let deploying = [("nginx".to_owned(), "Deploying".to_owned())];
    device(&site, "one", |found| {
        phases(found, "workloads") == deploying && phases(found, "deployments") == deploying
    })
    .await?;
    is_told(&one, &["nginx"]).await?;
    assert_eq!(told(&other).await?, Vec::<String>::new());
    let status = workload(&api, "nginx", |found| found["status"]["counts"]["matched"] == 1).await?;
    assert_eq!(condition(&status, "Accepted")["status"], "True", "{status:#}");
    assert_eq!(condition(&status, "Complete")["reason"], "Deploying", "{status:#}");

    // Running from a heartbeat.
    one.heartbeat().await?;
    let found = device(&site, "one", |found| {
        phases(found, "workloads") == [("nginx".to_owned(), "Running".to_owned())]
    })
    .await?;
    assert_eq!(condition(&found, "Ready")["status"], "True", "{found:#}");
    assert_eq!(condition(&found, "Synced")["status"], "True", "{found:#}");
    assert_eq!(found["status"]["running"], "1/1");
    workload(&api, "nginx", |found| {
        condition(found, "Complete")["status"] == "True" && found["status"]["running"] == "1/1"
    })
    .await?;

    // Edited: only the device concerned gets a new version.
    let version =
        |device: &Device| device.ledger().configuration().map(|known| known.version.clone());
    let before = [version(&one), version(&other)];
    patch(&api, "nginx", json!({ "spec": nginx("nginx:2", json!({})) })).await?;
    eventually("another version", PATIENCE, async || {
        one.fetch_configuration().await?;
        Ok((version(&one) != before[0]).then_some(()))
    })
    .await?;
    other.fetch_configuration().await?;
    assert_eq!(version(&other), before[1]);
    workload(&api, "nginx", |found| condition(found, "Complete")["reason"] == "Deploying").await?;
    one.heartbeat().await?;
    workload(&api, "nginx", |found| condition(found, "Complete")["status"] == "True").await?;

    // Label changed: it goes from one and comes to the other.
    patch_device(&site, "other", json!({ "metadata": { "labels": { "app": "web" } } })).await?;
    patch_device(&site, "one", json!({ "metadata": { "labels": { "app": "db" } } })).await?;
    is_told(&other, &["nginx"]).await?;
    is_told(&one, &[]).await?;
    device(&site, "one", |found| {
        label(found, "nginx").is_none() && phases(found, "workloads").is_empty()
    })
    .await?;

    // Removed, without a finalizer that anybody waits for.
    let made = api.get("nginx").await?;
    assert_eq!(made.finalizers(), Vec::<String>::new());
    api.delete("nginx", &DeleteParams::default()).await?;
    is_told(&other, &[]).await?;
    device(&site, "other", |found| {
        label(found, "nginx").is_none() && phases(found, "workloads").is_empty()
    })
    .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edge_deployment_from_its_making_to_its_end() -> Result<()> {
    workflow("EdgeDeployment", "edgedeployments").await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edge_workload_from_its_making_to_its_end() -> Result<()> {
    workflow("EdgeWorkload", "edgeworkloads").await
}
