//! The test bed: one control plane, and on it a site of its own for each measurement, so that none has the devices of another.

use std::path::PathBuf;

use anyhow::Result;
use flashjob_sim::cluster::{Cluster, ClusterOptions};
use flashjob_sim::edge::EdgeSite;
use flashjob_sim::programs;

pub struct Bed {
    pub cluster: Cluster,
    program: PathBuf,
}

impl Bed {
    pub async fn start() -> Result<Bed> {
        // 10,000 devices fill an audit log of the default size, and only the newest file is read.
        let options =
            ClusterOptions { api_server_args: vec!["--audit-log-maxsize=10000".to_owned()] };
        let cluster = Cluster::start_with(&options).await?;
        Ok(Bed { cluster, program: programs::built("flashjob-operator").await? })
    }

    /// Two fresh namespaces with all that is shipped.
    pub async fn site(&self) -> Result<EdgeSite> {
        let mut site = EdgeSite::on(&self.cluster, self.program.clone()).await?;
        site.operators = site.operators.with("--log=info");
        Ok(site)
    }
}

/// The value in the middle, or the one that so large a share of them does not exceed.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
}

pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}
