//! A fresh operator process for each measurement, as the shipped ServiceAccount, and what it used up.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flashjob_sim::cluster::Gate;
use flashjob_sim::{Usage, eventually};

use crate::bed::Bed;

const PROGRAM: &str = env!("CARGO_BIN_EXE_flashjob-operator");

/// A list of 100,000 Instances takes more than a minute where others are at work, too.
const PATIENCE: Duration = Duration::from_secs(600);

/// A running operator. It is killed when dropped.
pub struct Operator {
    child: Child,
    log: PathBuf,
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
        Usage::of(self.child.id())
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
