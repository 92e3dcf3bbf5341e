//! One certificate, read, and what is asked of it.

use std::fmt;

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use x509_cert::der::Decode;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage, SubjectAltName, SubjectKeyIdentifier};
use x509_cert::name::Name;
use x509_cert::time::Time;

use crate::to_pem;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

/// Equal if every byte is.
#[derive(Clone)]
pub struct Certificate {
    der: CertificateDer<'static>,
    read: x509_cert::Certificate,
}

impl Certificate {
    pub(crate) fn from_der(der: CertificateDer<'static>) -> Option<Self> {
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
        let attributes = self.subject().iter().filter(|attribute| attribute.oid == COMMON_NAME);
        attributes.map(|a| String::from_utf8_lossy(a.value.value()).into_owned()).collect()
    }

    /// The DNS names of its subjectAltName, none of one that cannot be read; `None` if there is no subjectAltName.
    pub fn dns_names(&self) -> Option<Vec<String>> {
        let names = match self.read.tbs_certificate().get_extension::<SubjectAltName>() {
            Ok(found) => found?.1.0,
            Err(_) => Vec::new(),
        };
        let dns = names.iter().filter_map(|name| match name {
            GeneralName::DnsName(dns) => Some(dns.as_str().to_owned()),
            _ => None,
        });
        Some(dns.collect())
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

fn timestamp(time: Time) -> Timestamp {
    let seconds = i64::try_from(time.to_unix_duration().as_secs()).ok();
    seconds.and_then(|s| Timestamp::from_second(s).ok()).unwrap_or(Timestamp::MAX)
}
