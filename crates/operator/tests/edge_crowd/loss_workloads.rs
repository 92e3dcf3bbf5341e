//! Workloads that come, change and go while the net loses a tenth of all requests and a tenth of all answers, and is late with
//! the rest: right in the end, and never less than users asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_api::edge::{EdgeDeployment, EdgeDevice, EdgeWorkload};
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{
    Device, DeviceLedger, DeviceOptions, Fleet, FleetOptions, Manner, Outcome, WireOptions,
};
use flashjob_sim::{PATIENCE, clock, eventually};
use jiff::Timestamp;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

/// Of each manner.
const EACH: usize = 15;
const LONGEST: Duration = PATIENCE.saturating_mul(3);

/// Up to 400 ms late, 200 ms on average.
fn bad() -> WireOptions {
    let delay = Duration::from_millis(400);
    WireOptions { lose_requests: 100, lose_answers: 100, delay, ..WireOptions::default() }
}

/// Makes a workload for every device, or edits it.
async fn apply(site: &EdgeSite, kind: &str, name: &str, image: &str) -> Result<()> {
    let spec = json!({ "containers": [{ "name": "main", "image": image }] });
    let made = json!({
        "apiVersion": "management.project-flotta.io/v1alpha1", "kind": kind, "metadata": { "name": name },
        "spec": { "deviceSelector": {}, "type": "pod", "pod": { "spec": spec } },
    });
    site.cluster.apply_yaml_in(&site.namespace, &made.to_string()).await
}

fn tells(ledger: &DeviceLedger, wanted: &[&str]) -> bool {
    ledger.configuration().is_some_and(|told| told.workloads == wanted)
}

/// Goes on when a third of all devices have got this far, so that the others are still at what was before.
async fn some_are_told(fleets: &[Fleet], wanted: &[&str]) -> Result<()> {
    eventually(&format!("{wanted:?} on some"), LONGEST, async || {
        let told = fleets.iter().map(|fleet| fleet.how_many(|now| tells(now, wanted)));
        Ok((told.sum::<usize>() >= 2 * EACH / 3).then_some(()))
    })
    .await
}

/// What was taken from a device was deleted before, and by the user.
fn lost_nothing_else(ledger: &DeviceLedger, deleted: &BTreeMap<&str, Timestamp>) {
    for pair in ledger.configurations.windows(2) {
        let [before, after] = [&pair[0], &pair[1]].map(|told| BTreeSet::from_iter(&told.workloads));
        for lost in before.difference(&after) {
            let at = deleted.get(lost.as_str());
            assert!(at.is_some_and(|at| *at <= pair[1].at), "{lost}: {pair:?}");
        }
        for new in after.difference(&before) {
            let at = deleted.get(new.as_str());
            let was_there = ledger
                .configurations
                .iter()
                .any(|told| told.at < pair[1].at && told.workloads.contains(*new));
            assert!(at.is_none() || !was_there, "{new} has come back: {pair:?}");
        }
    }
    assert_eq!((ledger.disconnects(), &ledger.unreadable), (0, &vec![]), "{ledger:?}");
}

/// By its status it runs just these, in the version that it was told last.
fn is_right(found: &EdgeDevice, device: &Device, wanted: &[&str]) -> bool {
    let status = json!(found.status);
    let holds = |type_: &str| {
        let all = status["conditions"].as_array();
        let said = all.into_iter().flatten().find(|condition| condition["type"] == type_);
        said.is_some_and(|said| said["status"] == "True")
    };
    let entries = |list: &str| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let entries = status[list].as_array().into_iter().flatten();
        entries.map(|entry| (text(&entry["name"]), text(&entry["phase"]))).collect()
    };
    let running: Vec<_> =
        wanted.iter().map(|name| ((*name).to_owned(), "Running".to_owned())).collect();
    let version = device.read(|ledger| ledger.configuration().map(|told| told.version.clone()));
    let labels = found.labels().keys().filter_map(|label| label.strip_prefix("workload/"));
    ["Ready", "Synced", "Configured"].into_iter().all(holds)
        && entries("workloads") == running
        && entries("deployments") == running
        && status["lastSyncedResourceVersion"] == json!(version)
        && labels.eq(wanted.iter().copied())
}

