//! What a device has and remembers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_api::edge::wire::{
    DeviceConfigurationMessage, Event, HardwareInfo, S3, UpgradeStatus, WorkloadStatus,
};
use flashjob_pki::{CertifiedKey, Chain, PrivateKey};

use super::message::{Said, hardware, mutable_hardware};
use super::{Identity, Manner};
use crate::SeededRng;
use crate::edge::credential::{Clock, Credential};

/// Where a configuration does not say it.
const DEFAULT_PERIOD: Duration = Duration::from_secs(60);

pub(super) struct State {
    pub registration: Arc<Credential>,
    pub own: Option<Arc<Credential>>,
    /// The one that was replaced last comes last.
    older: Vec<Arc<Credential>>,
    /// The key of a registration that has not succeeded yet. Ours.
    pending: Option<Arc<PrivateKey>>,
    pub configuration: Option<Configuration>,
    /// How its workloads are, if not running.
    pub workloads: BTreeMap<String, WorkloadStatus>,
    /// What happened since its last heartbeat.
    pub events: Vec<Event>,
    pub upgrade: UpgradeStatus,
    /// What it is made of, as far as that may change.
    pub mutable_hardware: HardwareInfo,
    /// The original's asks to be let in again when it restarts after a disconnect, though it has kept its certificate.
    pub must_register: bool,
    /// What it has said by now of what it is made of and may change; `None` until it has said all of it.
    pub hardware_said: Option<HardwareInfo>,
    pub dice: SeededRng,
}

/// What it was told to do.
pub(super) struct Configuration {
    pub version: String,
    pub workloads: Vec<String>,
    pub etag: Option<String>,
    /// Between two heartbeats, in the field.
    pub period: Duration,
    /// Where files of its workloads go.
    pub bucket: Option<S3>,
    include_hardware: bool,
    delta: bool,
}

impl Configuration {
    pub fn new(read: DeviceConfigurationMessage, etag: Option<&str>) -> Self {
        let configuration = read.configuration.unwrap_or_default();
        let heartbeat = configuration.heartbeat.unwrap_or_default();
        let period = u64::try_from(heartbeat.period_seconds).ok().filter(|period| *period > 0);
        let profile = heartbeat.hardware_profile.unwrap_or_default();
        Self {
            version: read.version,
            workloads: read.workloads.into_iter().map(|workload| workload.name).collect(),
            etag: etag.map(str::to_owned),
            period: period.map_or(DEFAULT_PERIOD, Duration::from_secs),
            bucket: configuration.storage.and_then(|storage| storage.s3),
            include_hardware: profile.include,
            delta: profile.scope == "delta",
        }
    }
}

impl State {
    pub fn new(
        id: &str,
        registration: Arc<Credential>,
        own: Option<Arc<Credential>>,
        seed: u64,
    ) -> Self {
        let current_commit_id = "unknown".to_owned();
        Self {
            must_register: own.is_none(),
            registration,
            own,
            older: Vec::new(),
            pending: None,
            configuration: None,
            workloads: BTreeMap::new(),
            events: Vec::new(),
            upgrade: UpgradeStatus { current_commit_id, ..UpgradeStatus::default() },
            mutable_hardware: mutable_hardware(id),
            hardware_said: None,
            // Not the net's choices over again.
            dice: SeededRng::new(!seed),
        }
    }

    pub fn credential(&self, identity: &Identity, clock: &Clock) -> Result<Arc<Credential>> {
        let own = || self.own.clone();
        match identity {
            Identity::Current => Ok(own().unwrap_or_else(|| self.registration.clone())),
            Identity::Registration => Ok(self.registration.clone()),
            Identity::Own => own().context("the device has no certificate of its own"),
            Identity::Older(back) => {
                let found = self.older.iter().rev().nth(*back).cloned();
                found.context("the device has had fewer certificates than that")
            }
            Identity::Given(credential) => Ok(credential.clone()),
            Identity::Nobody => {
                Ok(Credential::nobody(self.registration.trusted().clone(), clock.clone()))
            }
        }
    }

