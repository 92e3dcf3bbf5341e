//! A site under test: a namespace with boards, a kubelet and a load balancer, and operators that look after it.

use anyhow::{Context, Result};
use flashjob_api::flashjob::instance::Instance;
use flashjob_api::flashjob::{FlashJob, FlashJobStatus, Phase};
use flashjob_sim::cluster::{Cluster, Gate};
use flashjob_sim::flashjob::Akri;
pub use flashjob_sim::flashjob::installed::INSTALL;
use flashjob_sim::node::{Kubelet, LoadBalancer, Pool, Script};
pub use flashjob_sim::{Launcher, Operator, PATIENCE, eventually};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

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
        let mut boards: Vec<String> =
            self.kubelet.starts().into_iter().map(|start| start.endpoint).collect();
        boards.sort();
        boards
    }

    /// An operator for this namespace, as the shipped ServiceAccount.
    pub async fn operator(&self) -> Result<Operator> {
        self.operator_with(&[], None).await
    }

    /// The same with more flags, and behind a gate.
    pub async fn operator_with(&self, flags: &[&str], gate: Option<&Gate>) -> Result<Operator> {
        let operators = Launcher::new(&self.cluster).await?;
        operators.with(format!("--namespace={}", self.namespace)).start(flags, gate)
    }
}

/// The uids of boards, as a job names them.
pub fn uids(boards: &[Instance]) -> Vec<String> {
    boards.iter().filter_map(ResourceExt::uid).collect()
}