async fn all_are_right(site: &EdgeSite, fleets: &[Fleet], wanted: &[&str]) -> Result<()> {
    let devices: Vec<_> = fleets.iter().flat_map(Fleet::devices).collect();
    eventually("all statuses to be right", LONGEST, async || {
        let found = site.devices().list(&ListParams::default()).await?.items;
        let of = |device: &Device| found.iter().find(|found| found.name_any() == device.id());
        let right =
            |device: &&Device| of(device).is_some_and(|found| is_right(found, device, wanted));
        Ok((found.len() == devices.len() && devices.iter().all(right)).then_some(()))
    })
    .await?;
    let deployments: Api<EdgeDeployment> = site.api();
    eventually("all workloads to run", LONGEST, async || {
        let found = deployments.list(&ListParams::default()).await?.items;
        let runs = |workload: &EdgeDeployment| {
            let counts = &json!(workload.status)["counts"];
            counts["running"] == 2 * EACH && counts["matched"] == 2 * EACH
        };
        Ok((found.len() == wanted.len() && found.iter().all(runs)).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_bad_net_workloads_come_change_and_go_and_are_right_in_the_end() -> Result<()> {
    let _alone = super::alone().await;
    let site = EdgeSite::new().await?;
    let operator = site.operator().await?;
    let mut fleets = Vec::new();
    for (manner, prefix) in [(Manner::Flotta, "flotta"), (Manner::Ours, "ours")] {
        let options = site.options(prefix, manner).await?;
        let device =
            DeviceOptions { poll: Duration::from_secs(1), wire: bad(), seed: 9, ..options };
        let (prefix, stagger) = (prefix.to_owned(), Duration::from_secs(2));
        fleets.push(Fleet::start(EACH, FleetOptions { prefix, stagger, device })?);
    }
    for fleet in &fleets {
        fleet.wait_until("a configuration", LONGEST, |now| now.configuration().is_some()).await?;
    }
    // Both names of the kind: two watches, which may come in any order.
    apply(&site, "EdgeDeployment", "a", "app:1").await?;
    apply(&site, "EdgeWorkload", "b", "app:1").await?;
    some_are_told(&fleets, &["a", "b"]).await?;
    apply(&site, "EdgeDeployment", "a", "app:2").await?;
    apply(&site, "EdgeDeployment", "c", "app:2").await?;
    some_are_told(&fleets, &["a", "b", "c"]).await?;
    let deleted = BTreeMap::from([("b", clock::now())]);
    site.api::<EdgeWorkload>().delete("b", &DeleteParams::default()).await?;
    some_are_told(&fleets, &["a", "c"]).await?;
    for image in ["app:3", "app:4"] {
        apply(&site, "EdgeDeployment", "a", image).await?;
        apply(&site, "EdgeDeployment", "c", image).await?;
    }
    all_are_right(&site, &fleets, &["a", "c"]).await.with_context(|| operator.log())?;

    for fleet in &mut fleets {
        fleet.stop().await;
        let lost = fleet.counts().into_iter().filter(|((_, end), _)| *end == Outcome::NoAnswer);
        let lost: u64 = lost.map(|(_, count)| count).sum();
        assert!(lost > 10 * EACH as u64, "the net was too good: {lost}");
    }
    for device in fleets.iter().flat_map(Fleet::devices) {
        let ledger = device.ledger();
        lost_nothing_else(&ledger, &deleted);
        // On a good net there is nothing newer.
        device.set_wire(WireOptions::default());
        device.fetch_configuration().await?;
        assert_eq!(device.ledger().configurations, ledger.configurations);
    }
    let flotta = fleets[0].devices().first().context("a device")?;
    let sent = String::from_utf8(flotta.fetch_configuration().await?.body.to_vec())?;
    assert_eq!((sent.matches("app:4").count(), sent.matches("app:").count()), (2, 2), "{sent}");
    Ok(())
}
