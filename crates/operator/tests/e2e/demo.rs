//! The demo as a person runs it.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_sim::{eventually, programs};

async fn demo(devices: &str) -> Result<std::process::Child> {
    // It looks for the others beside it.
    for other in ["flashjob-flasher", "kubectl-flashjob"] {
        programs::built(other).await?;
    }
    Command::new(programs::built("flashjob-sim").await?)
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
    let (one, two) = (demo("8").await?, demo("8").await?);
    well(&one.wait_with_output()?);
    well(&two.wait_with_output()?);
    Ok(())
}

/// All processes there are, with their parents.
fn processes() -> Result<HashMap<u32, u32>> {
    let mut all = HashMap::new();
    for entry in std::fs::read_dir("/proc")? {
        let Ok(pid) = entry?.file_name().to_string_lossy().parse::<u32>() else { continue };
        // One that ended meanwhile has no file any more.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        let fields = stat.rsplit_once(')').map(|(_, fields)| fields);
        let parent = fields.and_then(|fields| fields.split_whitespace().nth(1)?.parse().ok());
        all.extend(parent.map(|parent| (pid, parent)));
    }
    Ok(all)
}

/// Everything a process has started, and what that has.
fn below(pid: u32) -> Result<HashSet<u32>> {
    let all = processes()?;
    let mut found = HashSet::from([pid]);
    loop {
        let before = found.len();
        let more = all.iter().filter(|(_, parent)| found.contains(parent)).map(|(pid, _)| *pid);
        found.extend(more.collect::<Vec<_>>());
        if found.len() == before {
            return Ok(found);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_leaves_nothing_running() -> Result<()> {
    let mut demo = demo("8").await?;
    let out = BufReader::new(demo.stdout.take().context("no output")?);
    let mut lines = out.lines();
    // Until boards are being flashed.
    lines.by_ref().find(|line| line.as_ref().is_ok_and(|line| line.contains("Flashing")));
    let started = below(demo.id())?;
    assert!(
        started.len() > 5,
        "etcd, API server, registry, operator and flashers run: {started:?}"
    );
    let sent = Command::new("kill").args(["-s", "INT", &demo.id().to_string()]).status()?;
    assert!(sent.success());
    assert!(!demo.wait()?.success());
    eventually("everything to end", Duration::from_secs(10), async || {
        let left: Vec<u32> = processes()?.into_keys().filter(|pid| started.contains(pid)).collect();
        Ok(left.is_empty().then_some(()))
    })
    .await
}
