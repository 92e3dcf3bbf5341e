//! The demo as a person runs it.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result};

use crate::programs;

fn demo(folder: &Path, devices: &str) -> Result<std::process::Child> {
    Command::new(folder.join("flashjob-sim"))
        .args(["demo", "--devices", devices, "--speed", "30"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("the demo cannot be started")
}

fn well(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("7 of 8 boards run 0.2.0"), "{text}");
    assert!(text.contains("ledgers say the same"), "{text}");
    assert!(text.contains("ImageRejected"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_at_once_and_the_boards_agree() -> Result<()> {
    let folder = programs().await?;
    let (one, two) = (demo(folder, "8")?, demo(folder, "8")?);
    well(&one.wait_with_output()?);
    well(&two.wait_with_output()?);
    Ok(())
}
