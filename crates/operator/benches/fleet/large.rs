//! One job over more devices than a spec can name: does it run to its end, and what does that take?
//!
//! Its devices are chosen by a selector, since 100,000 uids are more than the API server takes. There is no floor: three
//! loops of that length would take an hour, and what a device costs beside one is known from smaller fleets.

use std::time::Instant;

use anyhow::{Result, ensure};
use flashjob_api::flashjob::Phase;
use flashjob_sim::Usage;
use flashjob_sim::node::Script;
use serde::Serialize;
use serde_json::json;

use crate::bed::{Bed, JOB, boards, cleaned_up, flash, patience, reaches, ready_operator};
use crate::rollout::all_flashed;

/// As many at once as a job may have.
const PARALLEL: usize = 500;

/// One rollout.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Large {
    pub devices: usize,
    /// From the creation of the job until a watch shows it Completed.
    pub seconds: f64,
    /// Until the last Pod and Service were gone.
    pub cleaned_up_seconds: f64,
    /// The last status, and how many devices it lists as done.
    pub status_bytes: usize,
    pub completed_listed: usize,
    pub writes_per_device: f64,
    /// Writes that the API server refused.
    pub refused: usize,
    #[serde(flatten)]
    pub usage: Usage,
}

impl Large {
    pub fn cpu_per_thousand(&self) -> f64 {
        1000.0 * self.usage.cpu_seconds / self.devices as f64
    }
}

pub async fn measure(devices: usize) -> Result<Large> {
    let bed = Bed::start().await?;
    let site = bed.site(Script::default()).await?;
    boards(&site, devices).await?;
    let operator = ready_operator(&site, None).await?;
    let began = Instant::now();
    flash(&site, json!({ "deviceSelector": { "device": "esp32" } }), PARALLEL).await?;
    reaches(&site, Phase::Completed, patience(devices)).await?;
    let seconds = began.elapsed().as_secs_f64();
    cleaned_up(&site, devices).await?;
    let cleaned_up_seconds = began.elapsed().as_secs_f64();
    all_flashed(&site, devices).await?;
    let status = site.status_now(JOB).await?;
    let listed = status.completed_uuids.len();
    ensure!(status.truncated == (listed < devices), "{listed} of {devices} are listed");
    let writes = bed.operators.writes_settled(&site.namespace).await?;
    Ok(Large {
        devices,
        seconds,
        cleaned_up_seconds,
        status_bytes: serde_json::to_vec(&status)?.len(),
        completed_listed: listed,
        writes_per_device: writes.len() as f64 / devices as f64,
        refused: writes.iter().filter(|entry| entry.code >= 400).count(),
        usage: operator.usage()?,
    })
}
