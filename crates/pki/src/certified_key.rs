//! A chain and the key of its leaf: what a server shows, and what a CA signs with.

use rcgen::string::{Ia5String, PrintableString};
use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, Issuer, KeyIdMethod};
use rustls::InconsistentKeys;
use rustls::crypto::ring;
use x509_cert::der::{Tag, Tagged};

use crate::{Certificate, Chain, Error, PrivateKey, Profile, PublicKey};

#[derive(Debug)]
pub struct CertifiedKey {
    chain: Chain,
    key: PrivateKey,
}

impl CertifiedKey {
    /// If the key is that of the chain's leaf and rustls can show both.
    pub fn new(chain: Chain, key: PrivateKey) -> Result<Self, Error> {
        let (ders, private) = (chain.ders(), key.der().clone_key());
        let provider = ring::default_provider();
        let loaded = rustls::sign::CertifiedKey::from_der(ders, private, &provider);
        match loaded.and_then(|loaded| loaded.keys_match()) {
            Ok(()) => Ok(Self { chain, key }),
            Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
                Err(Error::KeyMismatch)
            }
            Err(rustls::Error::InvalidCertificate(_)) => Err(Error::UnsupportedCertificate),
            Err(_) => Err(Error::UnsupportedKey),
        }
    }

    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, Error> {
        Self::new(Chain::from_pem(chain)?, PrivateKey::from_pem(key)?)
    }

    pub fn self_signed(key: PrivateKey, profile: &Profile) -> Result<Self, Error> {
        let made = profile.params()?.self_signed(key.pair()).map_err(Error::NotMade)?;
        Self::new(Chain::new(read(&made)?, []), key)
    }

    /// A certificate for somebody's key, signed with this one.
    pub fn sign(&self, key: &PublicKey, profile: &Profile) -> Result<Certificate, Error> {
        let ca = self.chain.leaf();
        if !ca.is_ca() {
            return Err(Error::NotCa);
        }
        let mut params = profile.params()?;
        // A leaf may have the name of its issuer; without this openssl takes it for one that has signed itself.
        params.use_authority_key_identifier_extension = true;
        let issuer = Issuer::new(issuer_params(ca), self.key.pair());
        let certificate = read(&params.signed_by(key, &issuer).map_err(Error::NotMade)?)?;
        if certificate.issuer() != ca.subject() {
            return Err(Error::IssuerName);
        }
        Ok(certificate)
    }

    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    pub fn leaf(&self) -> &Certificate {
        self.chain.leaf()
    }

    pub fn key(&self) -> &PrivateKey {
        &self.key
    }
}

fn read(made: &rcgen::Certificate) -> Result<Certificate, Error> {
    Certificate::from_der(made.der().clone()).ok_or(Error::UnreadableCertificate(1))
}

/// The issuer's name has to be repeated byte by byte. rcgen knows the types of text that are in use, and each kind of
/// attribute once; what it cannot repeat is left out here, and seen when the certificate is made.
fn issuer_params(ca: &Certificate) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for attribute in ca.subject().iter() {
        let oid = attribute.oid.arcs().map(u64::from).collect();
        if let Some(value) = value(attribute.value.tag(), attribute.value.value()) {
            params.distinguished_name.push(DnType::CustomDnType(oid), value);
        }
    }
    if let Some(identifier) = ca.key_identifier() {
        params.key_identifier_method = KeyIdMethod::PreSpecified(identifier);
    }
    params
}

fn value(tag: Tag, bytes: &[u8]) -> Option<DnValue> {
    let text = std::str::from_utf8(bytes).ok()?;
    match tag {
        Tag::Utf8String => Some(DnValue::Utf8String(text.to_owned())),
        Tag::PrintableString => PrintableString::try_from(text).ok().map(DnValue::PrintableString),
        Tag::Ia5String => Ia5String::try_from(text).ok().map(DnValue::Ia5String),
        _ => None,
    }
}
