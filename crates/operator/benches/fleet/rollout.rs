//! One job over many devices whose flashes take no time: what is left is the operator and the API server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use flashjob_api::Phase;
use flashjob_sim::{AuditEntry, Script, eventually};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::Api;
use kube::api::ListParams;
use serde::Serialize;

use crate::bed::{Bed, JOB, PARALLEL, Site, patience};
use crate::floor;
use crate::operator::{Operator, Usage};
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
    let boards = site.boards(devices).await?;
    let operator = Operator::start(&bed, &site.namespace, None)?;
    operator.ready().await?;
    let began = Instant::now();
    site.flash(&boards, PARALLEL, false).await?;
    site.reaches(Phase::Completed, patience(devices)).await?;
    let seconds = began.elapsed().as_secs_f64();
    cleaned_up(&site, devices).await?;
    let cleaned_up_seconds = began.elapsed().as_secs_f64();
    all_flashed(&site, devices).await?;
    let writes = settled_writes(&bed, &site).await?;
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

/// Waits until no Pod and no Service is left.
async fn cleaned_up(site: &Site, devices: usize) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(site.client.clone(), &site.namespace);
    let services: Api<Service> = Api::namespaced(site.client.clone(), &site.namespace);
    // One is as good as all to know that something is left.
    let one = ListParams::default().limit(1);
    eventually("all Pods and Services to be gone", patience(devices), async || {
        let left = pods.list(&one).await?.items.len() + services.list(&one).await?.items.len();
        Ok((left == 0).then_some(()))
    })
    .await
}

/// The operator's writes, once no more are added: an object is gone before its deletion is answered, and a call is in
/// the audit log when it is answered.
async fn settled_writes(bed: &Bed, site: &Site) -> Result<Vec<AuditEntry>> {
    let mut writes = bed.operator_writes(&site.namespace)?;
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let before = std::mem::replace(&mut writes, bed.operator_writes(&site.namespace)?);
        if before.len() == writes.len() {
            return Ok(writes);
        }
    }
}

/// A job that is Completed without its flashes would be fast.
async fn all_flashed(site: &Site, devices: usize) -> Result<()> {
    let starts = site.kubelet.starts().len();
    ensure!(starts == devices, "{devices} devices, and {starts} flashes");
    let status = site.jobs().get(JOB).await?.status.unwrap_or_default();
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
        let subresource = entry.subresource.iter().map(|sub| format!("/{sub}")).collect::<String>();
        let kind = format!("{} {}{subresource}", entry.verb, entry.resource);
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}
