//! A site under test: a namespace with boards, a kubelet and a load balancer, and operators that look after it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use flashjob_api::flashjob::instance::Instance;
use flashjob_api::flashjob::{FlashJob, FlashJobStatus, Phase};
use flashjob_sim::cluster::{Cluster, Gate};
use flashjob_sim::eventually;
pub use flashjob_sim::flashjob::installed::INSTALL;
use flashjob_sim::flashjob::{Akri, Flash};
use flashjob_sim::node::{Kubelet, LoadBalancer, Pool, Script};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

/// How long anything may take before a test gives up; far longer than it takes.
pub const PATIENCE: Duration = Duration::from_secs(90);

const OPERATOR: &str = env!("CARGO_BIN_EXE_flashjob-operator");

/// The cluster all tests share, with the operator's manifests and Akri's CRD applied.
pub async fn cluster() -> Result<&'static Cluster> {
    Cluster::shared_installed().await
}

pub struct Site {
    pub cluster: Cluster,
    pub namespace: String,
    pub client: Client,
    pub akri: Akri,
    pub kubelet: Kubelet,
    pub balancer: LoadBalancer,
}

impl Site {
    /// A namespace of the shared cluster whose Pods go as `script` says.
    pub async fn new(script: impl Fn(&Pod) -> Script + Send + Sync + 'static) -> Result<Site> {
        let cluster = cluster().await?;
        let namespace = cluster.namespace("site").await?;
        Site::at(cluster, &namespace, script)
    }

    /// The same in a given namespace of a given cluster.
    pub fn at(
        cluster: &Cluster,
        namespace: &str,
        script: impl Fn(&Pod) -> Script + Send + Sync + 'static,
    ) -> Result<Site> {
        let client = cluster.client("admin")?;
        let akri = Akri::new(cluster.client("akri")?, namespace, "http-disc");
        let kubelet = Kubelet::start(cluster.client("kubelet")?, namespace, script);
        let balancer =
            LoadBalancer::start(cluster.client("load-balancer")?, Some(namespace), Pool::of(10));
        Ok(Site {
            cluster: cluster.clone(),
            namespace: namespace.to_owned(),
            client,
            akri,
            kubelet,
            balancer,
        })
    }

    /// Two boards, as Akri finds them.
    pub async fn two_boards(&self) -> Result<[Instance; 2]> {
        Ok([self.board("192.0.2.11").await?, self.board("192.0.2.12").await?])
    }

    pub async fn board(&self, endpoint: &str) -> Result<Instance> {
        self.akri.discover(endpoint, "esp32", "thermo", "0.1.0").await
    }

    pub fn jobs(&self) -> Api<FlashJob> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The documented sample, for these boards.
    pub async fn flash(&self, name: &str, boards: &[Instance]) -> Result<FlashJob> {
        self.flash_with(name, json!({ "uuid": uids(boards) })).await
    }

