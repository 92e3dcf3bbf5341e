//! What a device has and remembers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_api::edge::wire::{DeviceConfigurationMessage, HardwareInfo};
use flashjob_pki::{CertifiedKey, Chain, PrivateKey};

use super::message::{hardware, mutable_hardware};
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
    /// What its workloads are said to be, if not running.
    pub workloads: BTreeMap<String, String>,
    /// The original's asks to be let in again when it restarts after a disconnect, though it has kept its certificate.
    pub must_register: bool,
    /// It has said once what it is made of.
    pub hardware_said: bool,
    pub dice: SeededRng,
}

/// What it was told to do.
pub(super) struct Configuration {
    pub version: String,
    pub workloads: Vec<String>,
    pub etag: Option<String>,
    /// Between two heartbeats, in the field.
    pub period: Duration,
    include_hardware: bool,
    delta: bool,
}

impl Configuration {
    pub fn new(read: DeviceConfigurationMessage, etag: Option<&str>) -> Self {
        let heartbeat = read.configuration.and_then(|configuration| configuration.heartbeat);
        let heartbeat = heartbeat.unwrap_or_default();
        let period = u64::try_from(heartbeat.period_seconds).ok().filter(|period| *period > 0);
        let profile = heartbeat.hardware_profile.unwrap_or_default();
        Self {
            version: read.version,
            workloads: read.workloads.into_iter().map(|workload| workload.name).collect(),
            etag: etag.map(str::to_owned),
            period: period.map_or(DEFAULT_PERIOD, Duration::from_secs),
            include_hardware: profile.include,
            delta: profile.scope == "delta",
        }
    }
}

impl State {
    pub fn new(registration: Arc<Credential>, own: Option<Arc<Credential>>, seed: u64) -> Self {
        Self {
            must_register: own.is_none(),
            registration,
            own,
            older: Vec::new(),
            pending: None,
            configuration: None,
            workloads: BTreeMap::new(),
            hardware_said: false,
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
        self.hardware_said = false;
        self.must_register = true;
        if manner == Manner::Ours {
            self.older.extend(self.own.take());
            self.pending = None;
        }
    }

    /// Its workloads, and Podman's word for each.
    pub fn workload_statuses(&self) -> Vec<(String, String)> {
        let status = |name: &String| {
            let status = self.workloads.get(name).map_or("Running", String::as_str);
            (name.clone(), status.to_owned())
        };
        let workloads = self.configuration.iter().flat_map(|c| &c.workloads);
        workloads.map(status).collect()
    }

    /// What the next heartbeat says of the hardware: all of it once, and then what may have changed.
    pub fn hardware(&self, id: &str) -> Option<HardwareInfo> {
        let configuration = self.configuration.as_ref().filter(|c| c.include_hardware)?;
        match (self.hardware_said, configuration.delta) {
            (false, _) => Some(hardware(id)),
            (true, false) => Some(mutable_hardware(id)),
            (true, true) => None,
        }
    }
}

fn copy(key: &PrivateKey) -> Result<PrivateKey> {
    Ok(PrivateKey::from_pem(key.pem().as_bytes())?)
}
