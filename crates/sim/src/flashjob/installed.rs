//! What tests start from: a cluster with everything a user installs.

use anyhow::Result;
use tokio::sync::OnceCell;

use crate::cluster::Cluster;
use crate::flashjob::akri::Akri;

/// What users apply.
pub const INSTALL: &str = include_str!("../../../../dist/install.yaml");

impl Cluster {
    /// Starts one with everything installed.
    pub async fn installed() -> Result<Self> {
        let cluster = Self::start().await?;
        cluster.install().await?;
        Ok(cluster)
    }

    /// Applies what users apply, and Akri's CRD.
    pub async fn install(&self) -> Result<()> {
        self.apply_yaml(INSTALL).await?;
        Akri::install_crd(self).await
    }

    /// The [shared](Cluster::shared) cluster, with everything installed.
    pub async fn shared_installed() -> Result<&'static Cluster> {
        static INSTALLED: OnceCell<()> = OnceCell::const_new();
        let cluster = Cluster::shared().await?;
        INSTALLED.get_or_try_init(async || cluster.install().await).await?;
        Ok(cluster)
    }
}
