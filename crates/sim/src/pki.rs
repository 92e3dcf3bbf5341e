//! The keys of one cluster: a CA, the API server's certificate, and the key that signs service-account tokens.
//!
//! All are P-256: a test makes them anew at each start, and an RSA key would take longer than etcd.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

/// Where Pods find the API server: the first address of the Services' range.
pub(crate) const SERVICE_ADDRESS: &str = "10.96.0.1";

/// The certificates and keys, and the files the API server reads them from.
#[derive(Debug)]
pub(crate) struct Pki {
    /// The CA certificate, as PEM.
    pub(crate) ca_pem: String,
    /// The CA certificate, as DER.
    pub(crate) ca_der: Vec<u8>,
    pub(crate) ca_file: PathBuf,
    pub(crate) server_cert: PathBuf,
    pub(crate) server_key: PathBuf,
    /// The key that signs service-account tokens.
    pub(crate) service_account_key: PathBuf,
    /// Its public half: the API server does not take it from a PKCS#8 private key.
    pub(crate) service_account_public_key: PathBuf,
}

impl Pki {
    /// Makes all keys and writes them to `folder`.
    pub(crate) fn create(folder: &Path) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, "flashjob-sim");
        let ca_key = KeyPair::generate()?;
        let ca = params.self_signed(&ca_key)?;
        let issuer = Issuer::new(params, ca_key);

        let names = ["127.0.0.1", "localhost", "kubernetes.default.svc", SERVICE_ADDRESS];
        let mut params = CertificateParams::new(names.map(str::to_owned))?;
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        let server_key = KeyPair::generate()?;
        let server = params.signed_by(&server_key, &issuer)?;

        let service_account = KeyPair::generate()?;

        let write = |name: &str, text: String| -> Result<PathBuf> {
            let path = folder.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(path)
        };
        Ok(Self {
            ca_file: write("ca.crt", ca.pem())?,
            server_cert: write("apiserver.crt", server.pem())?,
            server_key: write("apiserver.key", server_key.serialize_pem())?,
            service_account_key: write("sa.key", service_account.serialize_pem())?,
            service_account_public_key: write("sa.pub", service_account.public_key_pem())?,
            ca_pem: ca.pem(),
            ca_der: ca.der().to_vec(),
        })
    }
}
