//! One certificate, read, and what is asked of it.

use std::fmt;
use std::net::IpAddr;

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage, SubjectAltName, SubjectKeyIdentifier};
use x509_cert::name::Name;
use x509_cert::time::Time;

use crate::{fingerprint, to_pem};

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATIONAL_UNIT: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.11");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

/// Equal if every byte is.
#[derive(Clone)]
pub struct Certificate {
    der: CertificateDer<'static>,
    read: x509_cert::Certificate,
}

impl Certificate {
    /// `None` for what is no certificate.
    pub fn from_der(der: CertificateDer<'static>) -> Option<Self> {
        let read = x509_cert::Certificate::from_der(&der).ok()?;
        Some(Self { der, read })
    }

    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    pub fn pem(&self) -> String {
        to_pem("CERTIFICATE", &self.der)
    }

    /// Whether it may sign others: it is a CA and, where it says what its key is for, that is among it.
    pub fn is_ca(&self) -> bool {
        let body = self.read.tbs_certificate();
        let signs = match body.get_extension::<KeyUsage>() {
            Ok(usage) => usage.is_none_or(|(_, usage)| usage.key_cert_sign()),
            Err(_) => false,
        };
        signs && matches!(body.get_extension::<BasicConstraints>(), Ok(Some((_, c))) if c.ca)
    }

    pub fn is_rsa(&self) -> bool {
        self.read.tbs_certificate().subject_public_key_info().algorithm.oid == RSA
    }

    pub fn not_before(&self) -> Timestamp {
        timestamp(self.read.tbs_certificate().validity().not_before)
    }

    pub fn not_after(&self) -> Timestamp {
        timestamp(self.read.tbs_certificate().validity().not_after)
    }

    pub fn serial_number(&self) -> &[u8] {
        self.read.tbs_certificate().serial_number().as_bytes()
    }

    /// The common names of its subject. There may be any number of them.
    pub fn common_names(&self) -> Vec<String> {
        self.attributes(COMMON_NAME)
    }

    /// The organizational units of its subject, in their order.
    pub fn organizational_units(&self) -> Vec<String> {
        self.attributes(ORGANIZATIONAL_UNIT)
    }

    fn attributes(&self, kind: ObjectIdentifier) -> Vec<String> {
        let attributes = self.subject().iter().filter(|attribute| attribute.oid == kind);
        attributes.map(|a| String::from_utf8_lossy(a.value.value()).into_owned()).collect()
    }

    /// SHA-256 of its key, in hex: of the SubjectPublicKeyInfo, so that it stays the same when the certificate is renewed.
    pub fn key_fingerprint(&self) -> String {
        let spki = self.read.tbs_certificate().subject_public_key_info().to_der();
        // What was read as DER can be written as DER.
        fingerprint(&spki.unwrap_or_default())
    }

    /// SHA-256 of all of it, signature included.
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(self.der()).into()
    }

    /// The DNS names and then the IP addresses of its subjectAltName, none of one that is not there or cannot be read.
    pub fn names(&self) -> Vec<String> {
        let mut all = self.dns_names().unwrap_or_default();
        all.extend(self.general_names().unwrap_or_default().iter().filter_map(address));
        all
    }

    /// The DNS names of its subjectAltName, none of one that cannot be read; `None` if there is no subjectAltName.
    pub fn dns_names(&self) -> Option<Vec<String>> {
        let names = self.general_names()?;
        let dns = names.iter().filter_map(|name| match name {
            GeneralName::DnsName(dns) => Some(dns.as_str().to_owned()),
            _ => None,
        });
        Some(dns.collect())
    }

    fn general_names(&self) -> Option<Vec<GeneralName>> {
        match self.read.tbs_certificate().get_extension::<SubjectAltName>() {
            Ok(found) => Some(found?.1.0),
            Err(_) => Some(Vec::new()),
        }
    }

    pub(crate) fn subject(&self) -> &Name {
        self.read.tbs_certificate().subject()
    }

    pub(crate) fn issuer(&self) -> &Name {
        self.read.tbs_certificate().issuer()
    }

    /// What those it signs call its key.
    pub(crate) fn key_identifier(&self) -> Option<Vec<u8>> {
        let body = self.read.tbs_certificate();
        let (_, identifier) = body.get_extension::<SubjectKeyIdentifier>().ok()??;
        Some(identifier.0.as_bytes().to_vec())
    }
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.der == other.der
    }
}

impl Eq for Certificate {}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.pem())
    }
}

fn address(name: &GeneralName) -> Option<String> {
    let GeneralName::IpAddress(bytes) = name else { return None };
    let bytes = bytes.as_bytes();
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let address = four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from));
    address.ok().map(|address| address.to_string())
}

fn timestamp(time: Time) -> Timestamp {
    let seconds = i64::try_from(time.to_unix_duration().as_secs()).ok();
    seconds.and_then(|s| Timestamp::from_second(s).ok()).unwrap_or(Timestamp::MAX)
}
