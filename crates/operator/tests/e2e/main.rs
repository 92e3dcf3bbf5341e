//! From end to end: the real operator on a real API server, the real flasher over real TLS, and boards that write down
//! themselves what happens to them. What the FlashJob says is held against that.

#![allow(clippy::unwrap_used)] // a test may stop at once and say why

mod demo;
mod faults;
mod kills;
mod node;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flashjob_sim::stage::{Options, Stage};
use tokio::sync::OnceCell;

const OPERATOR: &str = env!("CARGO_BIN_EXE_flashjob-operator");
/// Waits are this many times shorter than in the field.
pub const SPEED: f64 = 20.0;
/// The version boards are to have.
pub const NEW: &str = "0.2.0";

/// The folder of all programs, the flasher and the demo among them. `cargo test --workspace` has built them; for a run of
/// this package alone they are built here if they are not there.
pub async fn programs() -> Result<&'static Path> {
    static FOLDER: OnceCell<PathBuf> = OnceCell::const_new();
    let folder = FOLDER.get_or_try_init(async || {
        let folder = Path::new(OPERATOR).parent().context("a program is in a folder")?;
        let missing = |name: &&str| !folder.join(name).is_file();
        if ["flashjob-flasher", "flashjob-sim", "kubectl-flashjob"].iter().any(missing) {
            let args = [
                "build",
                "--locked",
                "-p",
                "flashjob-flasher",
                "-p",
                "flashjob-sim",
                "-p",
                "flashjob-cli",
            ];
            let built = Command::new(env!("CARGO")).args(args).status().context("no cargo")?;
            ensure!(built.success(), "flasher and demo cannot be built");
        }
        Ok(folder.to_owned())
    });
    Ok(folder.await?.as_path())
}

/// A site with so many boards and a running operator.
pub async fn stage(boards: usize, devices: &[&str]) -> Result<Stage> {
    let options = Options {
        operator: OPERATOR.into(),
        flasher: programs().await?.join("flashjob-flasher"),
        boards,
        devices: devices.iter().map(|d| (*d).to_owned()).collect(),
        speed: SPEED,
        addresses: 40,
    };
    let mut stage = Stage::start(options, &|_| ()).await?;
    stage.start_operator().await?;
    Ok(stage)
}
