//! One job over many devices whose flashes take no time: what is left is the operator and the API server.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Result, ensure};
use flashjob_api::flashjob::Phase;
use flashjob_sim::Usage;
use flashjob_sim::cluster::AuditEntry;
use flashjob_sim::flashjob::Site;
use flashjob_sim::node::Script;
use serde::Serialize;
use serde_json::json;

use crate::bed::{
    Bed, JOB, PARALLEL, boards, cleaned_up, flash, patience, reaches, ready_operator,
};
use crate::floor;
use crate::template::Template;

/// One rollout and its floors.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    pub devices: usize,
    pub max_parallel: usize,
    /// From the creation of the job until a watch shows it Completed.
    pub seconds: f64,
    /// Until the last Pod and Service were gone.
    pub cleaned_up_seconds: f64,
    /// The bare floor, before and after.
    pub floor_seconds: [f64; 2],
    pub waiting_floor_seconds: f64,
    #[serde(flatten)]
    pub usage: Usage,
    /// The operator's writes in the job's namespace, by verb and resource.
    pub writes: BTreeMap<String, usize>,
    /// Those of them that the API server refused.
    pub refused: usize,
}

impl Rollout {
    pub fn per_device_ms(&self) -> f64 {
        1000.0 * self.seconds / self.devices as f64
    }

    /// The mean of the two.
    pub fn floor(&self) -> f64 {
        self.floor_seconds.iter().sum::<f64>() / 2.0
    }

    pub fn ratio(&self) -> f64 {
        self.seconds / self.floor()
    }

    pub fn waiting_ratio(&self) -> f64 {
        self.seconds / self.waiting_floor_seconds
    }

    pub fn writes_per_device(&self) -> f64 {
        self.writes.values().sum::<usize>() as f64 / self.devices as f64
    }
}

/// Measures the operator between two floors, in one cluster.
pub async fn measure(devices: usize) -> Result<Rollout> {
    let bed = Bed::start().await?;
    let template = Template::take(&bed).await?;
    let before = floor::bare(&bed, &template, devices).await?;

    let site = bed.site(Script::default()).await?;
    let boards = boards(&site, devices).await?;
    let operator = ready_operator(&site, None).await?;
    let began = Instant::now();
    flash(&site, json!({ "uuid": boards }), PARALLEL).await?;
    reaches(&site, Phase::Completed, patience(devices)).await?;
    let seconds = began.elapsed().as_secs_f64();
    cleaned_up(&site, devices).await?;
    let cleaned_up_seconds = began.elapsed().as_secs_f64();
    all_flashed(&site, devices).await?;
    let writes = bed.operators.writes_settled(&site.namespace).await?;
    let usage = operator.usage()?;
    drop((operator, site));

    let after = floor::bare(&bed, &template, devices).await?;
    let waiting_floor_seconds = floor::waiting(&bed, &template, devices).await?;
    Ok(Rollout {
        devices,
        max_parallel: PARALLEL,
        seconds,
        cleaned_up_seconds,
        floor_seconds: [before, after],
        waiting_floor_seconds,
        usage,
        refused: writes.iter().filter(|entry| entry.code >= 400).count(),
        writes: by_kind(&writes),
    })
}

/// A job that is Completed without its flashes would be fast.
pub async fn all_flashed(site: &Site, devices: usize) -> Result<()> {
    let starts = site.kubelet.starts().len();
    ensure!(starts == devices, "{devices} devices, and {starts} flashes");
    let status = site.status_now(JOB).await?;
    let succeeded = status.counts.map(|counts| i64::from(counts.succeeded));
    ensure!(
        succeeded == i64::try_from(devices).ok(),
        "{devices} devices, and {succeeded:?} succeeded"
    );
    Ok(())
}

fn by_kind(writes: &[AuditEntry]) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for entry in writes {
        *kinds.entry(entry.kind()).or_default() += 1;
    }
    kinds
}
