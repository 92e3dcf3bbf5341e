//! What jobs cost that have nothing to do: no look for what does not concern them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use flashjob_sim::{Script, eventually};
use serde_json::json;

use crate::crds::{free_address, get};
use crate::site::{Operator, PATIENCE, Site};

/// An operator that can be asked what it does.
struct Watched {
    operator: Operator,
    metrics: SocketAddr,
}

impl Watched {
    async fn start(site: &Site) -> Result<Watched> {
        let metrics = free_address().await?;
        let flag = format!("--metrics-bind-address={metrics}");
        let operator = site.operator_with(&[&flag], None).await?;
        Ok(Watched { operator, metrics })
    }

    async fn metric(&self, name: &str) -> Result<u64> {
        let (_, text) = get(self.metrics, "/metrics").await?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.with_context(|| format!("{name} is not in\n{text}"))?.parse().context("no number")
    }

    /// How often it has looked at a job, once it looks at none any more.
    async fn looks(&self) -> Result<u64> {
        let mut readings: Vec<u64> = Vec::new();
        eventually("the operator to have nothing to do", PATIENCE, async || {
            readings.push(self.metric("flashjob_reconciles_total").await?);
            // Two seconds at least: a status that was written is looked at once more a second later.
            let last = readings.last_chunk::<80>();
            Ok(last.filter(|last| last.iter().all(|n| *n == last[0])).map(|last| last[0]))
        })
        .await
    }
}

/// Twenty jobs wait for a device each. What Akri says of other devices is nothing to them.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_wakes_only_the_jobs_that_have_to_do_with_it() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let watched = Watched::start(&site).await?;
    watched.operator.says("the first list is complete kind=\"instances\"").await?;
    for n in 0..20 {
        let spec =
            json!({ "uuid": [format!("absent-{n}")], "timeouts": { "offlineSeconds": 86400 } });
        site.flash_with(&format!("waits-{n}"), spec).await?;
    }
    for n in 0..20 {
        let offline = |s: &flashjob_api::FlashJobStatus| s.counts.is_some_and(|c| c.offline == 1);
        site.status(&format!("waits-{n}"), "its device to be missed", offline).await?;
    }
    let before = watched.looks().await?;
    for n in 0..30 {
        let version = format!("0.1.{n}");
        site.akri.discover("192.0.2.11", "esp32", "thermo", &version).await?;
    }
    // One that concerns the first job, and comes after all the others.
    let no_address = BTreeMap::from([("DEVICE".to_owned(), "esp32".to_owned())]);
    site.akri.discover_with("absent-0", no_address).await?;
    let found = |s: &flashjob_api::FlashJobStatus| {
        let words = s.in_flight.first().and_then(|d| d.message.as_deref());
        words.is_some_and(|words| words.contains("no HOST_ENDPOINT"))
    };
    site.status("waits-0", "its device to be seen", found).await?;
    let looks = watched.looks().await? - before;
    assert!((1..20).contains(&looks), "{looks} looks");
    Ok(())
}
