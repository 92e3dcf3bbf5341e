//! What a device shows and whom it trusts: all that a connection is made with.
//!
//! TLS settings are made when they are first needed and then kept: a thousand devices with one registration certificate
//! have them once.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_pki::{Certificate, CertifiedKey, KeyPurpose};
use jiff::Timestamp;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore, version};

use super::client::Protocol;

/// What the time is for a device. A test may say that it is another.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

/// The machine's.
impl Default for Clock {
    fn default() -> Self {
        Self::new(crate::clock::now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.now().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

#[derive(Debug)]
pub struct Credential {
    shown: Option<Arc<CertifiedKey>>,
    trusted: Arc<[Certificate]>,
    clock: Clock,
    /// By protocol.
    tls: [OnceLock<Arc<ClientConfig>>; 2],
}

impl Credential {
    pub fn new(shown: Arc<CertifiedKey>, trusted: Arc<[Certificate]>, clock: Clock) -> Arc<Self> {
        Self::maybe(Some(shown), trusted, clock)
    }

    /// Of somebody who shows no certificate.
    pub fn nobody(trusted: Arc<[Certificate]>, clock: Clock) -> Arc<Self> {
        Self::maybe(None, trusted, clock)
    }

    fn maybe(
        shown: Option<Arc<CertifiedKey>>,
        trusted: Arc<[Certificate]>,
        clock: Clock,
    ) -> Arc<Self> {
        Arc::new(Self { shown, trusted, clock, tls: Default::default() })
    }

    /// The same, trusting others.
    pub fn trusting(&self, trusted: Arc<[Certificate]>) -> Arc<Self> {
        Self::maybe(self.shown.clone(), trusted, self.clock.clone())
    }

    /// The certificate and its key; `None` if it shows none.
    pub fn shown(&self) -> Option<&Arc<CertifiedKey>> {
        self.shown.as_ref()
    }

    pub fn trusted(&self) -> &Arc<[Certificate]> {
        &self.trusted
    }

    /// The fingerprint of the key of the trusted CA that signed what is shown.
    pub fn issuer(&self) -> Option<String> {
        let (shown, now) = (self.shown.as_ref()?, self.clock.now());
        let signed = |ca: &&Certificate| {
            let anchor = std::slice::from_ref(*ca);
            shown.chain().verify(anchor, KeyPurpose::ClientAuth, now).is_ok()
        };
        self.trusted.iter().find(signed).map(Certificate::key_fingerprint)
    }

    /// For a connection of one's own.
    pub fn tls(&self, protocol: Protocol) -> Result<Arc<ClientConfig>> {
        let place = &self.tls[protocol as usize];
        if let Some(made) = place.get() {
            return Ok(made.clone());
        }
        let made = Arc::new(self.make(protocol)?);
        Ok(place.get_or_init(|| made).clone())
    }

    fn make(&self, protocol: Protocol) -> Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        for ca in self.trusted.iter() {
            roots.add(ca.der().clone()).context("a CA that cannot be trusted")?;
        }
        let builder = ClientConfig::builder_with_details(provider(), Arc::new(self.clock.clone()))
            .with_protocol_versions(&[&version::TLS13])?
            .with_root_certificates(roots);
        let mut config = match &self.shown {
            Some(shown) => {
                let (chain, key) = (shown.chain().ders(), shown.key().der().clone_key());
                builder.with_client_auth_cert(chain, key)?
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![protocol.alpn().to_vec()];
        // The server resumes nothing, and a store of sessions for each device would be most of its memory.
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(ring::default_provider())).clone()
}
