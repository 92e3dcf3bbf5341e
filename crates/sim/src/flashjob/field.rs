//! What stands outside of a cluster: boards, their attestation service, a registry with firmware, and Akri's agent that finds
//! the boards. The cluster may be a site's own or anybody's, on a real node or anywhere.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Result, ensure};
use flashjob_api::flashjob::instance::Instance;
use flashjob_api::flashjob::{FlashJob, FlashJobStatus, flash_pod};
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::cluster::apply::apply;
use crate::flashjob::akri::{Agent, Akri};
use crate::flashjob::registry::sign::Signer;
use crate::flashjob::registry::{self, Registry};
use crate::flashjob::site::{Account, Block, CONFIGURATION};
use crate::flashjob::{Attestation, Board, BoardOptions, KeyKind, ServerCert, jobs};
use crate::{PATIENCE, eventually, lock};

/// The version boards come with.
pub const OLD_VERSION: &str = "0.1.0";

/// Where things are, and how fast.
#[derive(Debug, Clone)]
pub struct FieldOptions {
    /// The namespace of Instances and jobs. It is there.
    pub namespace: String,
    /// The address of this machine that Pods reach, for registry and attestation service.
    pub host: Ipv4Addr,
    /// One board at each of these addresses of this machine.
    pub boards: Vec<SocketAddrV4>,
    /// Their kinds, in turn.
    pub devices: Vec<String>,
    /// All waits of boards, attestation service and flasher are divided by this.
    pub speed: f64,
    /// How often Akri's agent looks for them.
    pub every: Duration,
}

/// A field at work. It ends when this is dropped; what it has put into the cluster stays.
pub struct Field {
    pub boards: Vec<Board>,
    pub registry: Registry,
    /// What their waits are divided by.
    pub speed: f64,
    /// What flashers find in their namespace.
    pub(super) manifest: String,
    /// The addresses of boards and Services, where they are claimed.
    pub(super) block: Option<Block>,
    devices: Vec<String>,
    namespace: String,
    client: Client,
    signer: Signer,
    akri: Akri,
    agent: Mutex<Option<Agent>>,
    _attestation: Attestation,
}

impl Field {
    /// Starts everything. Akri's CRD is there; to wait for the boards' Instances there is [`Field::found`].
    pub async fn start(client: Client, options: FieldOptions) -> Result<Self> {
        let FieldOptions { namespace, host, boards: addresses, devices, speed, every } = options;
        let registry = registry::RegistryOptions { host, ..registry::RegistryOptions::default() };
        let registry = Registry::start_with(registry).await?;
        let attestation = Attestation::start_on((host, 0).into(), speed).await?;
        let certificate = ServerCert::self_signed(KeyKind::P256)?;
        let mut boards = Vec::new();
        for (address, device) in addresses.into_iter().zip(devices.iter().cycle()) {
            let board = start_board(&certificate, address, device, speed).await?;
            attestation.enrol(&board.identity()?.root_pem())?;
            boards.push(board);
        }
        let signer = Signer::generate()?;
        let settings = json!({
            "DICE_AUTH_URL": attestation.url(),
            "COSIGN_PUBLIC_KEY": signer.public_pem(),
            "REGISTRY_PLAIN_HTTP": "1",
            "BOARD_SPEED": speed.to_string(),
        });
        let manifest = manifest(&certificate, settings);
        apply(&client, Some(&namespace), &manifest).await?;
        let akri = Akri::new(client.clone(), &namespace, CONFIGURATION);
        let endpoints = boards.iter().map(Board::endpoint).collect();
        let agent = Mutex::new(Some(Agent::start(&akri, endpoints, every)?));
        let (block, _attestation) = (None, attestation);
        Ok(Self {
            boards,
            registry,
            speed,
            manifest,
            block,
            devices,
            namespace,
            client,
            signer,
            akri,
            agent,
            _attestation,
        })
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
        lock(&self.agent).take();
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

    /// Pushes signed firmware for every kind of board there is; the image's name.
    pub async fn push_firmware(&self, version: &str) -> Result<String> {
        let devices: Vec<&str> = self.devices.iter().map(String::as_str).collect();
        self.registry.push_firmware("thermo", version, &devices, &self.signer).await
    }

    /// The spec of a FlashJob for every board, with this in it besides. Its firmware is in the registry.
    pub async fn spec(&self, version: &str, more: Value) -> Result<Value> {
        let spec = json!({
            "deviceSelector": { "configuration": CONFIGURATION },
            "firmware": self.push_firmware(version).await?,
            "version": version,
        });
        Ok(jobs::with(spec, more))
    }

    /// Creates such a FlashJob, once every board is there.
    pub async fn flash(&self, name: &str, version: &str, more: Value) -> Result<()> {
        self.found().await?;
        let spec = self.spec(version, more).await?;
        jobs::create(&self.jobs(), name, spec).await.map(drop)
    }

    /// Waits until a job is finished.
    pub async fn finished(&self, name: &str, patience: Duration) -> Result<FlashJobStatus> {
        jobs::finished(&self.jobs(), name, patience).await
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

async fn start_board(
    certificate: &ServerCert,
    address: SocketAddrV4,
    device: &str,
    speed: f64,
) -> Result<Board> {
    let options = BoardOptions {
        address,
        device: device.to_owned(),
        version: OLD_VERSION.to_owned(),
        speed,
        // With its way back into the Wi-Fi: long enough for Akri to miss it.
        restart_takes: Duration::from_secs(12),
        // The flasher's own steps take real time.
        bears_silence: Duration::from_secs(60).mul_f64(speed),
        ..BoardOptions::new(&certificate.chain)?
    };
    Board::start(options).await
}

/// What flashers find in their namespace.
fn manifest(certificate: &ServerCert, settings: Value) -> String {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": flash_pod::TLS_SECRET },
        "type": "kubernetes.io/tls",
        "stringData": { "tls.crt": certificate.chain, "tls.key": certificate.key },
    });
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": flash_pod::SETTINGS },
        "data": settings,
    });
    format!("{secret}\n---\n{settings}")
}
