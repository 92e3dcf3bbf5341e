//! The programs of this workspace, as cargo has built them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tokio::sync::Mutex;

/// Where a program is that was built with the one that runs: beside it. Tests and benchmarks are one folder further down.
pub fn beside(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("this program does not know where it is")?;
    let folder = own.parent().unwrap_or(Path::new("."));
    Ok(match folder.parent() {
        Some(above) if folder.ends_with("deps") => above.join(name),
        _ => folder.join(name),
    })
}

/// The program that was named, or the one beside ours.
pub fn program(named: Option<PathBuf>, name: &str) -> Result<PathBuf> {
    let path = named.map_or_else(|| beside(name), Ok)?;
    ensure!(
        path.is_file(),
        "{} is not there; build it, or say where it is: see --help",
        path.display()
    );
    Ok(path)
}

/// The same for tests. `cargo test --workspace` has built it; for a run of one package alone it is built here if it is not
/// there.
pub async fn built(name: &str) -> Result<PathBuf> {
    static BUILD: Mutex<()> = Mutex::const_new(());
    let _one_at_a_time = BUILD.lock().await;
    let path = beside(name)?;
    if !path.is_file() {
        let package = if name == "kubectl-flashjob" { "flashjob-cli" } else { name };
        let mut build = Command::new("cargo");
        build.args(["build", "--locked", "-p", package]);
        if path.parent().is_some_and(|folder| folder.ends_with("release")) {
            build.arg("--release");
        }
        ensure!(build.status().context("no cargo")?.success(), "{package} cannot be built");
    }
    Ok(path)
}
