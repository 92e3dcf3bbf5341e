//! The keys of one cluster: a CA, the API server's certificate, and the key that signs service-account tokens.
//!
//! All are P-256: a test makes them anew at each start, and an RSA key would take longer than etcd.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use flashjob_pki::{CertifiedKey, KeyPurpose, PrivateKey, Profile};
use jiff::Timestamp;
use rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;

/// Where Pods find the API server: the first address of the Services' range.
pub(crate) const SERVICE_ADDRESS: &str = "10.96.0.1";

const YEAR_2100: Timestamp = Timestamp::constant(4_102_444_800, 0);

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
        let ca = ca("flashjob-sim")?;

        let names = ["127.0.0.1", "localhost", "kubernetes.default.svc", SERVICE_ADDRESS];
        let server_key = PrivateKey::generate()?;
        let server = ca.sign(&server_key.public(), &server("kube-apiserver", &names))?;

        let service_account = PrivateKey::generate()?;

        let write = |name: &str, text: String| -> Result<PathBuf> {
            let path = folder.join(name);
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(path)
        };
        Ok(Self {
            ca_file: write("ca.crt", ca.chain().pem())?,
            server_cert: write("apiserver.crt", server.pem())?,
            server_key: write("apiserver.key", server_key.pem())?,
            service_account_key: write("sa.key", service_account.pem())?,
            service_account_public_key: write("sa.pub", service_account.public().pem())?,
            ca_pem: ca.chain().pem(),
            ca_der: ca.leaf().der().to_vec(),
        })
    }
}

/// A CA that nobody knows.
pub(crate) fn ca(common_name: &str) -> Result<CertifiedKey> {
    let ca = Profile { ca: true, ..profile(common_name) };
    Ok(CertifiedKey::self_signed(PrivateKey::generate()?, &ca)?)
}

/// Takes TLS connections with this certificate, from anybody.
pub(crate) fn acceptor(made: &CertifiedKey) -> Result<TlsAcceptor> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(made.chain().ders(), made.key().der().clone_key())?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// A certificate that is good at any time a test may pretend it is.
pub(crate) fn profile(common_name: &str) -> Profile {
    let organization = Some("flashjob-sim".to_owned());
    Profile { organization, ..Profile::leaf(common_name, Timestamp::UNIX_EPOCH, YEAR_2100) }
}

/// A server's certificate, for these DNS names and addresses.
pub(crate) fn server(common_name: &str, names: &[&str]) -> Profile {
    Profile {
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        purposes: vec![KeyPurpose::ServerAuth],
        ..profile(common_name)
    }
}
