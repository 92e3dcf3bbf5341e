//! A namespace with boards, an operator that looks after it, and the program under test.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_api::flashjob::instance::Instance;
use flashjob_api::flashjob::{FlashJob, FlashJobStatus, Phase};
use flashjob_sim::cluster::Cluster;
use flashjob_sim::flashjob::{Akri, installed};
use flashjob_sim::node::{Kubelet, LoadBalancer, Pool, Script};
use flashjob_sim::{Running, eventually};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_kubectl-flashjob");
/// How long anything may take; far longer than it does.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// The folder of all programs.
pub async fn programs() -> Result<&'static Path> {
    let wanted =
        [("flashjob-operator", "flashjob-operator"), ("flashjob-flasher", "flashjob-flasher")];
    installed::programs(PROGRAM, &wanted).await
}

/// How the program ended, and what it said.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ended {
    /// It ended well; what it said to programs.
    pub fn well(self) -> String {
        assert_eq!(self.code, 0, "{self:#?}");
        self.out
    }

    /// It ended with this code, and said these words to people.
    pub fn badly(self, code: i32, words: &str) {
        assert!(self.code == code && self.err.contains(words), "{self:#?}");
        assert!(!self.err.contains("panicked"), "{self:#?}");
    }
}

pub struct Site {
    pub cluster: Cluster,
    pub namespace: String,
    pub client: Client,
    pub akri: Akri,
    pub kubelet: Kubelet,
    pub kubeconfig: PathBuf,
    _balancer: LoadBalancer,
    operator: Option<Running>,
}

impl Site {
    pub async fn new(script: impl Fn(&Pod) -> Script + Send + Sync + 'static) -> Result<Site> {
        let cluster = Cluster::shared_installed().await?;
        let namespace = cluster.namespace("cli").await?;
        let akri = Akri::new(cluster.client("akri")?, &namespace, "http-disc");
        let kubelet = Kubelet::start(cluster.client("kubelet")?, &namespace, script);
        let balancer =
            LoadBalancer::start(cluster.client("load-balancer")?, Some(&namespace), Pool::of(10));
        let token = cluster.token("admin").context("no token")?;
        let kubeconfig = cluster.kubeconfig(token, &namespace, None)?;
        Ok(Site {
            cluster: cluster.clone(),
            client: cluster.client("admin")?,
            namespace,
            akri,
            kubelet,
            kubeconfig,
            _balancer: balancer,
            operator: None,
        })
    }

    /// Starts the operator for this namespace.
    pub async fn operator(&mut self) -> Result<()> {
        let account = "operator-controller-manager";
        let token = self.cluster.service_account_token("operator-system", account).await?;
        let kubeconfig = self.cluster.kubeconfig(&token, "operator-system", None)?;
        let log = kubeconfig.with_extension("log");
        let args = [
            "run".to_owned(),
            "--health-probe-bind-address=0".to_owned(),
            "--flashjob-image=registry.example/flasher:1".to_owned(),
            format!("--namespace={}", self.namespace),
        ];
        let env = [("KUBECONFIG".to_owned(), kubeconfig.display().to_string())];
        let program = programs().await?.join("flashjob-operator");
        self.operator = Some(Running::start_with(&program, &args, Some(&env.into()), log)?);
        Ok(())
    }

    /// The address of a board here. A board is one board in all namespaces, so each test has its own.
    pub fn address(&self, n: usize) -> String {
        let site = self.namespace.rsplit('-').next().unwrap_or_default();
        format!("10.9.{site}.{n}")
    }

    /// So many boards, as Akri finds them.
    pub async fn boards(&self, count: usize) -> Result<Vec<Instance>> {
        let mut boards = Vec::new();
        for n in 0..count {
            boards.push(self.akri.discover(&self.address(n), "esp32", "thermo", "0.1.0").await?);
        }
        Ok(boards)
    }

    /// Runs the program with nobody to ask.
    pub async fn run(&self, args: &[&str]) -> Ended {
        self.run_as(&self.kubeconfig, args, "").await
    }

    /// The same with another kubeconfig, and with something to read. Other tests have devices in other namespaces, so it is
    /// told to look in this one if it is told nothing else.
    pub async fn run_as(&self, kubeconfig: &Path, args: &[&str], input: &str) -> Ended {
        // One that hangs is a failure, and not the end of the test run.
        let mut command = Command::new("timeout");
        command.args(["120", PROGRAM]).args(args).env("KUBECONFIG", kubeconfig);
        if !args.iter().any(|arg| arg.starts_with("-n") || *arg == "__complete") {
            command.args(["-n", &self.namespace]);
        }
        let input = input.to_owned();
        tokio::task::spawn_blocking(move || run(command, &input)).await.unwrap()
    }

    pub fn jobs(&self) -> Api<FlashJob> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub async fn status(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&FlashJobStatus) -> bool,
    ) -> Result<FlashJobStatus> {
        let jobs = self.jobs();
        eventually(what, PATIENCE, async || Ok(jobs.get(name).await?.status.filter(|s| wanted(s))))
            .await
    }

    pub async fn phase(&self, name: &str, phase: Phase) -> Result<FlashJobStatus> {
        let what = format!("{name} to be {phase:?}");
        self.status(name, &what, |status| status.phase == Some(phase)).await
    }
}

/// Runs a command to its end.
pub fn run(mut command: Command, input: &str) -> Ended {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may have ended without reading.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap_or(-1);
    Ended { code, out: text(output.stdout), err: text(output.stderr) }
}
