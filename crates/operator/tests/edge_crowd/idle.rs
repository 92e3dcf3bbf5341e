//! A fleet at rest costs the cluster nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use flashjob_api::edge::EdgeDeployment;
use flashjob_sim::cluster::AuditEntry;
use flashjob_sim::edge::device::FIELD_POLL;
use flashjob_sim::edge::site::{EdgeSite, patiently};
use flashjob_sim::edge::{DeviceLedger, DeviceOptions, Fleet, FleetOptions, Manner, Operation};
use flashjob_sim::{PATIENCE, eventually};
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

/// Of each manner.
const EACH: usize = 500;
/// What each of them runs.
const WORKLOADS: [&str; 2] = ["web", "db"];
/// As in the field: the original's ask 200 times a second, each of ours is held for a minute, and beats in that time.
const POLL: Duration = FIELD_POLL;
/// They come in one after the other for so long.
const STAGGER: Duration = Duration::from_secs(20);
/// Each beats so often, once a minute.
const BEATS: u64 = 3;
/// On a busy machine some are refused again and again when all come in, and ours stays away for up to five minutes then.
const LONGEST: Duration = PATIENCE.saturating_mul(6);

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_devices_that_poll_and_beat_cost_no_write_but_the_roll() -> Result<()> {
    let _alone = super::alone().await;
    let site = EdgeSite::new().await?;
    let operator = site.operator().await?;
    for name in WORKLOADS {
        let spec = json!({ "containers": [{ "name": "main", "image": "nginx:1" }] });
        let made = json!({
            "apiVersion": "management.project-flotta.io/v1alpha1", "kind": "EdgeDeployment",
            "metadata": { "name": name },
            "spec": { "deviceSelector": {}, "type": "pod", "pod": { "spec": spec } },
        });
        site.cluster.apply_yaml_in(&site.namespace, &made.to_string()).await?;
    }
    let mut fleets = Vec::new();
    for (prefix, manner) in [("ours", Manner::Ours), ("theirs", Manner::Flotta)] {
        // On a busy machine the original's agent would give up, and register with one new key after the other.
        let deadline = PATIENCE;
        let device = DeviceOptions { poll: POLL, deadline, ..site.options(prefix, manner).await? };
        let prefix = prefix.to_owned();
        fleets.push(Fleet::start(EACH, FleetOptions { prefix, stagger: STAGGER, device })?);
    }
    let polled = |ledger: &DeviceLedger| {
        let told = |code| ledger.answered(Operation::FetchConfiguration, code);
        told(200) + told(304)
    };
    // The original's agent registers a second time two polls after the first.
    for (fleet, times) in fleets.iter().zip([2, 5]) {
        fleet.wait_until("enough polls", LONGEST, |now| polled(now) >= times).await?;
    }
    assert_eq!(site.devices().list(&ListParams::default()).await?.items.len(), 2 * EACH);
    all_run(&site, &fleets).await?;
    let mut before = 0;
    eventually("the last write", PATIENCE, async || {
        let now = writes(&site)?.len();
        tokio::time::sleep(POLL / 5).await;
        Ok((std::mem::replace(&mut before, now) == now).then_some(()))
    })
    .await?;

    let beaten = |ledger: &DeviceLedger| ledger.answered(Operation::Heartbeat, 200);
    let beats: BTreeMap<_, _> =
        ledgers(&fleets).map(|now| (now.device.clone(), beaten(&now))).collect();
    all(&fleets, |now| beaten(now) >= beats[&now.device] + BEATS).await?;
    let mut after = writes(&site)?.split_off(before);
    let is_roll = |write: &AuditEntry| {
        write.resource == "configmaps" && write.name.as_deref() == Some("edge-roll-0")
    };
    let rolls = after.extract_if(.., |write| is_roll(write)).count();
    assert_eq!(after, [], "{}", operator.log());
    assert!(rolls <= 1, "it is written every five minutes: {rolls}");
    for ledger in ledgers(&fleets) {
        assert_eq!((ledger.disconnects(), ledger.certificates.len() < 3), (0, true), "{ledger:?}");
    }
    Ok(())
}

/// Has each say that it runs all that it is to run, and waits until that stands in the statuses.
async fn all_run(site: &EdgeSite, fleets: &[Fleet]) -> Result<()> {
    let wanted = WORKLOADS.len();
    let has = |now: &DeviceLedger| {
        now.configuration().is_some_and(|known| known.workloads.len() == wanted)
    };
    all(fleets, has).await?;
    for device in fleets.iter().flat_map(Fleet::devices) {
        patiently(async || device.heartbeat().await).await?;
    }
    eventually("all workloads to run", LONGEST, async || {
        let deployments: Api<EdgeDeployment> = site.api();
        let found = deployments.list(&ListParams::default()).await?.items;
        let running = |deployment: &EdgeDeployment| {
            let status = json!(deployment.status);
            status["counts"]["running"] == 2 * EACH && status["counts"]["matched"] == 2 * EACH
        };
        Ok((found.len() == wanted && found.iter().all(running)).then_some(()))
    })
    .await
}

fn ledgers(fleets: &[Fleet]) -> impl Iterator<Item = DeviceLedger> {
    fleets.iter().flat_map(Fleet::ledgers)
}

async fn all(fleets: &[Fleet], wish: impl Fn(&DeviceLedger) -> bool) -> Result<()> {
    for fleet in fleets {
        fleet.wait_until("enough answers", LONGEST, &wish).await?;
    }
    Ok(())
}

/// What the operator has written so far, apart from its lease.
fn writes(site: &EdgeSite) -> Result<Vec<AuditEntry>> {
    let mut writes = site.operators.writes(&site.home)?;
    writes.extend(site.operators.writes(&site.namespace)?);
    writes.retain(|write| write.resource != "leases");
    writes.sort_by_key(|write| write.at);
    Ok(writes)
}
