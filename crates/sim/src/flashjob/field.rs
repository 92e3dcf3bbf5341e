//! What stands outside a cluster that somebody else runs: boards, their attestation service, a registry with firmware, and
//! Akri's agent that finds the boards. The cluster is a real one, on a node or anywhere.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flashjob_api::flashjob::instance::Instance;
use flashjob_api::flashjob::{FlashJob, FlashJobStatus, flash_pod};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::cluster::apply::apply;
use crate::eventually;
use crate::flashjob::akri::{Agent, Akri};
use crate::flashjob::registry::sign::Signer;
use crate::flashjob::registry::{self, Registry};
use crate::flashjob::site::{Account, CONFIGURATION, OLD_VERSION};
use crate::flashjob::{Attestation, Board, BoardOptions, KeyKind, ServerCert};

/// The kind of every board.
const DEVICE: &str = "esp32s2";
/// How long anything but a job may take; far longer than it does.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where things are, and how fast.
#[derive(Debug, Clone)]
pub struct Options {
    /// The namespace of Instances and jobs. It is there.
    pub namespace: String,
    /// The address of this machine that Pods reach, for registry and attestation service.
    pub host: Ipv4Addr,
    /// One board at each of these addresses of this machine.
    pub boards: Vec<SocketAddrV4>,
    /// All waits of boards, attestation service and flasher are divided by this.
    pub speed: f64,
}

/// A field at work. It ends when this is dropped; what it has put into the cluster stays.
pub struct Field {
    /// The boards.
    pub boards: Vec<Board>,
    /// The namespace of Instances and jobs.
    pub namespace: String,
    client: Client,
    registry: Registry,
    signer: Signer,
    akri: Akri,
    agent: Mutex<Option<Agent>>,
    _attestation: Attestation,
}

impl Field {
    /// Starts everything, and waits until Akri has found every board. Akri's CRD is there.
    pub async fn start(client: Client, options: Options) -> Result<Self> {
        let Options { namespace, host, boards: addresses, speed } = options;
        let registry = registry::Options { host, ..registry::Options::default() };
        let registry = Registry::start_with(registry).await?;
        let attestation = Attestation::start_on((host, 0).into(), speed).await?;
        let certificate = ServerCert::self_signed(KeyKind::P256)?;
        let mut boards = Vec::new();
        for address in addresses {
            let mut board = BoardOptions::new(&certificate.chain)?;
            board.address = address;
            board.device = DEVICE.to_owned();
            board.version = OLD_VERSION.to_owned();
            board.speed = speed;
            // With its way back into the Wi-Fi: long enough for Akri to miss it.
            board.restart_takes = Duration::from_secs(12);
            // The flasher's own steps take real time.
            board.bears_silence = Duration::from_secs(60).mul_f64(speed);
            let board = Board::start(board).await?;
            attestation.enrol(&board.identity()?.root_pem())?;
            boards.push(board);
        }
        let signer = Signer::generate()?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": flash_pod::TLS_SECRET },
            "type": "kubernetes.io/tls",
            "stringData": { "tls.crt": certificate.chain, "tls.key": certificate.key },
        });
        let settings = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": flash_pod::SETTINGS },
            "data": {
                "DICE_AUTH_URL": attestation.url(),
                "COSIGN_PUBLIC_KEY": signer.public_pem(),
                "REGISTRY_PLAIN_HTTP": "1",
                "BOARD_SPEED": speed.to_string(),
            },
        });
        apply(&client, Some(&namespace), &format!("{secret}\n---\n{settings}")).await?;
        let akri = Akri::new(client.clone(), &namespace, CONFIGURATION);
        let endpoints = boards.iter().map(Board::endpoint).collect();
        let agent = Agent::start(&akri, endpoints, Duration::from_millis(500))?;
        let field = Self {
            boards,
            namespace,
            client,
            registry,
            signer,
            akri,
            agent: Mutex::new(Some(agent)),
            _attestation: attestation,
        };
        field.found().await?;
        Ok(field)
    }

    /// Waits until Akri has found every board: one that restarts is lost for a while.
    pub async fn found(&self) -> Result<()> {
        let instances: Api<Instance> = Api::namespaced(self.client.clone(), &self.namespace);
        eventually("Akri to find every board", PATIENCE, async || {
            let found = instances.list(&ListParams::default()).await?.items.len();
            Ok((found == self.boards.len()).then_some(()))
        })
        .await
    }

    /// Akri leaves: its agent ends, and lets every Instance go.
    pub async fn withdraw_akri(&self) -> Result<()> {
        self.agent.lock().unwrap_or_else(PoisonError::into_inner).take();
        let instances: Api<Instance> = Api::namespaced(self.client.clone(), &self.namespace);
        for instance in instances.list(&ListParams::default()).await?.items {
            self.akri.lose(&instance).await?;
        }
        Ok(())
    }

    /// The FlashJobs.
    pub fn jobs(&self) -> Api<FlashJob> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// A FlashJob for every board, with this in its spec besides. Its firmware is in the registry.
    pub async fn job(&self, name: &str, version: &str, more: Value) -> Result<Value> {
        let mut spec = json!({
            "deviceSelector": { "configuration": CONFIGURATION },
            "firmware": self.registry.push_firmware("thermo", version, &[DEVICE], &self.signer).await?,
            "version": version,
        });
        if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
            spec.extend(more);
        }
        Ok(json!({
            "apiVersion": "application.flashjob.nbfc.io/v1alpha1",
            "kind": "FlashJob",
            "metadata": { "name": name, "namespace": self.namespace },
            "spec": spec,
        }))
    }

    /// Creates such a FlashJob.
    pub async fn flash(&self, name: &str, version: &str, more: Value) -> Result<()> {
        self.found().await?;
        let job: FlashJob = serde_json::from_value(self.job(name, version, more).await?)?;
        self.jobs().create(&PostParams::default(), &job).await.context("no FlashJob")?;
        Ok(())
    }

    /// Waits until a job is finished.
    pub async fn finished(&self, name: &str, patience: Duration) -> Result<FlashJobStatus> {
        let mut last = FlashJobStatus::default();
        let waited = eventually("the job to be finished", patience, async || {
            last = self.jobs().get(name).await?.status.unwrap_or_default();
            Ok(last.completion_time.is_some().then(|| last.clone()))
        });
        waited.await.with_context(|| format!("the job {name}: {last:#?}"))
    }

    /// How many boards run this version.
    pub fn run(&self, version: &str) -> usize {
        self.boards.iter().filter(|board| board.version() == version).count()
    }

    /// Holds a finished job against the boards: all have been flashed, once, and both sides say so.
    pub fn agrees(&self, status: &FlashJobStatus, version: &str) -> Result<()> {
        let account = Account::of(&self.boards, &[], &self.namespace, status, version);
        let disagreements = account.disagreements();
        ensure!(disagreements.is_empty(), "{disagreements:#?}\n{status:#?}");
        for board in &self.boards {
            let ledger = board.ledger();
            let taken = |update: &&crate::flashjob::board::Update| {
                update.version.as_deref() == Some(version)
            };
            let flashed = ledger.updates.iter().filter(taken).count();
            ensure!(flashed == 1, "flashed {flashed} times with {version}: {ledger:#?}");
        }
        Ok(())
    }
}
