//! The start of an operator that finds a large job half done: how long until it goes on?
//!
//! The job's ledger is written by an earlier operator while the job is suspended, so that nothing is left of that work.
//! Then nobody runs, the job is released, and a new process starts. It has to win the lease, list everything, read the
//! ledger and decide before its first write.

use anyhow::{Context, Result};
use flashjob_api::flashjob::{FlashJob, Phase};
use flashjob_sim::Usage;
use flashjob_sim::clock::now;
use flashjob_sim::cluster::AuditEntry;
use flashjob_sim::flashjob::Site;
use flashjob_sim::node::Script;
use futures::{StreamExt, pin_mut};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde::Serialize;
use serde_json::json;

use crate::bed::{
    Bed, JOB, PARALLEL, boards, flash, patience, reaches, ready_operator, seconds, within,
};

/// One cold start. Times are from the start of the process until the API server got the call.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ColdStart {
    pub devices: usize,
    /// Whatever it wrote first in the job's namespace, and what that was.
    pub first_write_seconds: f64,
    pub first_write: String,
    /// The first thing it did for a device.
    pub first_service_seconds: f64,
    #[serde(flatten)]
    pub usage: Usage,
}

pub async fn measure(devices: usize) -> Result<ColdStart> {
    let bed = Bed::start().await?;
    let site = bed.site(Script::default()).await?;
    prepare(&site, devices).await?;

    let started = now();
    let operator = site.operator()?;
    first_service(&site, devices).await?;
    let usage = operator.usage()?;
    drop(operator);

    let mut writes = bed.operators.writes(&site.namespace)?;
    writes.retain(|entry| entry.at >= started);
    let first = writes.iter().min_by_key(|entry| entry.at).context("nothing was written")?;
    Ok(ColdStart {
        devices,
        first_write_seconds: seconds(started, first.at),
        first_write: format!("{} {}", first.verb, first.resource),
        first_service_seconds: seconds(started, first_of(&writes, "services")?),
        usage,
    })
}

/// A job that waits for its operator, with a sealed ledger.
async fn prepare(site: &Site, devices: usize) -> Result<()> {
    let boards = boards(site, devices).await?;
    let mut operator = ready_operator(site, None).await?;
    flash(site, json!({ "uuid": boards, "suspend": true }), PARALLEL).await?;
    reaches(site, Phase::Suspended, patience(devices)).await?;
    operator.stop().await?;
    let release = Patch::Merge(json!({ "spec": { "suspend": false } }));
    let jobs: Api<FlashJob> = site.jobs();
    jobs.patch(JOB, &PatchParams::default(), &release).await.context("the job is not released")?;
    Ok(())
}

/// Waits until a watch shows a Service.
async fn first_service(site: &Site, devices: usize) -> Result<()> {
    let services: Api<Service> = Api::namespaced(site.client.clone(), &site.namespace);
    let seen = watcher(services, watcher::Config::default()).default_backoff().applied_objects();
    let seen = seen.filter_map(async |service| service.ok());
    pin_mut!(seen);
    let first = within(patience(devices), "the first Service", seen.next()).await?;
    first.context("the watch has ended").map(drop)
}

fn first_of(writes: &[AuditEntry], resource: &str) -> Result<Timestamp> {
    let of = writes.iter().filter(|entry| entry.resource == resource);
    of.map(|entry| entry.at).min().with_context(|| format!("no write to {resource}"))
}
