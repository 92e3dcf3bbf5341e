//! A whole site on one machine: control plane, registry, attestation service, load balancer, Akri, boards, and a node
//! whose flash Pods are the real flasher. The operator is the real one too, as a process with the rights `dist/install.yaml`
//! gives it.
//!
//! Boards and Services have loopback addresses of their own. Several stages may stand on one machine: each claims a block
//! of addresses.

mod account;
mod block;
mod rooms;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_api::flashjob::flash_pod::{SETTINGS, TLS_SECRET};
use flashjob_api::flashjob::instance::{HOST_ENDPOINT, Instance};
use flashjob_api::flashjob::{FlashJob, FlashJobStatus};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

pub use self::account::{Account, Entry, Outcome};
pub use self::block::Block;
use crate::cluster::Cluster;
use crate::flashjob::akri::{Agent, Akri};
use crate::flashjob::registry::sign::Signer;
use crate::flashjob::{Attestation, Board, BoardOptions, KeyKind, Registry, ServerCert, flash_pod};
use crate::node::load_balancer::{LoadBalancer, Pool};
use crate::node::{End, Images, Kubelet, KubeletOptions, Script};
use crate::process::{Running, Scratch};
use crate::{Usage, eventually};

/// The namespace of boards and jobs.
pub const NAMESPACE: &str = "default";
/// The name of Akri's Configuration.
pub const CONFIGURATION: &str = "http-disc";
/// The version boards come with.
pub const OLD_VERSION: &str = "0.1.0";
/// The flasher's image.
const IMAGE: &str = "flasher";
/// Every board listens here: below 1024 would need root.
const BOARD_PORT: u16 = 8080;
/// How long anything may take to come about; far longer than it does.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is put on the stage.
#[derive(Debug, Clone)]
pub struct Options {
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

/// A site at work. It ends when this is dropped, and also when our process ends in whatever way.
pub struct Stage {
    /// What it was made of.
    pub options: Options,
    /// The boards, in the order of their addresses.
    pub boards: Vec<Board>,
    /// The node.
    pub node: Kubelet,
    /// The control plane.
    pub cluster: Cluster,
    /// The registry.
    pub registry: Registry,
    /// What may do everything.
    pub client: Client,
    signer: Signer,
    operator: Option<Running>,
    /// How many operators were started so far.
    lives: usize,
    /// The load balancer.
    pub balancer: LoadBalancer,
    _agent: Agent,
    _attestation: Attestation,
    _block: Block,
    scratch: Scratch,
}

impl Stage {
    /// Starts everything but the operator, and waits until Akri has found every board. `tell` hears what is done next.
    pub async fn start(options: Options, tell: &dyn Fn(&str)) -> Result<Self> {
        let scratch = Scratch::new("flashjob-stage-")?;
        let block = Block::claim()?;
        tell("control plane: etcd and kube-apiserver");
        let cluster = Cluster::start().await?;
        cluster.install().await?;
        cluster.make_namespace(NAMESPACE).await?;
        let client = cluster.client("admin")?;

        tell("registry, attestation service and boards");
        let registry = Registry::start().await?;
        let attestation = Attestation::start(options.speed).await?;
        let certificate = ServerCert::self_signed(KeyKind::P256)?;
        let mut boards = Vec::new();
        for number in 0..options.boards {
            let device = options.devices[number % options.devices.len()].clone();
            let mut board = BoardOptions::new(&certificate.chain)?;
            board.address = block.board(number, BOARD_PORT);
            board.version = OLD_VERSION.to_owned();
            board.application = "thermo".to_owned();
            board.device = device;
            board.speed = options.speed;
            // With its way back into the Wi-Fi: long enough for Akri to miss it.
            board.restart_takes = Duration::from_secs(12);
            // The flasher's own steps take real time.
            board.bears_silence = Duration::from_secs(60).mul_f64(options.speed);
            let board = Board::start(board).await?;
            attestation.enrol(&board.identity()?.root_pem())?;
            boards.push(board);
        }
        let signer = Signer::generate()?;
        let settings = json!({
            "DICE_AUTH_URL": attestation.url(),
            "COSIGN_PUBLIC_KEY": signer.public_pem(),
            "REGISTRY_PLAIN_HTTP": "1",
            "BOARD_SPEED": options.speed.to_string(),
        });
        set_up_flasher(&client, &certificate, settings).await?;

        tell("node, load balancer and Akri");
        let images = Images::new(scratch.path()).with(IMAGE, flash_pod::flasher(&options.flasher)?);
        let node_options = KubeletOptions { images: Some(images), ..KubeletOptions::default() };
        let no_image = |_: &Pod| Script::ending(End::ImagePullBackOff);
        let node = Kubelet::start_with(cluster.client("kubelet")?, node_options, no_image).await?;
        let pool = Pool::Addresses(block.services(options.addresses));
        let balancer = LoadBalancer::start(cluster.client("load-balancer")?, None, pool);
        let akri = Akri::new(cluster.client("akri")?, NAMESPACE, CONFIGURATION);
        let every = Duration::from_secs(10).div_f64(options.speed).max(Duration::from_millis(500));
        let agent = Agent::start(&akri, boards.iter().map(Board::endpoint).collect(), every)?;
        let stage = Self {
            options,
            boards,
            node,
            cluster,
            registry,
            client,
            signer,
            operator: None,
            lives: 0,
            balancer,
            _agent: agent,
            _attestation: attestation,
            _block: block,
            scratch,
        };
        let count = stage.boards.len();
        eventually("Akri to find every board", PATIENCE, async || {
            Ok((stage.instances().await?.len() == count).then_some(()))
        })
        .await?;
        Ok(stage)
    }

