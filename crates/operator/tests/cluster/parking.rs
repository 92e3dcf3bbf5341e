//! What jobs cost that have nothing to do: no look for what does not concern them, and no memory for their ledgers.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use flashjob_api::flashjob::{FlashJobStatus, Phase};
use flashjob_sim::flashjob::Site;
use flashjob_sim::http::get;
use flashjob_sim::node::Script;
use flashjob_sim::{Operator, PATIENCE, eventually};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::api::{ListParams, PostParams};
use serde_json::json;

use flashjob_sim::http::free_address;

/// An operator that can be asked what it does.
struct Watched {
    operator: Operator,
    metrics: SocketAddr,
}

impl Watched {
    async fn start(site: &Site) -> Result<Watched> {
        let metrics = free_address().await?;
        let flag = format!("--metrics-bind-address={metrics}");
        let operator = site.operator_with(&[&flag], None)?;
        operator.says("serving metrics").await?;
        Ok(Watched { operator, metrics })
    }

    async fn metric(&self, name: &str) -> Result<u64> {
        let (_, text) = get(self.metrics, "/metrics").await?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.with_context(|| format!("{name} is not in\n{text}"))?.parse().context("no number")
    }

    /// Waits until so many jobs are parked.
    async fn parked(&self, jobs: u64) -> Result<()> {
        eventually(&format!("{jobs} jobs to be parked"), PATIENCE, async || {
            Ok((self.metric("flashjob_parked_jobs").await? == jobs).then_some(()))
        })
        .await
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
    watched.operator.has_listed("instances", PATIENCE).await?;
    for n in 0..20 {
        let spec =
            json!({ "uuid": [format!("absent-{n}")], "timeouts": { "offlineSeconds": 86400 } });
        site.flash_with(&format!("waits-{n}"), spec).await?;
    }
    for n in 0..20 {
        let offline =
            |s: &flashjob_api::flashjob::FlashJobStatus| s.counts.is_some_and(|c| c.offline == 1);
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
    let found = |s: &flashjob_api::flashjob::FlashJobStatus| {
        let words = s.in_flight.first().and_then(|d| d.message.as_deref());
        words.is_some_and(|words| words.contains("no HOST_ENDPOINT"))
    };
    site.status("waits-0", "its device to be seen", found).await?;
    let looks = watched.looks().await? - before;
    assert!((1..20).contains(&looks), "{looks} looks");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_and_held_jobs_are_parked_and_taken_up_again_when_they_are_edited() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let [first, second] = site.two_boards().await?;
    let watched = Watched::start(&site).await?;
    site.flash("done", std::slice::from_ref(&first)).await?;
    site.flash_with("held", json!({ "uuid": [second.uid()], "suspend": true })).await?;
    site.phase("done", Phase::Completed).await?;
    site.phase("held", Phase::Suspended).await?;
    watched.parked(2).await?;
    assert_eq!(site.flashed(), ["192.0.2.11"]);

    site.edit("held", json!({ "suspend": false })).await?;
    site.phase("held", Phase::Completed).await?;
    site.edit("done", json!({ "firmware": "registry.example/esp32:0.3.0", "version": "0.3.0" }))
        .await?;
    let again =
        |s: &FlashJobStatus| s.phase == Some(Phase::Completed) && s.observed_generation == Some(2);
    site.status("done", "the new firmware to be flashed", again).await?;
    assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.11", "192.0.2.12"]);
    watched.parked(2).await?;

    site.jobs().delete("held", &Default::default()).await?;
    site.job_is_gone("held").await?;
    watched.parked(1).await
}

/// What a parked job has flashed is known to others, and also to an operator that was started since.
#[tokio::test(flavor = "multi_thread")]
async fn a_parked_job_still_supersedes_an_older_one() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.two_boards().await?;
    let watched = Watched::start(&site).await?;
    for (name, board) in ["old-1", "old-2"].into_iter().zip(&boards) {
        site.flash_with(name, json!({ "uuid": [board.uid()], "suspend": true })).await?;
        site.phase(name, Phase::Suspended).await?;
    }
    // Of jobs of one second the first by name counts as older.
    site.flash("recent", &boards).await?;
    site.phase("recent", Phase::Completed).await?;
    watched.parked(3).await?;
    let superseded = |s: &FlashJobStatus| s.failures.iter().any(|f| f.reason == "Superseded");
    site.edit("old-1", json!({ "suspend": false })).await?;
    site.status("old-1", "it to be superseded", superseded).await?;

    drop(watched);
    let watched = Watched::start(&site).await?;
    watched.parked(3).await?;
    site.edit("old-2", json!({ "suspend": false })).await?;
    site.status("old-2", "it to be superseded", superseded).await?;
    assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.12"]);
    Ok(())
}

/// The create of an operator that lost its lease arrives when the job is long done.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_pod_of_a_parked_job_is_taken_away() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.boards(1).await?;
    let watched = Watched::start(&site).await?;
    site.kubelet.hold();
    site.flash("flashjob", &boards).await?;
    let pods = site.api::<Pod>();
    let pod = eventually("its Pod", PATIENCE, async || {
        Ok(pods.list(&ListParams::default()).await?.items.pop())
    });
    let pod = pod.await?;
    site.kubelet.release();
    site.phase("flashjob", Phase::Completed).await?;
    watched.parked(1).await?;

    let (labels, owner_references) = (pod.metadata.labels.clone(), pod.metadata.owner_references);
    let name = pod.metadata.name.clone();
    let metadata = ObjectMeta { name, labels, owner_references, ..ObjectMeta::default() };
    let late = Pod { metadata, spec: pod.spec, status: None };
    pods.create(&PostParams::default(), &late).await?;
    site.cleaned_up().await?;
    assert_eq!(site.flashed().len(), 1);
    watched.parked(1).await
}
