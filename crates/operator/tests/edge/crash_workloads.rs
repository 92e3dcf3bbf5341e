//! The operator is killed before and after each of its writes while three devices are given two workloads and one of them a
//! bucket, and one of the workloads is deleted. It ends the same whoever died, and nobody is told to run less than the user asked
//! for.

use anyhow::Result;
use flashjob_sim::edge::Manner;
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::{PATIENCE, eventually};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::crash::{Deaths, FLAGS, at_every_write_on, prepared};
use super::kit::{live, patch_device, quick_and_registered};
use super::storage::{self, SOON, buckets, has_its_bucket, names_of_claims};
use super::workload_kit::{
    condition, device, entry, label, make, never_told_to_run_less, nginx, objects, workload,
};

/// Of the writes of a play so many may be fewer in another: what two statuses would say, one may say.
const FEWER: usize = 8;

async fn two_workloads(site: &EdgeSite, deaths: &Deaths) -> Result<usize> {
    let operator = prepared(site, &FLAGS).await?;
    let mut devices = Vec::new();
    for (id, manner) in [("one", Manner::Ours), ("two", Manner::Flotta), ("three", Manner::Ours)] {
        devices.push(quick_and_registered(site, id, manner).await?);
    }
    patch_device(site, "one", json!({ "metadata": { "labels": { "app": "web" } } })).await?;
    drop(operator);
    let _lives: Vec<_> = devices.iter().map(live).collect();
    let _buckets = buckets(site, SOON);
    let deployments = objects(site, "EdgeDeployment", "edgedeployments");
    let workloads = objects(site, "EdgeWorkload", "edgeworkloads");
    let writes = deaths.during(site, &FLAGS, async {
        let all = nginx("all:1", json!({ "deviceSelector": {} }));
        make(&workloads, "EdgeWorkload", "all", all).await?;
        let web = json!({ "deviceSelector": { "matchLabels": { "app": "web" } } });
        make(&deployments, "EdgeDeployment", "web", nginx("web:1", web)).await?;
        let claimed = json!({ "spec": { "storage": { "s3": { "createOBC": true } } } });
        patch_device(site, "three", claimed).await?;
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
        has_its_bucket(site, "three").await?;
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
        Ok(())
    });
    let writes = writes.await?;
    for device in &devices {
        let last = device.ledger().configuration().map(|told| told.workloads.clone());
        assert_eq!(last, Some(vec!["all".to_owned()]), "{:?}", device.ledger());
        assert_eq!(device.ledger().disconnects(), 0);
    }
    assert_eq!(names_of_claims(site).await?, ["three"]);
    for device in &devices[1..] {
        never_told_to_run_less(device, &["all"]);
    }
    let left = eventually("the end of web", PATIENCE, async || {
        Ok(deployments.get_opt("web").await?.is_none().then_some(()))
    });
    left.await?;
    Ok(writes)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workloads_and_a_bucket_come_to_three_devices_and_one_workload_goes() -> Result<()> {
    // Who asks for a bucket has one, and nobody else.
    let site = async || {
        let mut site = storage::site().await?;
        site.operators = site.operators.with_env("OBC_AUTO_CREATE", "false");
        Ok(site)
    };
    at_every_write_on(site, FEWER, two_workloads).await
}