    /// Starts the operator. One that runs is killed first, as the end of its node would.
    pub async fn start_operator(&mut self) -> Result<()> {
        self.start_operator_with(&[]).await
    }

    /// The same with more flags.
    pub async fn start_operator_with(&mut self, flags: &[&str]) -> Result<()> {
        self.operator = None;
        self.lives += 1;
        let account = "operator-controller-manager";
        let token = self.cluster.service_account_token("operator-system", account).await?;
        let kubeconfig = self.cluster.kubeconfig(&token, "operator-system", None)?;
        let image = format!("--flashjob-image={IMAGE}");
        let args = ["run", "--health-probe-bind-address=0", &image];
        let args: Vec<String> = args.iter().chain(flags).map(|flag| (*flag).to_owned()).collect();
        let env = [("KUBECONFIG".to_owned(), kubeconfig.display().to_string())].into();
        let log = self.operator_log();
        self.operator = Some(Running::start_with(&self.options.operator, &args, Some(&env), log)?);
        Ok(())
    }

    /// What the operator has used up.
    pub fn operator_usage(&self) -> Result<Usage> {
        let operator = self.operator.as_ref().context("no operator runs")?;
        Usage::of(operator.pid().unsigned_abs())
    }

    /// Whether an operator runs that was started.
    pub fn operator_runs(&mut self) -> bool {
        self.operator.as_mut().is_some_and(|operator| !operator.has_ended())
    }

    /// What the operator says.
    pub fn operator_log(&self) -> PathBuf {
        self.log_of(self.lives)
    }

    /// What all operators have said, the one that runs included.
    pub fn operator_logs(&self) -> Vec<PathBuf> {
        (1..=self.lives).map(|life| self.log_of(life)).collect()
    }

    fn log_of(&self, life: usize) -> PathBuf {
        self.scratch.path().join(format!("operator-{life}.log"))
    }

    /// A kubeconfig with all rights.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        self.cluster.kubeconfig(self.cluster.token("admin").unwrap_or_default(), NAMESPACE, None)
    }

    /// The boards as Akri has them, in order of their names.
    pub async fn instances(&self) -> Result<Vec<Instance>> {
        let api: Api<Instance> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut all = api.list(&ListParams::default()).await?.items;
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

    /// Pushes signed firmware for every kind of board there is; the image's name.
    pub async fn push_firmware(&self, version: &str) -> Result<String> {
        let devices: Vec<&str> = self.options.devices.iter().map(String::as_str).collect();
        self.registry.push_firmware("thermo", version, &devices, &self.signer).await
    }

    /// Creates a FlashJob for every board, with this in its spec besides.
    pub async fn flash(&self, name: &str, version: &str, more: Value) -> Result<()> {
        let mut spec = json!({
            "deviceSelector": { "configuration": CONFIGURATION },
            "firmware": self.push_firmware(version).await?,
            "version": version,
        });
        if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
            spec.extend(more);
        }
        self.create_job(NAMESPACE, name, spec).await
    }

    /// The FlashJobs.
    pub fn jobs(&self) -> Api<FlashJob> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// What a job says of itself.
    pub async fn status(&self, name: &str) -> Result<FlashJobStatus> {
        Ok(self.jobs().get(name).await?.status.unwrap_or_default())
    }

    /// Waits until a job is finished.
    pub async fn finished(&self, name: &str, patience: Duration) -> Result<FlashJobStatus> {
        eventually("the job to be finished", patience, async || {
            let status = self.status(name).await?;
            Ok(status.completion_time.is_some().then_some(status))
        })
        .await
    }
}

/// Makes what the flasher finds in its namespace.
async fn set_up_flasher(client: &Client, certificate: &ServerCert, settings: Value) -> Result<()> {
    let secret: Secret = serde_json::from_value(json!({
        "metadata": { "name": TLS_SECRET },
        "type": "kubernetes.io/tls",
        "stringData": { "tls.crt": certificate.chain, "tls.key": certificate.key },
    }))?;
    let settings: ConfigMap = serde_json::from_value(json!({
        "metadata": { "name": SETTINGS },
        "data": settings,
    }))?;
    let params = PostParams::default();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    secrets.create(&params, &secret).await.context("no Secret")?;
    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    config_maps.create(&params, &settings).await.context("no ConfigMap")?;
    Ok(())
}
