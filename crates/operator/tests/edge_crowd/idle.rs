//! A fleet at rest costs the cluster nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use flashjob_sim::cluster::AuditEntry;
use flashjob_sim::edge::device::FIELD_POLL;
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{DeviceLedger, DeviceOptions, Fleet, FleetOptions, Manner, Operation};
use flashjob_sim::{PATIENCE, eventually};
use kube::api::ListParams;

/// Of each manner.
const EACH: usize = 500;
/// As in the field: the original's ask 200 times a second, each of ours is held for a minute, and beats in that time.
const POLL: Duration = FIELD_POLL;
/// They come in one after the other for so long.
const STAGGER: Duration = Duration::from_secs(20);
const LONGEST: Duration = PATIENCE.saturating_mul(3);

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_devices_that_poll_cost_no_write() -> Result<()> {
    let _alone = super::alone().await;
    let site = EdgeSite::new().await?;
    let operator = site.operator().await?;
    let mut fleets = Vec::new();
    for (prefix, manner) in [("ours", Manner::Ours), ("theirs", Manner::Flotta)] {
        let device = DeviceOptions { poll: POLL, ..site.options(prefix, manner).await? };
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
    all(&fleets, |now| beaten(now) > beats[&now.device]).await?;
    let after = writes(&site)?;
    assert_eq!(&after[before..], [], "{}", operator.log());
    for ledger in ledgers(&fleets) {
        assert_eq!((ledger.disconnects(), ledger.certificates.len() < 3), (0, true), "{ledger:?}");
    }
    Ok(())
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
