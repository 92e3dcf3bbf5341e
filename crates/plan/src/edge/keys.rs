//! Which keys speak for a device.
//!
//! An EdgeDevice has the fingerprints of its keys in an annotation. `next` is written before a certificate is handed out and
//! becomes `current` when that certificate is first used. Until then any number of answers may have been lost on the way: a
//! device that asks again, with the same key or another, is not locked out, and the key it uses first is the one that counts.
//!
//! A certificate that was made after `current` came into use is accepted too. It is none that was replaced: whoever got it has
//! proved to be the device at that time, and the cluster has forgotten it because it was restored from a backup.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::certificate::CertificateFacts;
use crate::time::is_sane;

/// Where the keys of an EdgeDevice are.
pub const ANNOTATION: &str = "management.project-flotta.io/keys";

/// The annotation is much shorter than this.
const LONGEST: usize = 4096;

/// The SHA-256 of a key as certificates have it (SubjectPublicKeyInfo), in hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint(String);

impl Fingerprint {
    pub fn new(sha256: &[u8; 32]) -> Self {
        Self(sha256.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// As `pki` gives it.
    pub fn read(hex: &str) -> Self {
        Self(hex.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Which CA has signed a certificate: the first half of the fingerprint of that CA's key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CaId(pub String);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// Its fingerprint.
    pub key: Fingerprint,
    /// Who has signed the certificate for it.
    pub ca: CaId,
    /// Since when it is in use; for one that is not, when its certificate was made.
    pub since: Timestamp,
}

/// The keys of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// The one in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<Key>,
    /// The one that a certificate was last made for, if it is not in use yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Key>,
    /// While none is in use: when the first certificate was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// The latest end of all certificates that were handed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// Somebody has changed the annotation, and it says nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadableKeys;

impl Keys {
    /// From the annotation. There is none on the devices of Flotta, and then any certificate of ours for the device will do.
    pub fn read(annotation: Option<&str>) -> Result<Self, UnreadableKeys> {
        let Some(text) = annotation else { return Ok(Self::default()) };
        if text.len() > LONGEST {
            return Err(UnreadableKeys);
        }
        let keys: Self = serde_json::from_str(text).map_err(|_| UnreadableKeys)?;
        // One that says nothing would let any key in, also those that were replaced.
        let says_something = keys.current.is_some() || keys.next.is_some();
        if says_something && keys.is_well_formed() { Ok(keys) } else { Err(UnreadableKeys) }
    }

    /// Whether it is something that could have been written here.
    pub fn is_well_formed(&self) -> bool {
        let known = || self.current.iter().chain(&self.next);
        let times = known().map(|key| key.since).chain(self.from).chain(self.until);
        let none_in_use = self.current.is_none();
        known().all(Key::is_well_formed)
            && times.into_iter().all(is_sane)
            && (none_in_use && self.next.is_some()) == self.from.is_some()
    }

    /// For the annotation.
    pub fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether a certificate for the device is one of those that count.
    pub fn accept(&self, certificate: &CertificateFacts) -> bool {
        let mut known = self.current.iter().chain(&self.next);
        if known.any(|key| key.key == certificate.key) {
            return true;
        }
        match (&self.current, self.from) {
            (Some(current), _) => certificate.issued() > current.since,
            // Answers may have been lost, and of two boxes with one id the first to use its certificate wins.
            (None, Some(from)) => certificate.issued() >= from,
            (None, None) => true,
        }
    }

    /// Whether the use of this certificate is something new, to be written down: of a key that is not the one in use, or of
    /// a later certificate for that key, by another CA.
    pub fn is_first_use(&self, certificate: &CertificateFacts, ca: &CaId) -> bool {
        self.current.as_ref().is_none_or(|current| {
            let later = certificate.issued() > current.since;
            // The one that was made last may have been made in the very second in which its key came into use.
            let last = self
                .next
                .as_ref()
                .is_some_and(|next| next.key == certificate.key && next.ca == *ca);
            current.key != certificate.key || current.ca != *ca && (later || last)
        })
    }

    /// Whether a certificate for this key, by this CA and with this end, may be handed out: it is on record.
    pub fn has_issued(&self, key: &Fingerprint, ca: &CaId, end: Timestamp) -> bool {
        let known = |known: &Key| known.key == *key && known.ca == *ca;
        self.current.iter().chain(&self.next).any(known) && self.until >= Some(whole_second(end))
    }

    /// A certificate for this key is about to be handed out.
    pub fn issue(&self, key: Fingerprint, ca: CaId, now: Timestamp, end: Timestamp) -> Self {
        let now = whole_second(now);
        let from = if self.current.is_some() { None } else { self.from.or(Some(now)) };
        Self {
            current: self.current.clone(),
            next: Some(Key { key, ca, since: now }),
            from,
            until: self.until.max(Some(whole_second(end))),
        }
    }

    /// A key that is accepted is used for the first time. From now on it is the one, and those before it are not.
    pub fn come_into_use(&self, certificate: &CertificateFacts, ca: CaId, now: Timestamp) -> Self {
        let key = certificate.key.clone();
        Self {
            current: Some(Key { key, ca, since: whole_second(now) }),
            next: None,
            from: None,
            until: self.until.max(Some(certificate.not_after)),
        }
    }

    /// The CA that the device depends on: of its key in use, or else of the last one it was given a certificate for.
    pub fn ca(&self) -> Option<&CaId> {
        self.current.as_ref().or(self.next.as_ref()).map(|key| &key.ca)
    }
}

impl Key {
    fn is_well_formed(&self) -> bool {
        let is_hex = |text: &str, length: usize| {
            text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        is_hex(&self.key.0, 64) && is_hex(&self.ca.0, 16)
    }
}

/// Certificates know seconds and no parts of them, and what is compared with them must not either.
fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests;
