//! The test bed: a control plane of its own for each measurement, so that none pays for the objects of another.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use flashjob_api::flashjob::{FlashJob, Phase};
use flashjob_sim::cluster::{Cluster, ClusterOptions, Gate};
use flashjob_sim::flashjob::{Site, jobs};
use flashjob_sim::node::{AddressPool, Script};
use flashjob_sim::{Launcher, Operator};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::runtime::wait::await_condition;
use serde_json::{Value, json};
use tokio::time::timeout;

/// The job's name; each namespace has one job.
pub const JOB: &str = "flashjob";

/// Devices at once, in rollouts and in their floors.
pub const PARALLEL: usize = 64;

/// How long an operator may take to know the devices: a list of 100,000 Instances takes more than a minute where others are at
/// work, too.
const LISTED: Duration = Duration::from_secs(600);

/// A control plane with the operator's manifests and Akri's CRD.
pub struct Bed {
    pub cluster: Cluster,
    pub operators: Launcher,
}

impl Bed {
    pub async fn start() -> Result<Bed> {
        // 10,000 devices fill an audit log of the default size, and only the newest file is read.
        let options =
            ClusterOptions { api_server_args: vec!["--audit-log-maxsize=10000".to_owned()] };
        let cluster = Cluster::start_with(&options).await?;
        cluster.install().await?;
        let operators = Launcher::new(&cluster).await?.with("--log=info");
        Ok(Bed { cluster, operators })
    }

    /// A namespace with a kubelet that does as `script` says, and a load balancer that never runs out of addresses.
    pub async fn site(&self, script: Script) -> Result<Site> {
        let site = Site::on(&self.cluster).operators(self.operators.clone());
        site.pool(AddressPool::of(10_000)).start(move |_| script.clone()).await
    }
}

/// A fresh operator that knows the devices, so that what follows is the work and not the start.
pub async fn ready_operator(site: &Site, gate: Option<&Gate>) -> Result<Operator> {
    let operator = site.operator_with(&[], gate)?;
    operator.has_listed("instances", LISTED).await?;
    Ok(operator)
}

/// So many boards, as Akri would find them; their uids.
pub async fn boards(site: &Site, count: usize) -> Result<Vec<String>> {
    let boards = stream::iter(0..count).map(|number| board(site, number));
    boards.buffered(PARALLEL).try_collect().await
}

async fn board(site: &Site, number: usize) -> Result<String> {
    // Akri's own names are three bytes of a hash, of which two are the same among 10,000.
    let name = format!("http-disc-{number:06x}");
    let endpoint = format!("10.{}.{}.{}", number >> 16, (number >> 8) & 255, number & 255);
    let instance = site.akri.discover_named(&name, &endpoint, "esp32", "thermo", "0.1.0").await?;
    instance.uid().context("an Instance without a uid")
}

/// Creates the job for these devices.
pub async fn flash(site: &Site, devices: Value, parallel: usize) -> Result<()> {
    let rollout = json!({ "rollout": { "maxParallel": parallel } });
    site.flash_with(JOB, jobs::with(rollout, devices)).await.map(drop)
}

/// Waits until a watch says that the job is in this phase. A job that has failed is an error.
pub async fn reaches(site: &Site, phase: Phase, limit: Duration) -> Result<()> {
    let of = |job: Option<&FlashJob>| job.and_then(|job| job.status.as_ref()?.phase);
    let reached = await_condition(site.jobs(), JOB, move |job: Option<&FlashJob>| {
        of(job).is_some_and(|now| now == phase || now == Phase::Failed)
    });
    let job = within(limit, &format!("the job to be {phase:?}"), reached).await?;
    let job = job.context("the job cannot be watched")?;
    match of(job.as_ref()) {
        Some(now) if now == phase => Ok(()),
        _ => {
            let status = job.and_then(|job| job.status);
            bail!("the job failed: {:?}", status.and_then(|status| status.message))
        }
    }
}

/// Waits until no Pod and no Service is left.
pub async fn cleaned_up(site: &Site, devices: usize) -> Result<()> {
    site.cleaned_up_in(&[&site.namespace], patience(devices)).await
}

/// How long anything with so many devices may take before the benchmark gives up: far longer than it takes.
pub fn patience(devices: usize) -> Duration {
    Duration::from_secs(90)
        + Duration::from_millis(250) * u32::try_from(devices).unwrap_or(u32::MAX)
}

/// Waits for something, but not for ever.
pub async fn within<T>(limit: Duration, what: &str, wait: impl Future<Output = T>) -> Result<T> {
    let waited = timeout(limit, wait).await;
    waited.with_context(|| format!("waited {limit:?} in vain for {what}"))
}

/// Seconds from one time to another.
pub fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}
