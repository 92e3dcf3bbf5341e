//! What tests of workloads, sets and what these are made of do alike.

use std::sync::Mutex;

use anyhow::{Context, Result, ensure};
use flashjob_api::edge::wire::{DeviceConfigurationMessage, Message};
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{Device, Manner};
use flashjob_sim::{PATIENCE, eventually};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

/// Nobody is to wait until the lease of a dead process has run out.
pub const FLAGS: [&str; 1] = ["--leader-elect=false"];

/// Kind and plural of what users want to run, under both names.
pub type Kind = (&'static str, &'static str);
pub const DEPLOYMENT: Kind = ("EdgeDeployment", "edgedeployments");
pub const WORKLOAD: Kind = ("EdgeWorkload", "edgeworkloads");

pub fn api(site: &EdgeSite, (kind, plural): Kind) -> Api<DynamicObject> {
    objects(site, kind, plural)
}

/// A workload for every device.
pub fn for_all(image: &str) -> Value {
    nginx(image, json!({ "deviceSelector": {} }))
}

pub async fn make_for_all(site: &EdgeSite, kind: Kind, name: &str, image: &str) -> Result<()> {
    make(&api(site, kind), kind.0, name, for_all(image)).await
}

/// Waits until the status of an EdgeDevice says that these run.
pub async fn runs(site: &EdgeSite, name: &str, workloads: &[&str]) -> Result<()> {
    let running = |found: &Value, workload: &str| entry(found, workload)["phase"] == "Running";
    device(site, name, |found| workloads.iter().all(|name| running(found, name))).await?;
    Ok(())
}

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

pub async fn patch(api: &Api<DynamicObject>, name: &str, change: Value) -> Result<()> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await?;
    Ok(())
}

/// Waits until an EdgeDevice is as wished, and gives it.
pub async fn device(site: &EdgeSite, name: &str, wish: impl Fn(&Value) -> bool) -> Result<Value> {
    let read = async || Ok(serde_json::to_value(site.devices().get(name).await?)?);
    as_wished(name, read, wish).await
}

/// Waits until a workload is as wished, and gives it.
pub async fn workload(
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

pub fn phases(device: &Value, list: &str) -> Vec<(String, String)> {
    let entries = device["status"][list].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    entries.iter().map(|entry| (text(&entry["name"]), text(&entry["phase"]))).collect()
}

pub fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == type_);
    found.unwrap_or(&Value::Null)
}

pub fn label<'a>(device: &'a Value, workload: &str) -> Option<&'a str> {
    device["metadata"]["labels"][format!("workload/{workload}")].as_str()
}

/// What a device is told to run, by its own record, after it has asked once more.
pub async fn told(device: &Device) -> Result<Vec<String>> {
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

/// What a device is sent when it asks and says of nothing that it has it. Flotta's agent never does.
pub async fn content(device: &Device) -> Result<DeviceConfigurationMessage> {
    let answer = device.fetch_configuration().await?;
    ensure!(answer.code() == 200, "{}: {answer:?}", device.id());
    Ok(serde_json::from_value(answer.json::<Message>()?.content)?)
}

/// Waits until what it is sent is as wished, and gives it.
pub async fn is_sent(
    device: &Device,
    what: &str,
    wish: impl Fn(&DeviceConfigurationMessage) -> bool,
) -> Result<DeviceConfigurationMessage> {
    let what = format!("{what} on {}", device.id());
    eventually(&what, PATIENCE, async || Ok(content(device).await.ok().filter(&wish))).await
}

/// The version that a device has.
pub fn version(device: &Device) -> Option<String> {
    device.ledger().configuration().map(|known| known.version.clone())
}

/// The entry of a workload in the status of an EdgeDevice.
pub fn entry<'a>(device: &'a Value, workload: &str) -> &'a Value {
    let entries = device["status"]["workloads"].as_array();
    let found = entries.into_iter().flatten().find(|entry| entry["name"] == workload);
    found.unwrap_or(&Value::Null)
}

/// Never, since it was told to run these, was the device told to run less than before.
pub fn never_told_to_run_less(device: &Device, first: &[&str]) {
    let ledger = device.ledger();
    let has_all = |told: &[String], all: &[String]| all.iter().all(|name| told.contains(name));
    let first: Vec<String> = first.iter().map(|name| (*name).to_owned()).collect();
    let told = ledger.configurations.iter().map(|told| &told.workloads);
    let told: Vec<_> = told.skip_while(|told| !has_all(told, &first)).collect();
    assert!(!told.is_empty(), "it was never told {first:?}: {ledger:?}");
    for pair in told.windows(2) {
        assert!(has_all(pair[1], pair[0]), "{pair:?}: {ledger:?}");
    }
    assert_eq!((ledger.disconnects(), &ledger.unreadable), (0, &vec![]), "{ledger:?}");
}

/// Devices run this image in this workload.
pub fn image(of: &DeviceConfigurationMessage, workload: &str) -> Option<String> {
    let found = of.workloads.iter().find(|found| found.name == workload)?;
    let pod: Value = serde_saphyr::from_str(&found.specification).ok()?;
    let containers = pod.pointer("/containers").or_else(|| pod.pointer("/spec/containers"))?;
    Some(containers[0]["image"].as_str()?.to_owned())
}

/// What a device that has a configuration is answered: nothing new, whether it says that it has it or not.
pub async fn keeps(device: &Device) -> Result<()> {
    let wanted = if device.options().manner == Manner::Ours { 304 } else { 503 };
    let what = format!("{wanted} for {}", device.id());
    eventually(&what, PATIENCE, async || {
        let code = device.fetch_configuration().await?.code();
        assert!([wanted, 503].contains(&code), "{}: {code}", device.id());
        Ok((code == wanted).then_some(()))
    })
    .await
}
