//! The cluster with the operator in it, and the boards beside it.

use std::collections::BTreeSet;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flashjob_api::flashjob::{Phase, flash_pod};
use flashjob_sim::eventually;
use flashjob_sim::flashjob::akri::INSTANCE_CRD;
use flashjob_sim::flashjob::field::{self, Field};
use flashjob_sim::node::real::{self as node, Node};
pub use flashjob_sim::operator::{ACCOUNT as OPERATOR, NAMESPACE as SYSTEM};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};

use crate::kubectl::Kubectl;
use crate::operator_log::OperatorLog;
use crate::settings::{Place, Settings};
use crate::{objects, tell};

/// The namespace of boards and jobs.
pub const NAMESPACE: &str = "flashjob-e2e";
const BOARDS: u8 = 6;
/// Waits are this many times shorter than in the field. Not more: what a machine takes to start a container is not.
const SPEED: f64 = 5.0;

/// Everything a scenario needs.
pub struct NodeSite {
    pub client: Client,
    pub kubeconfig: PathBuf,
    pub kubectl: Kubectl,
    pub field: Field,
    /// What the cluster had before anything of ours came.
    pub before: BTreeSet<String>,
    /// Whether Akri's CRD is ours to take away.
    pub akri_is_ours: bool,
    log: OperatorLog,
    /// The node, unless the cluster is somebody else's.
    pub node: Option<Node>,
}

