//! From end to end: the real operator on a real API server, the real flasher over real TLS, and boards that write down
//! themselves what happens to them. What the FlashJob says is held against that.

#![allow(clippy::unwrap_used)] // a test may stop at once and say why

mod demo;
mod faults;
mod kills;
mod node;

use std::path::Path;

use anyhow::Result;
use flashjob_sim::flashjob::installed;
use flashjob_sim::flashjob::site::{Options, Stage};

const OPERATOR: &str = env!("CARGO_BIN_EXE_flashjob-operator");
/// Waits are this many times shorter than in the field.
pub const SPEED: f64 = 20.0;
/// The version boards are to have.
pub const NEW: &str = "0.2.0";

/// The folder of all programs, the flasher and the demo among them.
pub async fn programs() -> Result<&'static Path> {
    let wanted = [
        ("flashjob-flasher", "flashjob-flasher"),
        ("flashjob-sim", "flashjob-sim"),
        ("kubectl-flashjob", "flashjob-cli"),
    ];
    installed::programs(OPERATOR, &wanted).await
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
