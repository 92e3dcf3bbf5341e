//! Certificates for the server boards call: the one they pin, and others that chain to it or do not.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use flashjob_pki::{CertifiedKey, PrivateKey, Profile};

use crate::flashjob::board::SERVER_NAME;
use crate::pki::profile;

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
        let made = CertifiedKey::self_signed(key(kind)?, &ca())?;
        Ok(Self { chain: made.chain().pem(), key: made.key().pem() })
    }

    /// A certificate of the same name and with a new key, signed by this one: how a server's certificate is renewed
    /// while boards keep what they pin.
    pub fn renewed(&self, kind: KeyKind) -> Result<Self> {
        self.signs(SERVER_NAME, kind)
    }

    /// A certificate for another name, signed by this one.
    pub fn signs(&self, name: &str, kind: KeyKind) -> Result<Self> {
        // A leaf that signs does as if it were a CA.
        let issuer = PrivateKey::from_pem(self.key.as_bytes()).context("the issuer's key")?;
        let issuer = CertifiedKey::self_signed(issuer, &ca())?;
        let key = key(kind)?;
        let made = issuer.sign(&key.public(), &profile(name))?;
        Ok(Self { chain: made.pem() + &self.chain, key: key.pem() })
    }
}

fn ca() -> Profile {
    Profile { ca: true, ..profile(SERVER_NAME) }
}

fn key(kind: KeyKind) -> Result<PrivateKey> {
    match kind {
        KeyKind::P256 => Ok(PrivateKey::generate()?),
        // ring can use RSA keys and cannot make them.
        KeyKind::Rsa2048 => {
            let pem =
                openssl(&["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"], "")?;
            PrivateKey::from_pem(pem.as_bytes())
                .context("openssl made a key that ring does not take")
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