impl NodeSite {
    pub async fn start(settings: &Settings) -> Result<Self> {
        let (node, kubeconfig, host) = match &settings.place {
            Place::Existing(kubeconfig, host) => (None, kubeconfig.clone(), *host),
            Place::Here(programs, images, cgroup) => {
                let options = node::NodeOptions {
                    programs: programs.clone(),
                    images: archives(images)?,
                    cgroup: cgroup.clone(),
                    addresses: BOARDS,
                    port: flash_pod::PORT,
                };
                let node = Node::start(options, &tell).await?;
                let kubeconfig = node.kubeconfig()?;
                (Some(node), kubeconfig, node::HOST)
            }
        };
        // Behind the fence nothing may be written to a home folder.
        let cache = node.as_ref().map(|_| kubeconfig.with_extension("cache"));
        let kubectl = Kubectl::new(&kubeconfig, cache);
        let config = Kubeconfig::read_from(&kubeconfig)?;
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        let before = objects::all(&client).await?;
        let crd = |name: &str| format!("CustomResourceDefinition.apiextensions.k8s.io /{name}");
        let ours = [
            format!("Namespace. /{NAMESPACE}"),
            format!("Namespace. /{SYSTEM}"),
            crd("flashjobs.application.flashjob.nbfc.io"),
        ];
        for taken in ours {
            ensure!(!before.contains(&taken), "{taken} is there already: nothing was touched");
        }

        tell("make deploy");
        let akri_is_ours = !before.contains(&crd("instances.akri.sh"));
        let images =
            [format!("IMG={}", settings.image), format!("FLASHER_IMG={}", settings.flasher_image)];
        kubectl.make("deploy", &images)?;
        if akri_is_ours {
            kubectl.feed(&["apply", "--validate=false", "-f", "-"], INSTANCE_CRD)?;
        }
        kubectl.run(&["create", "namespace", NAMESPACE])?;
        let rollout = ["rollout", "status", "deployment", OPERATOR, "-n", SYSTEM, "--timeout=180s"];
        kubectl.run(&rollout).with_context(|| {
            let pods = kubectl.run(&["describe", "pods", "-n", SYSTEM]);
            format!("the operator does not start: {}", pods.unwrap_or_default())
        })?;
        let log = OperatorLog::follow(client.clone());

        tell("boards, registry, attestation service and Akri's agent");
        let board = |number: u8| match &node {
            Some(node) => node.device(number, 8080),
            None => Ok(SocketAddrV4::new(host, 18080 + u16::from(number))),
        };
        let boards = (1..=BOARDS).map(board).collect::<Result<_>>()?;
        let options = field::FieldOptions {
            namespace: NAMESPACE.to_owned(),
            host,
            boards,
            devices: vec!["esp32s2".to_owned()],
            speed: SPEED,
            every: Duration::from_millis(500),
        };
        let field = Field::start(client.clone(), options).await?;
        field.found().await?;
        Ok(Self { client, kubeconfig, kubectl, field, before, akri_is_ours, log, node })
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// The Pods of the operator.
    pub async fn operators(&self) -> Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), SYSTEM);
        Ok(pods.list(&ListParams::default()).await?.items)
    }

    /// Waits until so many boards run a version.
    pub async fn flashed(&self, version: &str, count: usize) -> Result<()> {
        eventually("some boards to be flashed", crate::PATIENCE, async || {
            Ok((self.field.run(version) >= count).then_some(()))
        })
        .await
    }

    /// A finished job has told the truth, and goes without a trace.
    pub async fn account_for(&self, job: &str, version: &str) -> Result<()> {
        let status = self.field.finished(job, crate::PATIENCE).await?;
        ensure!(status.phase == Some(Phase::Completed), "{status:#?}");
        self.field.agrees(&status, version)?;
        let uid = self.field.jobs().get(job).await?.uid();
        self.kubectl.run(&["delete", "flashjob", job, "-n", NAMESPACE, "--timeout=60s"])?;
        eventually("a deleted job to be gone with all it has made", crate::PATIENCE, async || {
            Ok(self.owned_by(uid.as_deref()).await?.is_empty().then_some(()))
        })
        .await
    }

    /// What a job has made, and is still there.
    async fn owned_by(&self, uid: Option<&str>) -> Result<Vec<String>> {
        let all = ListParams::default();
        let services: Api<Service> = Api::namespaced(self.client.clone(), NAMESPACE);
        let ledgers: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut objects = Vec::new();
        objects.extend(self.pods().list(&all).await?.items.into_iter().map(|o| o.metadata));
        objects.extend(services.list(&all).await?.items.into_iter().map(|o| o.metadata));
        objects.extend(ledgers.list(&all).await?.items.into_iter().map(|o| o.metadata));
        objects.retain(|object| {
            let mut owners = object.owner_references.iter().flatten();
            owners.any(|owner| Some(owner.uid.as_str()) == uid)
        });
        Ok(objects.into_iter().filter_map(|object| object.name).collect())
    }

    /// No operator has panicked, or ended in another way it should not.
    pub fn operator_is_well(&self) -> Result<()> {
        let alarms = self.log.alarms();
        ensure!(alarms.is_empty(), "the operator is not well: {alarms:#?}");
        Ok(())
    }

    /// What operators have said so far, each line behind the name of its Pod.
    pub fn operator_lines(&self) -> Vec<String> {
        self.log.lines()
    }

    /// What a person would look at first.
    pub async fn last_words(&self) -> String {
        let look =
            |args: &[&str]| self.kubectl.run(args).unwrap_or_else(|error| format!("{error:#}"));
        let lines = self.log.lines();
        let lines = lines[lines.len().saturating_sub(60)..].join("\n");
        let pods = look(&["get", "pods,services", "-A", "-o", "wide"]);
        let jobs = look(&["get", "flashjobs", "-A", "-o", "yaml"]);
        let events = look(&["get", "events", "-A", "--sort-by=.lastTimestamp"]);
        let events: Vec<&str> = events.lines().rev().take(40).collect();
        format!("{pods}\n{jobs}\n{}\n{lines}", events.join("\n"))
    }
}

fn archives(folder: &Path) -> Result<Vec<PathBuf>> {
    let files = std::fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    Ok(files.collect::<Result<Vec<_>, _>>()?.into_iter().map(|file| file.path()).collect())
}
