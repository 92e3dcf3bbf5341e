//! A CRD of workloads that is deleted and put back: all workloads of the kind go with it, and nobody has said that devices shall
//! run less. It is the same whether one process lives through it or another one finds a CRD without objects.

use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_sim::cluster::Cluster;
use flashjob_sim::edge::site::{EdgeSite, INSTALL};
use flashjob_sim::edge::{Device, DeviceLedger, Manner, Operation};
use flashjob_sim::{PATIENCE, eventually, programs};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::sleep;

use super::kit::{beats, live, quick_and_registered};
use super::workload_kit::{
    DEPLOYMENT, FLAGS, WORKLOAD, api, condition, device, for_all, image, is_sent, is_told, label,
    make_for_all, never_told_to_run_less, patch, runs, workload,
};

const CRD: &str = "edgedeployments.management.project-flotta.io";

fn crds(site: &EdgeSite) -> Api<CustomResourceDefinition> {
    Api::all(site.client.clone())
}

/// Deletes the CRD of EdgeDeployments, and waits until it is gone with all that there are.
pub async fn take_crd(site: &EdgeSite) -> Result<()> {
    crds(site).delete(CRD, &DeleteParams::default()).await?;
    let gone = async || Ok(crds(site).get_opt(CRD).await?.is_none().then_some(()));
    eventually("the end of the CRD", PATIENCE, gone).await
}

/// Puts it back, without any object, and waits until it is served.
pub async fn put_crd_back(site: &EdgeSite) -> Result<()> {
    let mut documents = INSTALL.split("\n---\n");
    let crd = documents.find(|document| document.contains(&format!("name: {CRD}")));
    site.cluster.apply_yaml(crd.context("the CRD")?).await?;
    let deployments = api(site, DEPLOYMENT);
    let served = async || Ok(deployments.list(&Default::default()).await.ok());
    let found = eventually("the CRD to be served", PATIENCE, served).await?;
    assert_eq!(found.items.len(), 0);
    Ok(())
}

/// Makes a deployment for all devices, as soon as the API server takes it.
pub async fn bring_back(site: &EdgeSite, name: &str, image: &str) -> Result<()> {
    let made = async || Ok(make_for_all(site, DEPLOYMENT, name, image).await.ok());
    eventually(&format!("{name} to be back"), PATIENCE, made).await
}

/// Waits until a device was told to run just this.
async fn until_told(device: &Device, wanted: &[&str]) -> Result<()> {
    let is_so =
        |ledger: &DeviceLedger| ledger.configuration().is_some_and(|told| told.workloads == wanted);
    device.until(&format!("{wanted:?}"), PATIENCE, is_so).await
}

