//! What every device of a site is delivered with: the CA it trusts, and the one certificate that all of them register with.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use flashjob_pki::{Certificate, CertifiedKey, Chain};

/// Cheap to copy, so that a fleet has it once.
#[derive(Debug, Clone)]
pub struct Bundle {
    ca: Arc<[Certificate]>,
    key: Arc<CertifiedKey>,
}

impl Bundle {
    /// All three in PEM. There may be several CAs, as while one takes the place of another.
    pub fn from_pem(ca: &str, certificate: &str, key: &str) -> Result<Self> {
        let ca = Chain::from_pem(ca.as_bytes()).context("the CA of the registration bundle")?;
        let key = CertifiedKey::from_pem(certificate.as_bytes(), key.as_bytes())
            .context("the certificate and key of the registration bundle")?;
        Ok(Self { ca: ca.iter().cloned().collect(), key: Arc::new(key) })
    }

    /// `ca.pem`, `cert.pem` and `key.pem`, as `make get-certs` writes them.
    pub fn from_folder(folder: &Path) -> Result<Self> {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).with_context(|| {
                format!("cannot read {}: `make get-certs` writes a bundle", path.display())
            })
        };
        let (ca, certificate, key) = (read("ca.pem")?, read("cert.pem")?, read("key.pem")?);
        let read = Self::from_pem(&ca, &certificate, &key);
        read.with_context(|| format!("the bundle in {} cannot be used", folder.display()))
    }

    /// Whom the device trusts.
    pub fn ca(&self) -> &Arc<[Certificate]> {
        &self.ca
    }

    /// What it registers with.
    pub fn key(&self) -> &Arc<CertifiedKey> {
        &self.key
    }
}
