//! How long a device may take for a new configuration before that is worth a word.

use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_sim::edge::Manner;
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::{PATIENCE, clock, eventually};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::heartbeats::status_writes;
use super::workload_kit::{
    DEPLOYMENT, api, condition, device, for_all, is_told, make_for_all, patch, runs,
};

/// A minute. Times in a status have whole seconds.
const AT_LEAST: SignedDuration = SignedDuration::from_secs(59);

fn synced(found: &Value) -> (&Value, Option<Timestamp>) {
    let said = condition(found, "Synced");
    let at = said["lastTransitionTime"].as_str().and_then(|at| at.parse().ok());
    (&said["status"], at)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_is_behind_when_a_minute_has_passed_and_that_is_one_write() -> Result<()> {
    let site = EdgeSite::new().await?;
    let operator = site.operator().await?;
    make_for_all(&site, DEPLOYMENT, "web", "app:1").await?;
    let slow = site.registered("slow", Manner::Ours).await?;
    let quick = site.registered("quick", Manner::Ours).await?;
    let mut before = Vec::new();
    for of in [&slow, &quick] {
        is_told(of, &["web"]).await?;
        of.heartbeat().await?;
        runs(&site, of.id(), &["web"]).await?;
        before.push(device(&site, of.id(), |found| synced(found).0 == "True").await?);
    }
    let writes = status_writes(&site, "slow").await?.len();

    let edited = clock::now();
    patch(&api(&site, DEPLOYMENT), "web", json!({ "spec": for_all("app:2") })).await?;
    let version = quick.ledger().configuration().map(|known| known.version.clone());
    eventually("the edit", PATIENCE, async || {
        quick.fetch_configuration().await?;
        let now = quick.ledger().configuration().map(|known| known.version.clone());
        Ok((now != version).then_some(()))
    })
    .await?;
    quick.heartbeat().await?;
    // It reports, and has not asked what is new.
    let beats = async {
        loop {
            let _ = tokio::join!(slow.heartbeat(), quick.heartbeat());
            sleep(Duration::from_secs(2)).await;
        }
    };
    let found = tokio::select! {
        found = device(&site, "slow", |found| synced(found).0 == "False") => found?,
        () = beats => unreachable!("it beats on"),
    };
    let at = synced(&found).1.context("no time")?;
    assert!(at.duration_since(edited) >= AT_LEAST, "{at}, edited at {edited}");
    assert_eq!(condition(&found, "Synced")["reason"], "Behind", "{found:#}");
    assert_eq!(status_writes(&site, "slow").await?.len() - writes, 1, "{}", operator.log());
    // Who has carried it out in time was never behind.
    let found = device(&site, "quick", |found| synced(found).0 == "True").await?;
    assert_eq!(synced(&found), synced(&before[1]), "{found:#}");

    is_told(&slow, &["web"]).await?;
    slow.heartbeat().await?;
    device(&site, "slow", |found| synced(found).0 == "True").await?;
    Ok(())
}
