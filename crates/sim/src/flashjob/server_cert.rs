//! Certificates for the server boards call: the one they pin, and others that chain to it or do not.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use crate::flashjob::board::SERVER_NAME;

/// The kind of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// What the original has.
    Rsa2048,
    /// What is quick to make.
    P256,
}

/// A certificate with its key.
#[derive(Debug, Clone)]
pub struct ServerCert {
    /// The certificate, and after it those it chains to, as PEM.
    pub chain: String,
    /// The private key, as PEM.
    pub key: String,
}

impl ServerCert {
    /// A certificate like the original's: `CN=ota-agent`, its own CA, no subjectAltName.
    pub fn self_signed(kind: KeyKind) -> Result<Self> {
        let key = key(kind)?;
        let certificate = params(SERVER_NAME, true)?.self_signed(&key)?;
        Ok(Self { chain: certificate.pem(), key: key.serialize_pem() })
    }

    /// A certificate of the same name and with a new key, signed by this one: how a server's certificate is renewed
    /// while boards keep what they pin.
    pub fn renewed(&self, kind: KeyKind) -> Result<Self> {
        self.signs(SERVER_NAME, kind)
    }

    /// A certificate for another name, signed by this one.
    pub fn signs(&self, name: &str, kind: KeyKind) -> Result<Self> {
        let issuer_key = KeyPair::from_pem(&self.key).context("the issuer's key")?;
        let issuer = Issuer::new(params(SERVER_NAME, true)?, issuer_key);
        let key = key(kind)?;
        let certificate = params(name, false)?.signed_by(&key, &issuer)?;
        Ok(Self { chain: certificate.pem() + &self.chain, key: key.serialize_pem() })
    }
}

fn params(name: &str, ca: bool) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "flashjob-sim");
    params.distinguished_name.push(DnType::CommonName, name);
    if ca {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    }
    Ok(params)
}

fn key(kind: KeyKind) -> Result<KeyPair> {
    match kind {
        KeyKind::P256 => Ok(KeyPair::generate()?),
        // ring can use RSA keys and cannot make them.
        KeyKind::Rsa2048 => {
            let pem =
                openssl(&["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"], "")?;
            KeyPair::from_pem(&pem).context("openssl made a key that ring does not take")
        }
    }
}

/// Runs the openssl program and returns what it prints.
pub fn openssl(args: &[&str], input: &str) -> Result<String> {
    let mut child = Command::new("openssl")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run openssl; Debian has it in the package openssl")?;
    if let Some(mut stdin) = child.stdin.take() {
        // It may end without reading all of it, and then says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().context("cannot wait for openssl")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "openssl {}: {}", args.join(" "), error.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
