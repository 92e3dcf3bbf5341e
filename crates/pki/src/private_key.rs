//! Private keys, in each of the three forms that openssl has written over the years.
//!
//! ring signs with PKCS#8 alone. SEC1 and PKCS#1 are the innermost part of it, so they are wrapped and nothing is converted.

use std::fmt;

use pkcs8::der::Encode;
use pkcs8::der::asn1::{AnyRef, ObjectIdentifier, OctetStringRef};
use pkcs8::spki::AlgorithmIdentifierRef;
use pkcs8::{PrivateKeyInfoRef, der};
use rcgen::{KeyPair, PublicKeyData};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::{Error, PublicKey, to_pem};

const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

/// RSA, P-256, P-384 or Ed25519. It is never printed.
pub struct PrivateKey {
    as_read: PrivateKeyDer<'static>,
    pair: KeyPair,
}

impl PrivateKey {
    /// A new P-256 key.
    pub fn generate() -> Result<Self, Error> {
        let pair = KeyPair::generate().map_err(Error::NotMade)?;
        let pkcs8 = PrivatePkcs8KeyDer::from(pair.serialize_der());
        Ok(Self { as_read: pkcs8.into(), pair })
    }

    /// The first key in `text`, which may have certificates beside it.
    pub fn from_pem(text: &[u8]) -> Result<Self, Error> {
        let as_read = PrivateKeyDer::from_pem_slice(text).map_err(|_| no_key(text))?;
        let pair = match &as_read {
            PrivateKeyDer::Pkcs8(key) => KeyPair::try_from(key).ok(),
            PrivateKeyDer::Pkcs1(key) => pair(RSA, AnyRef::NULL, key.secret_pkcs1_der()),
            // Which curve it is need not be said inside, and ring takes none for another.
            PrivateKeyDer::Sec1(key) => [P256, P384]
                .iter()
                .find_map(|curve| pair(EC, AnyRef::from(curve), key.secret_sec1_der())),
            _ => None,
        };
        Ok(Self { pair: pair.ok_or(Error::UnsupportedKey)?, as_read })
    }

    /// In the form in which it was read.
    pub fn pem(&self) -> String {
        let label = match &self.as_read {
            PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        to_pem(label, self.as_read.secret_der())
    }

    pub fn pkcs8_pem(&self) -> String {
        to_pem("PRIVATE KEY", self.pkcs8_der())
    }

    pub fn pkcs8_der(&self) -> &[u8] {
        self.pair.serialized_der()
    }

    pub fn public(&self) -> PublicKey {
        PublicKey::new(self.pair.algorithm(), self.pair.der_bytes().to_vec())
    }

    /// For rustls.
    pub fn der(&self) -> &PrivateKeyDer<'static> {
        &self.as_read
    }

    pub(crate) fn pair(&self) -> &KeyPair {
        &self.pair
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey")
    }
}

fn pair(algorithm: ObjectIdentifier, parameters: AnyRef<'_>, key: &[u8]) -> Option<KeyPair> {
    let wrapped = || -> der::Result<Vec<u8>> {
        let algorithm = AlgorithmIdentifierRef { oid: algorithm, parameters: Some(parameters) };
        PrivateKeyInfoRef::new(algorithm, OctetStringRef::new(key)?).to_der()
    };
    KeyPair::try_from(&PrivatePkcs8KeyDer::from(wrapped().ok()?)).ok()
}

fn no_key(text: &[u8]) -> Error {
    let word = b"ENCRYPTED";
    if text.windows(word.len()).any(|part| part == word) {
        return Error::EncryptedKey;
    }
    Error::NoKey
}
