//! The operator is killed before and after each of its writes while three devices are given two workloads and one of them a
//! bucket, and one of the workloads is deleted. It ends the same whoever died, and nobody is told to run less than the user asked
//! for.

use anyhow::{Context, Result};
use flashjob_sim::edge::buckets::Store;
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{Buckets, Device, Manner};
use flashjob_sim::{PATIENCE, eventually};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::crash::{self, Deaths, at_every_write_on, prepared};
use super::kit::{live, patch_device, quick_and_registered};
use super::storage;
use super::workload_kit::{
    condition, device, entry, label, make, never_told_to_run_less, nginx, objects, workload,
};

/// Of the writes of a play so many may be fewer in another: what two statuses would say, one may say.
const FEWER: usize = 10;
/// A bucket is claimed only for who asks.
const FLAGS: [&str; 2] = [crash::FLAGS[0], "--edge-auto-buckets=false"];

async fn two_workloads_and_a_bucket(site: &EdgeSite, deaths: &Deaths) -> Result<usize> {
    let operator = prepared(site, &FLAGS).await?;
    let mut devices = Vec::new();
    for (id, manner) in [("one", Manner::Ours), ("two", Manner::Flotta), ("three", Manner::Ours)] {
        devices.push(quick_and_registered(site, id, manner).await?);
    }
    patch_device(site, "one", json!({ "metadata": { "labels": { "app": "web" } } })).await?;
    drop(operator);
    let _lives: Vec<_> = devices.iter().map(live).collect();
    let (client, namespace) = (site.client.clone(), &site.namespace);
    let _buckets = Buckets::start(client, namespace, storage::SOON, Store::default());
    let deployments = objects(site, "EdgeDeployment", "edgedeployments");
    let workloads = objects(site, "EdgeWorkload", "edgeworkloads");
    let writes = deaths.during(site, &FLAGS, async {
        let all = nginx("all:1", json!({ "deviceSelector": {} }));
        make(&workloads, "EdgeWorkload", "all", all).await?;
        let asks = json!({ "spec": { "storage": { "s3": { "createOBC": true } } } });
        patch_device(site, "one", asks).await?;
        let web = json!({ "deviceSelector": { "matchLabels": { "app": "web" } } });
        make(&deployments, "EdgeDeployment", "web", nginx("web:1", web)).await?;
        for device in &devices {
            let wanted: &[&str] = if device.id() == "one" { &["all", "web"] } else { &["all"] };
            device
                .until("its workloads", PATIENCE, |ledger| {
                    ledger.configuration().is_some_and(|told| told.workloads == wanted)
                })
                .await?;
        }
        // Up to here nobody was to run less than before.
        never_told_to_run_less(&devices[0], &[]);
        workload(&deployments, "web", |found| condition(found, "Complete")["status"] == "True")
            .await?;
        deployments.delete("web", &DeleteParams::default()).await?;
        let is_so = |found: &Value| {
            let rest = found["status"]["workloads"].as_array().map(Vec::len) == Some(1);
            let labels = (label(found, "all"), label(found, "web")) == (Some("true"), None);
            rest && labels && entry(found, "all")["phase"] == "Running"
        };
        for id in ["one", "two", "three"] {
            let carried_out = |found: &Value| condition(found, "Synced")["status"] == "True";
            device(site, id, |found| is_so(found) && carried_out(found)).await?;
        }
        workload(&workloads, "all", |found| {
            condition(found, "Complete")["status"] == "True" && found["status"]["running"] == "3/3"
        })
        .await?;
        device(site, "one", |found| {
            let ready = condition(found, "StorageReady")["status"] == "True";
            ready && found["status"]["dataObc"] == "one"
        })
        .await?;
        has_a_bucket(&devices[0]).await
    });
    let writes = writes.await?;
    for device in &devices {
        let last = device.ledger().configuration().map(|told| told.workloads.clone());
        assert_eq!(last, Some(vec!["all".to_owned()]), "{:?}", device.ledger());
        assert_eq!(device.ledger().disconnects(), 0);
    }
    for device in &devices[1..] {
        never_told_to_run_less(device, &["all"]);
        assert!(device.bucket().is_none(), "{}", device.id());
    }
    has_a_claim_of_its_own(site, "one").await?;
    let left = eventually("the end of web", PATIENCE, async || {
        Ok(deployments.get_opt("web").await?.is_none().then_some(()))
    });
    left.await?;
    Ok(writes)
}

/// It is told of the bucket that was claimed for it.
async fn has_a_bucket(device: &Device) -> Result<()> {
    let name = format!("{}-bucket", device.id());
    let told = async || Ok(device.bucket().filter(|told| told.bucket_name == name).map(drop));
    eventually("its bucket", PATIENCE, told).await
}

/// There is one claim, which goes with its device.
async fn has_a_claim_of_its_own(site: &EdgeSite, device: &str) -> Result<()> {
    assert_eq!(storage::names_of_claims(site).await?, [device]);
    let owners = storage::claims(site).get(device).await?.metadata.owner_references;
    let owner = owners.unwrap_or_default().pop().context("no owner")?;
    assert_eq!(Some(owner.uid), site.devices().get(device).await?.metadata.uid);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workloads_and_a_bucket_come_to_three_devices_and_one_workload_goes() -> Result<()> {
    at_every_write_on(storage::site, FEWER, two_workloads_and_a_bucket).await
}
