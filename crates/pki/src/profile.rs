//! What a certificate says. Its issuer decides all of it; only the key comes from elsewhere.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyUsagePurpose, SerialNumber,
};
use rustls::crypto::ring;

use crate::Error;

/// What a certificate's key may prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPurpose {
    ServerAuth,
    ClientAuth,
}

#[derive(Debug, Clone)]
pub struct Profile {
    /// Flotta's CA has none.
    pub common_name: Option<String>,
    pub organization: Option<String>,
    pub organizational_unit: Option<String>,
    /// DNS names and IP addresses, for the subjectAltName.
    pub names: Vec<String>,
    pub ca: bool,
    /// None: nothing is said of it, and everybody takes that for any.
    pub purposes: Vec<KeyPurpose>,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

impl Profile {
    /// One that signs others.
    pub fn ca(common_name: &str, not_before: Timestamp, not_after: Timestamp) -> Self {
        Self { ca: true, ..Self::leaf(common_name, not_before, not_after) }
    }

    /// One that signs none.
    pub fn leaf(common_name: &str, not_before: Timestamp, not_after: Timestamp) -> Self {
        Self {
            common_name: Some(common_name.to_owned()),
            organization: None,
            organizational_unit: None,
            names: Vec::new(),
            ca: false,
            purposes: Vec::new(),
            not_before,
            not_after,
        }
    }

    /// Each time with a serial number of its own, also for the same key.
    pub(crate) fn params(&self) -> Result<CertificateParams, Error> {
        let mut params = CertificateParams::new(self.names.clone()).map_err(Error::NotMade)?;
        params.distinguished_name = self.subject();
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        params.not_before = epoch + since_epoch(self.not_before)?;
        params.not_after = epoch + since_epoch(self.not_after)?;
        params.serial_number = Some(serial_number()?);
        (params.is_ca, params.key_usages) = if self.ca {
            let usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
            (IsCa::Ca(BasicConstraints::Unconstrained), usages)
        } else {
            (IsCa::ExplicitNoCa, vec![KeyUsagePurpose::DigitalSignature])
        };
        params.extended_key_usages = self.purposes.iter().map(|purpose| purpose.usage()).collect();
        Ok(params)
    }

    fn subject(&self) -> DistinguishedName {
        let mut subject = DistinguishedName::new();
        let parts = [
            (DnType::OrganizationName, self.organization.as_ref()),
            (DnType::OrganizationalUnitName, self.organizational_unit.as_ref()),
            (DnType::CommonName, self.common_name.as_ref()),
        ];
        for (kind, text) in parts {
            if let Some(text) = text {
                subject.push(kind, text);
            }
        }
        subject
    }
}

impl KeyPurpose {
    fn usage(self) -> ExtendedKeyUsagePurpose {
        match self {
            KeyPurpose::ServerAuth => ExtendedKeyUsagePurpose::ServerAuth,
            KeyPurpose::ClientAuth => ExtendedKeyUsagePurpose::ClientAuth,
        }
    }
}

pub(crate) fn since_epoch(time: Timestamp) -> Result<Duration, Error> {
    u64::try_from(time.as_second()).map(Duration::from_secs).map_err(|_| Error::Before1970)
}

/// 128 bits, of which two are given: positive, and never shorter.
fn serial_number() -> Result<SerialNumber, Error> {
    let mut bytes = [0; 16];
    ring::default_provider().secure_random.fill(&mut bytes).map_err(|_| Error::NoRandom)?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}
