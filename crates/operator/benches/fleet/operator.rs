//! A fresh operator process for each measurement, as the shipped ServiceAccount, and what it used up.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flashjob_sim::{Gate, eventually};
use serde::Serialize;

use crate::bed::Bed;

const PROGRAM: &str = env!("CARGO_BIN_EXE_flashjob-operator");

const PATIENCE: Duration = Duration::from_secs(60);

/// A running operator. It is killed when dropped.
pub struct Operator {
    child: Child,
    log: PathBuf,
}

/// What a process has used up so far.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// The most memory it ever had, VmHWM.
    pub peak_mi_b: f64,
    /// In user and system mode.
    pub cpu_seconds: f64,
}

impl Operator {
    /// Starts the program; it works once it has the lease. With a gate, its calls go through that.
    pub fn start(bed: &Bed, namespace: &str, gate: Option<&Gate>) -> Result<Operator> {
        let url = gate.map(Gate::url);
        let kubeconfig = bed.cluster.kubeconfig(&bed.token, bed.home, url.as_deref())?;
        let log = kubeconfig.with_extension("log");
        let child = Command::new(PROGRAM)
            .arg("run")
            .arg(format!("--namespace={namespace}"))
            .args(["--health-probe-bind-address=0", "--log=info"])
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stderr(fs::File::create(&log).context("no file for the operator's log")?)
            .spawn()
            .context("the operator cannot be started")?;
        Ok(Operator { child, log })
    }

    /// Waits until it knows the devices, so that what follows is the work and not the start.
    pub async fn ready(&self) -> Result<()> {
        let words = "the first list is complete kind=\"instances\"";
        let log = || fs::read_to_string(&self.log).unwrap_or_default();
        let ready = eventually("the operator to be ready", PATIENCE, async || {
            Ok(log().contains(words).then_some(()))
        });
        ready.await.with_context(|| format!("the operator's log:\n{}", log()))
    }

    pub fn usage(&self) -> Result<Usage> {
        let file = |name: &str| {
            let path = format!("/proc/{}/{name}", self.child.id());
            fs::read_to_string(&path).with_context(|| format!("{path} cannot be read"))
        };
        let kib = peak_kib(&file("status")?).context("no VmHWM in the status of the process")?;
        let ticks = ticks(&file("stat")?).context("no times in the stat of the process")?;
        Ok(Usage { peak_mi_b: kib / 1024.0, cpu_seconds: ticks / ticks_per_second()? })
    }

    /// Ends it as a rollout of a new version would, so that the next one finds the lease released.
    pub async fn stop(mut self) -> Result<()> {
        let sent = Command::new("kill").arg(self.child.id().to_string()).status()?;
        ensure!(sent.success(), "the operator cannot be told to stop");
        let ended =
            eventually("the operator to end", PATIENCE, async || Ok(self.child.try_wait()?));
        ended.await.map(drop)
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn peak_kib(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// utime and stime, fields 14 and 15. Field 2 is the program's name, which may hold anything, and ends in `)`.
fn ticks(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<f64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

fn ticks_per_second() -> Result<f64> {
    let output = Command::new("getconf").arg("CLK_TCK").output().context("no getconf")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.trim().parse().context("getconf CLK_TCK gives no number")
}
