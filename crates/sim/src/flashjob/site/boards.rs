//! A site with simulated boards, on a control plane of its own. Its node's flash Pods are the real flasher.
//!
//! Boards and Services have loopback addresses of their own. Several such sites may stand on one machine: each claims a block
//! of addresses.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_api::flashjob::FlashJob;
use flashjob_api::flashjob::instance::{HOST_ENDPOINT, Instance};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::Value;

use super::{Block, CONFIGURATION, Site};
use crate::cluster::Cluster;
use crate::flashjob::akri::instance_name;
use crate::flashjob::board::Board;
use crate::flashjob::field::{self, Field};
use crate::flashjob::{flash_pod, jobs};
use crate::node::{AddressPool, Images, Kubelet, KubeletOptions, Script, ScriptEnd};
use crate::{Launcher, PATIENCE, eventually, programs};

/// The namespace of boards and jobs.
pub const NAMESPACE: &str = "default";
/// The flasher's image.
const IMAGE: &str = "flasher";
/// Every board listens here: below 1024 would need root.
const BOARD_PORT: u16 = 8080;

/// What such a site is made of.
#[derive(Debug, Clone)]
pub struct SiteOptions {
    /// The operator's program.
    pub operator: PathBuf,
    /// The flasher's program.
    pub flasher: PathBuf,
    /// How many boards.
    pub boards: usize,
    /// Their kinds, in turn.
    pub devices: Vec<String>,
    /// All waits of boards, attestation service and flasher are divided by this.
    pub speed: f64,
    /// How many addresses the load balancer has.
    pub addresses: usize,
}

impl SiteOptions {
    /// With the programs that were built with the one that runs.
    pub async fn new(boards: usize, devices: &[&str]) -> Result<Self> {
        Ok(Self {
            operator: programs::built("flashjob-operator").await?,
            flasher: programs::built("flashjob-flasher").await?,
            boards,
            devices: devices.iter().map(|device| (*device).to_owned()).collect(),
            speed: 20.0,
            addresses: 40,
        })
    }
}

impl Site<Field> {
    /// Starts everything but an operator, and waits until Akri has found every board. `tell` hears what is done next.
    pub async fn with_boards(options: SiteOptions, tell: &dyn Fn(&str)) -> Result<Self> {
        let block = Block::claim()?;
        tell("control plane: etcd and kube-apiserver");
        let cluster = Cluster::installed().await?;
        let operators = Launcher::of(options.operator, &cluster).await?;
        let mut builder = Site::on(&cluster)
            .namespace(NAMESPACE)
            .pool(AddressPool::Addresses(block.services(options.addresses)))
            .operators(operators.with("--log=info").with(format!("--flashjob-image={IMAGE}")))
            .everywhere();
        let namespace = builder.make_namespace().await?;

        tell("registry, attestation service and boards");
        let boards = (0..options.boards).map(|number| block.board(number, BOARD_PORT)).collect();
        let every = Duration::from_secs(10).div_f64(options.speed).max(Duration::from_millis(500));
        let field = field::FieldOptions {
            namespace: namespace.clone(),
            host: Ipv4Addr::LOCALHOST,
            boards,
            devices: options.devices,
            speed: options.speed,
            every,
        };
        let mut field = Field::start(cluster.client("akri")?, field).await?;
        field.block = Some(block);

        tell("node, load balancer and Akri");
        let images = Images::new(&cluster.scratch().join("pods"));
        let images = images.with(IMAGE, flash_pod::flasher(&options.flasher)?);
        let node = KubeletOptions { images: Some(images), ..KubeletOptions::default() };
        let no_image = |_: &Pod| Script::ending(ScriptEnd::ImagePullBackOff);
        let kubelet = Kubelet::start_with(cluster.client("kubelet")?, node, no_image).await?;
        let site = builder.around(namespace, kubelet, field).await?;
        site.field.found().await?;
        Ok(site)
    }

    /// Makes another namespace, in which flashers find what they need. Its jobs flash the same boards and share the addresses.
    pub async fn add_namespace(&self, name: &str) -> Result<()> {
        self.cluster.make_namespace(name).await?;
        self.cluster.apply_yaml_in(name, &self.field.manifest).await
    }

    /// A FlashJob for every board, with this in its spec besides.
    pub async fn flash(&self, name: &str, version: &str, more: Value) -> Result<FlashJob> {
        jobs::create(&self.jobs(), name, self.field.spec(version, more).await?).await
    }

    /// The boards as Akri has them, in order of their names.
    pub async fn instances(&self) -> Result<Vec<Instance>> {
        let mut all = self.api::<Instance>().list(&ListParams::default()).await?.items;
        all.sort_by_key(ResourceExt::name_any);
        Ok(all)
    }

    /// A board as Akri has it.
    pub async fn instance_of(&self, board: &Board) -> Result<Instance> {
        let endpoint = board.endpoint();
        let is_it = |instance: &Instance| {
            instance.spec.broker_properties.get(HOST_ENDPOINT) == Some(&endpoint)
        };
        let found = self.instances().await?.into_iter().find(is_it);
        found.with_context(|| format!("Akri has no board at {endpoint}"))
    }

    /// Waits until Akri has lost a board.
    pub async fn lost(&self, instance: &Instance) -> Result<()> {
        eventually("Akri to lose a board", PATIENCE, async || {
            let all = self.instances().await?;
            Ok((!all.iter().any(|other| other.uid() == instance.uid())).then_some(()))
        })
        .await
    }

    /// A board as a FlashJob names it: `namespace/name` of its Instance, which stays when the Instance goes and comes.
    pub fn device_name(&self, board: &Board) -> String {
        format!("{NAMESPACE}/{}", instance_name(CONFIGURATION, &board.endpoint(), None))
    }
}