    /// The same with more in its spec.
    pub async fn flash_with(&self, name: &str, more: Value) -> Result<FlashJob> {
        let mut spec = json!({
            "device": "esp32",
            "firmware": "registry.example/esp32:0.2.0",
            "version": "0.2.0",
            "flashjobPodImage": "registry.example/flasher:1",
        });
        if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
            spec.extend(more);
        }
        let job = FlashJob::new(name, serde_json::from_value(spec)?);
        Ok(self.jobs().create(&PostParams::default(), &job).await?)
    }

    /// Changes a job's spec.
    pub async fn edit(&self, name: &str, change: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": change }));
        self.jobs().patch(name, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// So many boards, as Akri finds them: 192.0.2.11 and on.
    pub async fn boards(&self, count: usize) -> Result<Vec<Instance>> {
        let mut boards = Vec::new();
        for n in 0..count {
            boards.push(self.board(&format!("192.0.2.{}", 11 + n)).await?);
        }
        Ok(boards)
    }

    /// Waits until the job's status is as `wanted`.
    pub async fn status(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&FlashJobStatus) -> bool,
    ) -> Result<FlashJobStatus> {
        let jobs = self.jobs();
        let mut last = None;
        let reached = eventually(what, PATIENCE, async || {
            let job = jobs.get(name).await?;
            last = job.status.clone();
            Ok(job.status.filter(|s| wanted(s)))
        })
        .await;
        reached.with_context(|| format!("the last status of {name} was {last:#?}"))
    }

    pub async fn phase(&self, name: &str, phase: Phase) -> Result<FlashJobStatus> {
        let what = format!("{name} to be {phase:?}");
        self.status(name, &what, |status| status.phase == Some(phase)).await
    }

    /// Waits until no Pod and no Service is left in the namespace.
    pub async fn cleaned_up(&self) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let services: Api<Service> = Api::namespaced(self.client.clone(), &self.namespace);
        let all = ListParams::default();
        eventually("all Pods and Services to be gone", PATIENCE, async || {
            let left = pods.list(&all).await?.items.len() + services.list(&all).await?.items.len();
            Ok((left == 0).then_some(()))
        })
        .await
    }

    /// The ledgers in the namespace.
    pub async fn ledgers(&self) -> Result<Vec<ConfigMap>> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let selector = "application.flashjob.nbfc.io/ledger-shard";
        Ok(maps.list(&ListParams::default().labels(selector)).await?.items)
    }

    /// The boards whose flash container was started, in order of their addresses.
    pub fn flashed(&self) -> Vec<String> {
        let starts = self.kubelet.starts();
        let flashes = starts.iter().filter(|start| start.is_flash());
        let mut boards: Vec<String> = flashes.map(|start| start.endpoint().to_owned()).collect();
        boards.sort();
        boards
    }

    /// An operator for this namespace, as the shipped ServiceAccount.
    pub async fn operator(&self) -> Result<Operator> {
        self.operator_with(&[], None).await
    }

    /// The same with more flags, and behind a gate.
    pub async fn operator_with(&self, flags: &[&str], gate: Option<&Gate>) -> Result<Operator> {
        let namespace = format!("--namespace={}", self.namespace);
        let mut all = vec![namespace.as_str()];
        all.extend(flags);
        Operator::start(&self.cluster, &all, gate).await
    }
}

/// A running operator. It is killed when dropped.
pub struct Operator {
    child: Child,
    log: PathBuf,
}

impl Operator {
    pub async fn start(cluster: &Cluster, flags: &[&str], gate: Option<&Gate>) -> Result<Operator> {
        let account = "operator-controller-manager";
        let token = cluster.service_account_token("operator-system", account).await?;
        let url = gate.map(Gate::url);
        let kubeconfig = cluster.kubeconfig(&token, "operator-system", url.as_deref())?;
        let log = kubeconfig.with_extension("log");
        let mut command = Command::new(OPERATOR);
        command
            .arg("run")
            .args(flags)
            .env("KUBECONFIG", kubeconfig)
            .env("RUST_LOG", "info,flashjob_operator=debug")
            .stdin(Stdio::null())
            .stderr(std::fs::File::create(&log)?);
        if !flags.iter().any(|flag| flag.starts_with("--health-probe-bind-address")) {
            command.arg("--health-probe-bind-address=0");
        }
        let child = command.spawn().context("the operator cannot be started")?;
        Ok(Operator { child, log })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) -> Result<()> {
        signal(self.pid(), name)
    }

    /// Waits until it has ended by itself; says how long that took.
    pub async fn ended(&mut self) -> Result<(std::process::ExitStatus, Duration)> {
        let began = tokio::time::Instant::now();
        let status =
            eventually("the operator to end", PATIENCE, async || Ok(self.child.try_wait()?))
                .await?;
        Ok((status, began.elapsed()))
    }

    /// Whether it has ended, by itself or by a signal.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the log says something.
    pub async fn says(&self, words: &str) -> Result<()> {
        let what = format!("the operator to say {words:?}");
        eventually(&what, PATIENCE, async || Ok(self.log().contains(words).then_some(()))).await
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("--- the operator's log\n{}", self.log());
        }
    }
}

/// The uids of boards, as a job names them.
pub fn uids(boards: &[Instance]) -> Vec<String> {
    boards.iter().filter_map(ResourceExt::uid).collect()
}

/// Sends a signal to a process of ours.
pub fn signal(pid: u32, name: &str) -> Result<()> {
    // 0 would be the whole process group, this test included.
    anyhow::ensure!(pid != 0, "the process is not known yet");
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status()?;
    if !sent.success() {
        bail!("kill -s {name} {pid} failed");
    }
    Ok(())
}