    /// The key to ask a certificate for.
    pub fn key(&mut self, manner: Manner, shown: &Arc<Credential>) -> Result<Arc<PrivateKey>> {
        if manner == Manner::Ours {
            // Kept from before it is first spoken of: an answer that is lost may be for it.
            if self.pending.is_none() {
                self.pending = Some(Arc::new(PrivateKey::generate()?));
            }
            return self.pending.clone().context("no key");
        }
        let own = self.own.as_ref().filter(|own| Arc::ptr_eq(own, shown));
        match own.and_then(|own| own.shown()) {
            Some(own) => Ok(Arc::new(copy(own.key())?)),
            None => Ok(Arc::new(PrivateKey::generate()?)),
        }
    }

    /// Takes a certificate into use, and the CAs that came with it.
    pub fn take(
        &mut self,
        certificate: &str,
        key: &PrivateKey,
        ca_bundle: Option<&str>,
        clock: &Clock,
    ) -> Result<Arc<Credential>> {
        let chain = Chain::from_pem(certificate.as_bytes()).context("the certificate")?;
        let own = CertifiedKey::new(chain, copy(key)?).context("the certificate")?;
        let mut trusted = self.registration.trusted().clone();
        if let Some(bundle) = ca_bundle {
            let bundle = Chain::from_pem(bundle.as_bytes()).context("the ca_bundle")?;
            let bundle: Arc<[_]> = bundle.iter().cloned().collect();
            if trusted != bundle {
                trusted = bundle;
                self.registration = self.registration.trusting(trusted.clone());
            }
        }
        let own = Credential::new(Arc::new(own), trusted, clock.clone());
        self.older.extend(self.own.replace(own.clone()));
        self.pending = None;
        self.must_register = false;
        Ok(own)
    }

    /// It was told to disconnect.
    pub fn leave(&mut self, manner: Manner) {
        self.configuration = None;
        self.hardware_said = None;
        self.must_register = true;
        if manner == Manner::Ours {
            self.older.extend(self.own.take());
            self.pending = None;
        }
    }

    /// What its next heartbeat says.
    pub fn says(&self, id: &str) -> Said {
        let status = |name: &String| {
            let status = self.workloads.get(name).cloned();
            let (name, running) = (name.clone(), "Running".to_owned());
            status.unwrap_or(WorkloadStatus { name, status: running, ..WorkloadStatus::default() })
        };
        let workloads = self.configuration.iter().flat_map(|c| &c.workloads);
        Said {
            version: self.configuration.as_ref().map(|c| c.version.clone()).unwrap_or_default(),
            workloads: workloads.map(status).collect(),
            events: self.events.clone(),
            upgrade: self.upgrade.clone(),
            hardware: self.hardware(id),
        }
    }

    /// It has been heard.
    pub fn was_heard(&mut self, said: &Said) {
        // What has happened meanwhile comes behind them.
        self.events.drain(..said.events.len().min(self.events.len()));
        if said.hardware.is_some() {
            self.hardware_said = Some(self.mutable_hardware.clone());
        }
    }

    /// All of it once; then what may change, or, if it is asked for no more, what has changed.
    fn hardware(&self, id: &str) -> Option<HardwareInfo> {
        let configuration = self.configuration.as_ref().filter(|c| c.include_hardware)?;
        let now = &self.mutable_hardware;
        let Some(said) = &self.hardware_said else {
            let HardwareInfo { hostname, interfaces, mounts, .. } = now.clone();
            return Some(HardwareInfo { hostname, interfaces, mounts, ..hardware(id) });
        };
        if !configuration.delta {
            return Some(now.clone());
        }
        let mut changed = now.clone();
        if said.hostname == now.hostname {
            changed.hostname = String::new();
        }
        changed.interfaces = changed.interfaces.filter(|_| said.interfaces != now.interfaces);
        changed.mounts = changed.mounts.filter(|_| said.mounts != now.mounts);
        Some(changed).filter(|changed| *changed != HardwareInfo::default())
    }
}

fn copy(key: &PrivateKey) -> Result<PrivateKey> {
    Ok(PrivateKey::from_pem(key.pem().as_bytes())?)
}
