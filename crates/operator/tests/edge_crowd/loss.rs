//! Hundreds of devices on a net that loses.

use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_sim::PATIENCE;
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{
    DeviceLedger, DeviceOptions, Fleet, FleetOptions, Identity, Manner, Outcome, WireOptions,
};
use kube::api::ListParams;

/// A tenth of all requests is lost, and a tenth of all answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_bad_net_locks_nobody_out() -> Result<()> {
    let _alone = super::alone().await;
    let site = EdgeSite::new().await?;
    let _operator = site.operator().await?;
    let mut fleets = Vec::new();
    for (manner, prefix) in [(Manner::Flotta, "flotta"), (Manner::Ours, "ours")] {
        let wire = WireOptions { lose_requests: 100, lose_answers: 100, ..WireOptions::default() };
        let options = site.options(prefix, manner).await?;
        let device = DeviceOptions { poll: Duration::from_secs(1), wire, seed: 8, ..options };
        let (prefix, stagger) = (prefix.to_owned(), Duration::from_secs(4));
        fleets.push(Fleet::start(200, FleetOptions { prefix, stagger, device })?);
    }
    for fleet in &mut fleets {
        let served =
            |ledger: &DeviceLedger| ledger.registered() && ledger.configuration().is_some();
        fleet.wait_until("all to have a configuration", 3 * PATIENCE, served).await?;
        fleet.stop().await;
        let lost = fleet.counts().into_iter();
        let lost = lost.filter(|((_, outcome), _)| *outcome == Outcome::NoAnswer);
        assert!(lost.map(|(_, count)| count).sum::<u64>() > 200);
    }
    let found = site.devices().list(&ListParams::default()).await?.items;
    assert_eq!(found.len(), 400);
    for device in fleets.iter().flat_map(Fleet::devices) {
        device.set_wire(WireOptions::default());
        let told = device.with(Identity::Own).heartbeat().await?;
        assert_eq!(told.code(), 200, "{}: {:?}", device.id(), told.reason());
        let own = device.credential().context("a certificate")?;
        let used = own.shown().context("a key")?.leaf().key_fingerprint();
        // Whatever else it has been given a certificate for. The original's renews with the key it has.
        let given = device.ledger().certificates;
        for (back, earlier) in given.iter().rev().skip(1).enumerate() {
            let told = device.with(Identity::Older(back)).heartbeat().await?;
            let wanted = if earlier.fingerprint == used { 200 } else { 401 };
            assert_eq!(told.code(), wanted, "{}: {given:?}", device.id());
        }
        assert_eq!(site.keys(device.id()).await?["current"]["key"], used);
    }
    Ok(())
}
