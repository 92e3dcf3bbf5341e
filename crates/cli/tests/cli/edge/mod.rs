//! `kubectl flashjob edge`: the real program against a real operator, and simulated devices as the judges.

mod buckets;
mod ca;
mod check;
mod fleets;
mod golden;
mod keys;
mod requests;
mod roles;
mod workloads;

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use flashjob_sim::edge::site::{EdgeSite, patiently};
use flashjob_sim::edge::{Answer, Device, Manner};
use flashjob_sim::{PATIENCE, eventually};
use kube::ResourceExt;
use kube::api::ListParams;

use crate::site::{Ended, PROGRAM, run};

/// A site of Edge where the program is used.
pub struct EdgeCli {
    site: EdgeSite,
    pub kubeconfig: PathBuf,
}

impl Deref for EdgeCli {
    type Target = EdgeSite;

    fn deref(&self) -> &EdgeSite {
        &self.site
    }
}

impl EdgeCli {
    pub async fn new() -> Result<Self> {
        Self::on(EdgeSite::new().await?)
    }

    pub fn on(site: EdgeSite) -> Result<Self> {
        let kubeconfig = site.cluster.admin_kubeconfig(&site.namespace)?;
        Ok(Self { site, kubeconfig })
    }

    /// Runs the program with nobody to ask. Other tests have devices in other namespaces, so it is told to look in this one.
    pub async fn run(&self, args: &[&str]) -> Ended {
        self.run_as(&self.kubeconfig, args).await
    }

    /// The same as another user.
    pub async fn run_as(&self, kubeconfig: &Path, args: &[&str]) -> Ended {
        self.run_in(kubeconfig, &self.namespace, args).await
    }

    /// The same in another namespace.
    pub async fn run_in(&self, kubeconfig: &Path, namespace: &str, args: &[&str]) -> Ended {
        // One that hangs is a failure, and not the end of the test run.
        let mut command = Command::new("timeout");
        command.args(["120", PROGRAM, "edge"]).args(args).env("KUBECONFIG", kubeconfig);
        command.args(["-n", namespace]);
        tokio::task::spawn_blocking(move || run(command, "")).await.unwrap()
    }

    /// The same for commands that look at the operator's own namespace.
    pub async fn run_at_home(&self, args: &[&str]) -> Ended {
        self.run(&[args, &[&format!("--operator-namespace={}", self.home)]].concat()).await
    }

    /// What is offered for the last of these words.
    pub async fn completed(&self, words: &[&str]) -> String {
        let mut command = Command::new(PROGRAM);
        let (typed, before) = words.split_last().unwrap();
        command.args(["__complete", "edge"]).args(before).args(["-n", &self.namespace, typed]);
        command.env("KUBECONFIG", &self.kubeconfig);
        tokio::task::spawn_blocking(move || run(command, "")).await.unwrap().well()
    }

    /// Watches a list of names that has one to begin with, and another after something was done.
    pub async fn watched(
        &self,
        list: &str,
        first: &'static str,
        act: impl AsyncFnOnce() -> Result<()>,
        then: &'static str,
    ) -> Result<()> {
        let mut command = Command::new(PROGRAM);
        command.args(["edge", list, "--watch", "-o", "name", "-n", &self.namespace]);
        command.env("KUBECONFIG", &self.kubeconfig);
        let (is_listed, listed) = tokio::sync::oneshot::channel();
        let watching = tokio::task::spawn_blocking(move || -> Result<()> {
            let mut terminal = rexpect::session::spawn_command(command, Some(60_000))?;
            terminal.exp_string(first)?;
            let _ = is_listed.send(());
            terminal.exp_string(then)?;
            terminal.send_control('c')?;
            terminal.exp_eof()?;
            Ok(())
        });
        // If the first is not there, it says so itself.
        if listed.await.is_ok() {
            act().await?;
        }
        watching.await?
    }

    /// A device that has come in, and has said so often enough that its EdgeDevice says it, too.
    pub async fn reporting(&self, id: &str) -> Result<Device> {
        let device = self.registered(id, Manner::Ours).await?;
        device.heartbeat().await?;
        eventually(&format!("{id} to be Ready"), PATIENCE, async || {
            let status = self.devices().get(id).await?.status.unwrap_or_default();
            let is_ready =
                status.conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
            Ok(is_ready.then_some(()))
        })
        .await?;
        Ok(device)
    }

    /// The name of the one registration Secret there is.
    pub async fn registration(&self) -> Result<String> {
        let label = ListParams::default().labels("reg-client-ca=true");
        let found = self.secrets().list(&label).await?.items;
        found.first().map(ResourceExt::name_any).context("no registration Secret")
    }

    /// A box that has only its bundle.
    pub async fn new_box(&self, id: &str) -> Result<Device> {
        Device::new(self.options(id, Manner::Ours).await?)
    }
}

/// What a device is answered when the machine has time for it.
pub async fn code(ask: impl AsyncFn() -> Result<Answer>) -> Result<u16> {
    Ok(patiently(ask).await?.code())
}

/// Asks until the answer is this one: the operator hears of what people do a moment later.
pub async fn becomes(what: &str, wanted: u16, ask: impl AsyncFn() -> Result<Answer>) -> Result<()> {
    eventually(what, PATIENCE, async || Ok((ask().await?.code() == wanted).then_some(()))).await
}
