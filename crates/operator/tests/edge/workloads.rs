//! What users write, devices run, and is told of it: the workflow of the design, step by step, under both names of each kind.

use anyhow::Result;
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{Device, Manner};
use flashjob_sim::{PATIENCE, eventually};
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::kit::patch_device;
use super::workload_kit::{
    condition, device, is_told, label, make, nginx, objects, patch, phases, told, workload,
};

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

/// Nobody can be sent what is refused, so who runs it keeps it; but not for longer than it is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_workload_that_was_refused_after_an_edit_goes_when_it_is_deleted() -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator().await?;
    let api = objects(&site, "EdgeWorkload", "edgeworkloads");
    let one = site.registered("one", Manner::Flotta).await?;
    make(&api, "EdgeWorkload", "nginx", nginx("nginx:1", json!({ "deviceSelector": {} }))).await?;
    is_told(&one, &["nginx"]).await?;
    let probe = json!({ "spec": { "pod": { "spec": { "containers": [{ "name": "web", "image": "nginx:1", "livenessProbe": {} }] } } } });
    patch(&api, "nginx", probe).await?;
    workload(&api, "nginx", |found| condition(found, "Accepted")["status"] == "False").await?;
    device(&site, "one", |found| condition(found, "Configured")["status"] == "False").await?;
    is_told(&one, &["nginx"]).await?;
    api.delete("nginx", &DeleteParams::default()).await?;
    is_told(&one, &[]).await?;
    device(&site, "one", |found| condition(found, "Configured")["status"] == "True").await?;
    Ok(())
}

/// A device that is told to stop something and to run it again says the same before and after, and that counts anew.
#[tokio::test(flavor = "multi_thread")]
async fn a_workload_that_goes_and_comes_back_is_complete_again() -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator().await?;
    let api = objects(&site, "EdgeWorkload", "edgeworkloads");
    let one = site.registered("one", Manner::Ours).await?;
    let everywhere = nginx("nginx:1", json!({ "deviceSelector": {} }));
    let complete = |found: &Value| condition(found, "Complete")["status"] == "True";
    make(&api, "EdgeWorkload", "nginx", everywhere.clone()).await?;
    is_told(&one, &["nginx"]).await?;
    one.heartbeat().await?;
    workload(&api, "nginx", complete).await?;
    for _ in 0..2 {
        api.delete("nginx", &DeleteParams::default()).await?;
        is_told(&one, &[]).await?;
        make(&api, "EdgeWorkload", "nginx", everywhere.clone()).await?;
        is_told(&one, &["nginx"]).await?;
        let again = async || {
            one.heartbeat().await?;
            Ok(complete(&serde_json::to_value(api.get("nginx").await?)?).then_some(()))
        };
        eventually("the workload to be complete again", PATIENCE, again).await?;
    }
    Ok(())
}
