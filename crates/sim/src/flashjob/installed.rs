//! What tests start from: a cluster with everything a user installs, and the programs beside the one under test.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tokio::sync::OnceCell;

use crate::cluster::Cluster;
use crate::flashjob::akri::Akri;

/// What users apply.
pub const INSTALL: &str = include_str!("../../../../dist/install.yaml");

impl Cluster {
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

/// The folder of a program, with the programs of these packages in it. `cargo test --workspace` has built them; for a run of
/// one package alone they are built here if they are not there.
pub async fn programs(beside: &str, wanted: &[(&str, &str)]) -> Result<&'static Path> {
    static FOLDER: OnceCell<PathBuf> = OnceCell::const_new();
    let folder = FOLDER.get_or_try_init(async || {
        let folder = Path::new(beside).parent().context("a program is in a folder")?;
        let missing = wanted.iter().filter(|(name, _)| !folder.join(name).is_file());
        let packages: Vec<&str> = missing.flat_map(|(_, package)| ["-p", package]).collect();
        if !packages.is_empty() {
            let mut build = Command::new("cargo");
            let built = build.args(["build", "--locked"]).args(packages).status();
            ensure!(built.context("no cargo")?.success(), "programs for the tests cannot be built");
        }
        Ok(folder.to_owned())
    });
    Ok(folder.await?.as_path())
}