/// A cluster of its own, the deployments `a` and `b` and the workload `c` for all, and a device of each manner that runs them.
async fn fleet(site: &EdgeSite) -> Result<[Device; 2]> {
    for name in ["a", "b"] {
        make_for_all(site, DEPLOYMENT, name, "app:1").await?;
    }
    make_for_all(site, WORKLOAD, "c", "app:1").await?;
    let devices = [
        quick_and_registered(site, "ours", Manner::Ours).await?,
        quick_and_registered(site, "flotta", Manner::Flotta).await?,
    ];
    for device in &devices {
        is_told(device, &["a", "b", "c"]).await?;
    }
    Ok(devices)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crd_of_workloads_that_is_deleted_and_put_back_takes_nothing_away() -> Result<()> {
    let cluster = Cluster::start().await?;
    let site = EdgeSite::on(&cluster, programs::built("flashjob-operator").await?).await?;
    // Lists are made anew all the time, so that one comes at every moment.
    let flags = [FLAGS[0], "--resync-seconds=1"];
    let _operator = site.operator_with(&flags, None).await?;
    let devices = fleet(&site).await?;
    let lives = devices.each_ref().map(live);
    for device in &devices {
        runs(&site, device.id(), &["a", "b", "c"]).await?;
    }
    let before = devices.each_ref().map(|device| device.ledger().configurations.len());

    take_crd(&site).await?;
    sleep(Duration::from_secs(3)).await;
    for device in &devices {
        beats(device).await?;
    }
    put_crd_back(&site).await?;
    // Lists of it are complete and empty.
    sleep(Duration::from_secs(5)).await;
    for device in &devices {
        beats(device).await?;
    }
    for name in ["a", "b"] {
        bring_back(&site, name, "app:1").await?;
    }
    let api = api(&site, DEPLOYMENT);
    workload(&api, "a", |found| condition(found, "Complete")["status"] == "True").await?;
    sleep(Duration::from_secs(3)).await;
    for device in &devices {
        beats(device).await?;
        never_told_to_run_less(device, &["a", "b", "c"]);
    }
    let after = devices.each_ref().map(|device| device.ledger().configurations.len());
    assert_eq!(after, before, "nothing new was sent to anybody");

    // What somebody deletes from now on goes.
    api.delete("a", &DeleteParams::default()).await?;
    for device in &devices {
        until_told(device, &["b", "c"]).await?;
    }
    drop(lives);
    Ok(())
}

/// Waits until a device that lives by itself was answered that it keeps what it has, a few times.
async fn is_kept(device: &Device) -> Result<()> {
    let code = if device.options().manner == Manner::Ours { 304 } else { 503 };
    let kept = |ledger: &DeviceLedger| ledger.answered(Operation::FetchConfiguration, code);
    let before = device.read(kept);
    device.until("to keep what it has", PATIENCE, |now| kept(now) >= before + 2).await
}

/// Waits until the CRD as it is now is the one that everything was accounted for with.
async fn is_on_record(site: &EdgeSite) -> Result<()> {
    let uid = crds(site).get(CRD).await?.uid();
    let maps: Api<ConfigMap> = Api::namespaced(site.client.clone(), &site.home);
    eventually("the CRD to be on record", PATIENCE, async || {
        let data = maps.get_opt("edge-crds").await?.and_then(|map| map.data).unwrap_or_default();
        Ok((data.get("edgedeployments") == uid.as_ref()).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_starts_when_a_crd_is_back_and_its_objects_are_not_does_not_believe_the_empty_list()
-> Result<()> {
    let cluster = Cluster::start().await?;
    let site = EdgeSite::on(&cluster, programs::built("flashjob-operator").await?).await?;
    let mut operator = site.operator_with(&FLAGS, None).await?;
    let devices = fleet(&site).await?;
    let _lives = devices.each_ref().map(live);
    for device in &devices {
        runs(&site, device.id(), &["a", "b", "c"]).await?;
    }
    is_on_record(&site).await?;

    operator.kill();
    take_crd(&site).await?;
    put_crd_back(&site).await?;
    operator = site.operator_with(&FLAGS, None).await?;
    for device in &devices {
        is_kept(device).await?;
        let said = |found: &_| condition(found, "Configured")["reason"] == "WorkloadMissing";
        let found = device_status(&site, device, said).await?;
        let labels = ["a", "b", "c"].map(|name| label(&found, name).is_some());
        assert_eq!(labels, [true; 3], "{found:#}");
    }
    // Somebody goes on with what is there, and brings back one after the other. Each time another process looks at it.
    patch(&api(&site, WORKLOAD), "c", json!({ "spec": for_all("app:2") })).await?;
    bring_back(&site, "a", "app:1").await?;
    operator.kill();
    operator = site.operator_with(&FLAGS, None).await?;
    for device in &devices {
        is_kept(device).await?;
    }
    bring_back(&site, "b", "app:1").await?;
    for device in &devices {
        let configured = |found: &_| condition(found, "Configured")["status"] == "True";
        device_status(&site, device, configured).await?;
    }
    is_sent(&devices[1], "the edit", |sent| image(sent, "c").as_deref() == Some("app:2")).await?;
    for device in &devices {
        until_told(device, &["a", "b", "c"]).await?;
        never_told_to_run_less(device, &["a", "b", "c"]);
    }

    // What somebody deletes from now on goes, whether a process is there to see it or not.
    is_on_record(&site).await?;
    api(&site, DEPLOYMENT).delete("a", &DeleteParams::default()).await?;
    for device in &devices {
        until_told(device, &["b", "c"]).await?;
    }
    operator.kill();
    api(&site, DEPLOYMENT).delete("b", &DeleteParams::default()).await?;
    let _operator = site.operator_with(&FLAGS, None).await?;
    for device in &devices {
        until_told(device, &["c"]).await?;
    }
    Ok(())
}

async fn device_status(
    site: &EdgeSite,
    of: &Device,
    wish: impl Fn(&serde_json::Value) -> bool,
) -> Result<serde_json::Value> {
    device(site, of.id(), wish).await
}
