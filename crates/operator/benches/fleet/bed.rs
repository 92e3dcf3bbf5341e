//! The test bed: a control plane of its own for each measurement, so that none pays for the objects of another.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use flashjob_api::flashjob::{FlashJob, Phase};
use flashjob_sim::cluster::{AuditEntry, Cluster, Gate, Options};
use flashjob_sim::flashjob::Akri;
use flashjob_sim::node::{Kubelet, LoadBalancer, Pool, Script};
use flashjob_sim::{Launcher, Operator, eventually};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{ListParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// The job's name; each namespace has one job.
pub const JOB: &str = "flashjob";

/// Devices at once, in rollouts and in their floors.
pub const PARALLEL: usize = 64;

/// How long an operator may take to know the devices: a list of 100,000 Instances takes more than a minute where others are at
/// work, too.
const LISTED: Duration = Duration::from_secs(600);

/// How long no write is added to the audit log when all are there.
const QUIET: Duration = Duration::from_millis(500);

/// A control plane with the operator's manifests and Akri's CRD.
pub struct Bed {
    pub cluster: Cluster,
    pub operators: Launcher,
}

impl Bed {
    pub async fn start() -> Result<Bed> {
        // 10,000 devices fill an audit log of the default size, and only the newest file is read.
        let options = Options { api_server_args: vec!["--audit-log-maxsize=10000".to_owned()] };
        let cluster = Cluster::start_with(&options).await?;
        cluster.install().await?;
        let operators = Launcher::new(&cluster).await?.with("--log=info");
        Ok(Bed { cluster, operators })
    }

    /// A fresh operator for a site; it works once it has the lease. With a gate, its calls go through that.
    pub fn operator(&self, site: &Site, gate: Option<&Gate>) -> Result<Operator> {
        self.operators.start(&[&format!("--namespace={}", site.namespace)], gate)
    }

    /// The same once it knows the devices, so that what follows is the work and not the start.
    pub async fn ready_operator(&self, site: &Site, gate: Option<&Gate>) -> Result<Operator> {
        let operator = self.operator(site, gate)?;
        operator.has_listed("instances", LISTED).await?;
        Ok(operator)
    }

    /// A namespace with a kubelet that does as `script` says, and a load balancer that never runs out of addresses.
    pub async fn site(&self, script: Script) -> Result<Site> {
        let namespace = self.cluster.namespace("fleet").await?;
        let kubelet =
            Kubelet::start(self.cluster.client("kubelet")?, &namespace, move |_| script.clone());
        let balancer = LoadBalancer::start(
            self.cluster.client("load-balancer")?,
            Some(&namespace),
            Pool::of(10_000),
        );
        let client = self.cluster.client("admin")?;
        let akri = Akri::new(self.cluster.client("akri")?, &namespace, "http-disc");
        Ok(Site { namespace, client, akri, kubelet, balancer })
    }

    /// What operators have written in a namespace, once no more is added: an object is gone before its deletion is answered,
    /// and a call is in the audit log when it is answered.
    pub async fn writes_settled(&self, namespace: &str) -> Result<Vec<AuditEntry>> {
        let mut writes = self.operators.writes(namespace)?;
        loop {
            sleep(QUIET).await;
            let before = std::mem::replace(&mut writes, self.operators.writes(namespace)?);
            if before.len() == writes.len() {
                return Ok(writes);
            }
        }
    }
}

/// A namespace with boards, a kubelet and a load balancer.
pub struct Site {
    pub namespace: String,
    pub client: Client,
    pub akri: Akri,
    pub kubelet: Kubelet,
    #[expect(dead_code, reason = "it works as long as it is held")]
    balancer: LoadBalancer,
}

impl Site {
    /// So many boards, as Akri would find them; their uids.
    pub async fn boards(&self, count: usize) -> Result<Vec<String>> {
        let boards = stream::iter(0..count).map(|number| self.board(number));
        boards.buffered(PARALLEL).try_collect().await
    }

    async fn board(&self, number: usize) -> Result<String> {
        // Akri's own names are three bytes of a hash, of which two are the same among 10,000.
        let name = format!("http-disc-{number:06x}");
        let endpoint = format!("10.{}.{}.{}", number >> 16, (number >> 8) & 255, number & 255);
        let instance =
            self.akri.discover_named(&name, &endpoint, "esp32", "thermo", "0.1.0").await?;
        instance.uid().context("an Instance without a uid")
    }

    pub fn jobs(&self) -> Api<FlashJob> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates the job for these boards.
    pub async fn flash(&self, boards: &[String], parallel: usize, suspend: bool) -> Result<()> {
        self.create(json!({ "uuid": boards, "suspend": suspend }), parallel).await
    }

    /// Creates the job for all boards there are.
    pub async fn flash_all(&self, parallel: usize) -> Result<()> {
        self.create(json!({ "deviceSelector": { "device": "esp32" } }), parallel).await
    }

    async fn create(&self, devices: Value, parallel: usize) -> Result<()> {
        let mut spec = json!({
            "device": "esp32",
            "firmware": "registry.example/esp32:0.2.0",
            "version": "0.2.0",
            "flashjobPodImage": "registry.example/flasher:1",
            "rollout": { "maxParallel": parallel },
        });
        if let (Some(spec), Value::Object(devices)) = (spec.as_object_mut(), devices) {
            spec.extend(devices);
        }
        let job: FlashJob = serde_json::from_value(json!({
            "apiVersion": "application.flashjob.nbfc.io/v1alpha1",
            "kind": "FlashJob",
            "metadata": { "name": JOB },
            "spec": spec,
        }))?;
        self.jobs().create(&PostParams::default(), &job).await.context("no job was made")?;
        Ok(())
    }

    /// Waits until a watch says that the job is in this phase. A job that has failed is an error.
    pub async fn reaches(&self, phase: Phase, limit: Duration) -> Result<()> {
        let of = |job: Option<&FlashJob>| job.and_then(|job| job.status.as_ref()?.phase);
        let reached = await_condition(self.jobs(), JOB, move |job: Option<&FlashJob>| {
            of(job).is_some_and(|now| now == phase || now == Phase::Failed)
        });
        let job = within(limit, &format!("the job to be {phase:?}"), reached).await?;
        let job = job.context("the job cannot be watched")?;
        match of(job.as_ref()) {
            Some(now) if now == phase => Ok(()),
            _ => {
                let status = job.and_then(|job| job.status);
                bail!("the job failed: {:?}", status.and_then(|status| status.message))
            }
        }
    }

    /// Waits until no Pod and no Service is left.
    pub async fn cleaned_up(&self, devices: usize) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let services: Api<Service> = Api::namespaced(self.client.clone(), &self.namespace);
        // One is as good as all to know that something is left.
        let one = ListParams::default().limit(1);
        eventually("all Pods and Services to be gone", patience(devices), async || {
            let left = pods.list(&one).await?.items.len() + services.list(&one).await?.items.len();
            Ok((left == 0).then_some(()))
        })
        .await
    }
}

/// How long anything with so many devices may take before the benchmark gives up: far longer than it takes.
pub fn patience(devices: usize) -> Duration {
    Duration::from_secs(90)
        + Duration::from_millis(250) * u32::try_from(devices).unwrap_or(u32::MAX)
}

/// Waits for something, but not for ever.
pub async fn within<T>(limit: Duration, what: &str, wait: impl Future<Output = T>) -> Result<T> {
    let waited = timeout(limit, wait).await;
    waited.with_context(|| format!("waited {limit:?} in vain for {what}"))
}

/// The time by the machine's clock, which is the API server's too.
#[expect(clippy::disallowed_methods, reason = "what is measured is real time")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Seconds from one time to another.
pub fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}
