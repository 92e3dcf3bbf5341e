//! The start of an operator among many large jobs that are finished and kept as a record: what they cost in memory.
//!
//! A million flashes would take hours. So the jobs and their ledgers are written to the API server as an operator leaves
//! them, with `plan`'s own ledger; only the statuses are missing. A new process has to read every ledger, write every status
//! and then let go of all of it. Every board is in one job only: the worst case for what has to be remembered.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flashjob_api::flashjob::{FlashJob, Phase};
use flashjob_plan::flashjob::facts::Job;
use flashjob_plan::flashjob::ledger::{
    DeviceProgress, Ledger, Outcome, Pinned, Record, RecordedEnd,
};
use flashjob_plan::flashjob::{Settings, names, owner};
use flashjob_sim::node::Script;
use flashjob_sim::{Usage, eventually};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde::Serialize;
use serde_json::json;

use crate::bed::{Bed, Site, now};
use crate::operator::Operator;

/// Devices of each job.
const DEVICES: usize = 10_000;

/// Ledger writes at once.
const AT_ONCE: usize = 8;

const PATIENCE: Duration = Duration::from_secs(900);

/// One start among finished jobs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finished {
    pub jobs: usize,
    pub devices_each: usize,
    /// From the start of the process until every status was written.
    pub seconds: f64,
    #[serde(flatten)]
    pub usage: Usage,
}

pub async fn measure(jobs: usize) -> Result<Finished> {
    let bed = Bed::start().await?;
    let site = bed.site(Script::default()).await?;
    for number in 0..jobs {
        finished(&site, number).await?;
    }
    let began = Instant::now();
    let operator = Operator::start(&bed, &site.namespace, None)?;
    let all_completed = async || {
        // One page at a time: a hundred of these jobs are more than the bench needs to hold.
        let mut params = ListParams::default().limit(8);
        let mut completed = 0;
        loop {
            let page = site.jobs().list(&params).await?;
            let phases = page.items.iter().filter_map(|job| job.status.as_ref()?.phase);
            completed += phases.filter(|phase| *phase == Phase::Completed).count();
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok((completed == jobs).then_some(())),
            }
        }
    };
    eventually("all jobs to be Completed", PATIENCE, all_completed).await?;
    let seconds = began.elapsed().as_secs_f64();
    let usage = operator.usage()?;
    ensure!(site.kubelet.starts().is_empty(), "something was flashed");
    Ok(Finished { jobs, devices_each: DEVICES, seconds, usage })
}

/// A job as it is once every device was flashed, without its status.
async fn finished(site: &Site, number: usize) -> Result<()> {
    let uid = |n: usize| format!("5f1c7e0a-{number:04x}-4b1d-9a52-{n:012x}");
    let devices: Vec<String> = (0..DEVICES).map(uid).collect();
    let (firmware, version) = ("registry.example/esp32:0.2.0", "0.2.0");
    let job: FlashJob = serde_json::from_value(json!({
        "apiVersion": "application.flashjob.nbfc.io/v1alpha1",
        "kind": "FlashJob",
        "metadata": { "name": format!("rollout-{number}"), "finalizers": [names::FINALIZER] },
        "spec": {
            "uuid": devices, "device": "esp32", "firmware": firmware, "version": version,
            "flashjobPodImage": "registry.example/flasher:1",
        },
    }))?;
    let job = site.jobs().create(&PostParams::default(), &job).await.context("no job was made")?;
    let name = job.metadata.name.clone().unwrap_or_default();
    let facts = Job::read(&job.metadata, &serde_json::to_value(&job.spec)?, &Settings::default());

    let at = now();
    let revision = names::revision(firmware, version);
    let record = |(n, device): (usize, &String)| {
        let board = number * DEVICES + n;
        let endpoint = format!("10.{}.{}.{}", board >> 16, (board >> 8) & 255, board & 255);
        let pinned = Some(Pinned {
            namespace: site.namespace.clone(),
            name: format!("http-disc-{board:06x}"),
            endpoint: endpoint.into(),
        });
        let (outcome, ended) =
            (Outcome::Succeeded, RecordedEnd { at: Some(at), ..RecordedEnd::default() });
        let (progress, attempt) = (DeviceProgress::Final { outcome, tries: 0, ended }, 1);
        let previous = Some("0.1.0".to_owned());
        let new = Record::new(&facts.uid, device, &revision, at);
        Record { pinned, progress, attempt, previous, ..new }
    };
    let records = devices.iter().enumerate().map(record).collect();
    let mut ledger = Ledger::new(&facts.uid, facts.generation, (firmware, version), records, at);
    ledger.header.completed = Some(at);
    let maps: Api<ConfigMap> = Api::namespaced(site.client.clone(), &site.namespace);
    let shards = stream::iter(0..ledger.shards()).map(|index| {
        let object = json!({
            "metadata": {
                "name": names::ledger(&name, &facts.uid, index),
                "labels": { names::JOB_UID: facts.uid, names::SHARD: index.to_string() },
                "ownerReferences": [owner(&facts)],
            },
            "data": ledger.shard_data(index),
        });
        let maps = maps.clone();
        async move {
            let object: ConfigMap = serde_json::from_value(object)?;
            maps.create(&PostParams::default(), &object).await.context("no ledger was made")
        }
    });
    shards.buffered(AT_ONCE).try_collect::<Vec<_>>().await?;
    let annotation = json!({ names::LEDGER: names::ledger(&name, &facts.uid, 0) });
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotation } }));
    site.jobs().patch(&name, &PatchParams::default(), &patch).await?;
    Ok(())
}
