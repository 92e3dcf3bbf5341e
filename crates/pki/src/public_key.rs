//! The key that a certificate is for.

use std::fmt;

use rcgen::{PublicKeyData, SignatureAlgorithm};

use crate::{Error, fingerprint, to_pem};

/// What rcgen can write into a certificate. The hash in the names is for signing and is not part of a key.
static KINDS: [&SignatureAlgorithm; 4] = [
    &rcgen::PKCS_ECDSA_P256_SHA256,
    &rcgen::PKCS_ECDSA_P384_SHA384,
    &rcgen::PKCS_ED25519,
    &rcgen::PKCS_RSA_SHA256,
];

#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    kind: &'static SignatureAlgorithm,
    bits: Vec<u8>,
}

impl PublicKey {
    pub(crate) fn new(kind: &'static SignatureAlgorithm, bits: Vec<u8>) -> Self {
        Self { kind, bits }
    }

    /// Takes a key only if a certificate for it will say the very same bytes.
    pub(crate) fn from_spki(der: &[u8], bits: &[u8]) -> Result<Self, Error> {
        let keys = KINDS.into_iter().map(|kind| Self::new(kind, bits.to_vec()));
        let mut same = keys.filter(|key| key.spki_der() == der);
        same.next().ok_or(Error::UnsupportedKey)
    }

    /// X.509's SubjectPublicKeyInfo: what fingerprints of keys are made of.
    pub fn spki_der(&self) -> Vec<u8> {
        self.subject_public_key_info()
    }

    /// SHA-256 of it in hex, as [`Certificate::key_fingerprint`](crate::Certificate::key_fingerprint) says it.
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.spki_der())
    }

    pub fn pem(&self) -> String {
        to_pem("PUBLIC KEY", &self.spki_der())
    }
}

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.bits
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.kind
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pem())
    }
}
