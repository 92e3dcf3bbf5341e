//! Flashes that take as long as real ones: how late is their end seen?

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_api::flashjob::Phase;
use flashjob_sim::Usage;
use flashjob_sim::clock::now;
use flashjob_sim::node::Script;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use crate::bed::{Bed, boards, cleaned_up, flash, patience, reaches, ready_operator, seconds};

/// How long one flash takes.
pub const LASTS: Duration = Duration::from_secs(15);

/// All devices of one job at once.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Flash {
    pub devices: usize,
    pub flash_seconds: u64,
    /// From the end of the last flash until a watch shows the job Completed.
    pub late_seconds: f64,
    /// The median over the devices, from the end of its flash until the operator asked for its Pod to be deleted. It
    /// does so once the outcome is in the ledger.
    pub median_recorded_seconds: f64,
    #[serde(flatten)]
    pub usage: Usage,
}

pub async fn measure(devices: usize) -> Result<Flash> {
    let bed = Bed::start().await?;
    let site = bed.site(Script::default().run_for(LASTS)).await?;
    let boards = boards(&site, devices).await?;
    let operator = ready_operator(&site, None).await?;
    flash(&site, json!({ "uuid": boards }), devices).await?;
    reaches(&site, Phase::Completed, patience(devices) + LASTS).await?;
    let completed = now();
    cleaned_up(&site, devices).await?;
    let usage = operator.usage()?;

    let ends: HashMap<String, Timestamp> = site
        .kubelet
        .starts()
        .into_iter()
        .filter_map(|start| Some((start.pod, start.ended_at?)))
        .collect();
    let last = ends.values().max().context("no flash has ended")?;
    let recorded = bed
        .operators
        .writes_settled(&site.namespace)
        .await?
        .into_iter()
        .filter(|entry| entry.verb == "delete" && entry.resource == "pods")
        .filter_map(|entry| Some(seconds(*ends.get(&entry.name?)?, entry.at)))
        .collect();
    Ok(Flash {
        devices,
        flash_seconds: LASTS.as_secs(),
        late_seconds: seconds(*last, completed),
        median_recorded_seconds: median(recorded).context("no Pod was deleted")?,
        usage,
    })
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
