//! A certificate with those that lead from it to one that somebody trusts.

use std::iter;
use std::sync::Arc;

use jiff::Timestamp;
use rustls::RootCertStore;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};

use crate::profile::since_epoch;
use crate::{Certificate, Error, KeyPurpose};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    leaf: Certificate,
    issuers: Vec<Certificate>,
}

impl Chain {
    pub fn new(leaf: Certificate, issuers: impl IntoIterator<Item = Certificate>) -> Self {
        Self { leaf, issuers: issuers.into_iter().collect() }
    }

    /// All certificates in `text`, the leaf first. What stands between them is left out, also a private key.
    pub fn from_pem(text: &[u8]) -> Result<Self, Error> {
        let mut read = Vec::new();
        for (at, der) in CertificateDer::pem_slice_iter(text).enumerate() {
            let der = der.map_err(|_| Error::CertificateNotPem)?;
            read.push(Certificate::from_der(der).ok_or(Error::UnreadableCertificate(at + 1))?);
        }
        let mut read = read.into_iter();
        let leaf = read.next().ok_or(Error::NoCertificate)?;
        Ok(Self::new(leaf, read))
    }

    pub fn leaf(&self) -> &Certificate {
        &self.leaf
    }

    /// The leaf first.
    pub fn iter(&self) -> impl Iterator<Item = &Certificate> {
        iter::once(&self.leaf).chain(&self.issuers)
    }

    pub fn pem(&self) -> String {
        self.iter().map(Certificate::pem).collect()
    }

    /// For rustls.
    pub fn ders(&self) -> Vec<CertificateDer<'static>> {
        self.iter().map(|certificate| certificate.der().clone()).collect()
    }

    /// Whether it leads to one of the `anchors` and was good for `purpose` at that time. There are two anchors while one CA
    /// takes the place of another. The dates of an anchor itself do not count.
    pub fn verify(
        &self,
        anchors: &[Certificate],
        purpose: KeyPurpose,
        at: Timestamp,
    ) -> Result<(), Error> {
        let mut roots = RootCertStore::empty();
        for anchor in anchors {
            roots.add(anchor.der().clone()).map_err(Error::Untrusted)?;
        }
        let (leaf, at) = (self.leaf.der(), UnixTime::since_unix_epoch(since_epoch(at)?));
        let issuers = &self.ders()[1..];
        let provider = ring::default_provider();
        let verified = match purpose {
            KeyPurpose::ServerAuth => ParsedCertificate::try_from(leaf).and_then(|parsed| {
                let algorithms = provider.signature_verification_algorithms.all;
                verify_server_cert_signed_by_trust_anchor(&parsed, &roots, issuers, at, algorithms)
            }),
            KeyPurpose::ClientAuth => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::new(provider))
                        .build();
                let verifier = verifier.map_err(|error| rustls::Error::General(error.to_string()));
                verifier.and_then(|v| v.verify_client_cert(leaf, issuers, at)).map(drop)
            }
        };
        verified.map_err(Error::Untrusted)
    }
}
