//! What the rest of Edge gets of certificates: whom to trust, what to show, and certificates for devices.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use flashjob_pki::{Certificate, CertifiedKey, Chain, KeyPurpose, PublicKey};
use flashjob_plan::edge::certificates::{Life, device_life};
use jiff::Timestamp;
use rustls::crypto::ring;

use super::make;
use super::secret::{Authority, has_signed, id};

/// Certificates that need not be verified again, some 40 bytes each. Only what a CA of ours has signed is among them.
const MOST_VERIFIED: usize = 200_000;

/// All that is known at a moment. Another one takes its place when something changes.
#[derive(Clone, Default)]
pub struct Certificates {
    pub(super) authority: Option<Arc<Authority>>,
    pub(super) server_ends: Option<Timestamp>,
    pub(super) client_days: u32,
    /// `None` until there is a CA: then nobody can be told from anybody else, and nobody is to be turned away.
    pub trust: Option<Arc<Trust>>,
    /// What the server shows. It stays the very same until there is another.
    pub server: Option<Arc<rustls::sign::CertifiedKey>>,
    /// The Secret with the registration certificate to hand out.
    pub registration: Option<String>,
    /// What is wrong and what to do about it, for people.
    pub problems: Vec<String>,
}

/// The CAs whose certificates count as ours.
pub struct Trust {
    /// Another number for every other set of CAs, while the process runs.
    pub generation: u64,
    /// The newest first.
    pub anchors: Vec<Anchor>,
    /// Which of them has signed a certificate, by its SHA-256. A device that opens a connection for each heartbeat shows the same
    /// one each time, and its signature would be a fifth of what that costs.
    verified: Mutex<HashMap<[u8; 32], u8>>,
}

pub struct Anchor {
    /// 16 hex digits, of the SHA-256 of its key.
    pub id: String,
    pub certificate: Certificate,
}

impl Trust {
    pub(super) fn new(authority: &Authority, generation: u64) -> Trust {
        let anchors = authority.anchors();
        let anchors = anchors.map(|ca| Anchor { id: id(ca), certificate: ca.clone() }).collect();
        Trust { generation, anchors, verified: Mutex::default() }
    }

    pub(super) fn has_the_same(&self, other: &Trust) -> bool {
        let own = self.anchors.iter().map(|anchor| &anchor.certificate);
        own.eq(other.anchors.iter().map(|anchor| &anchor.certificate))
    }

    /// The CA of ours that has signed a device's certificate. Whether that has expired is another question.
    pub fn issuer(&self, leaf: &Certificate) -> Option<&Anchor> {
        let verified = || self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = leaf.sha256();
        if let Some(at) = verified().get(&hash) {
            return self.anchors.get(usize::from(*at));
        }
        let signed =
            |anchor: &Anchor| has_signed(&anchor.certificate, leaf, KeyPurpose::ClientAuth);
        let at = self.anchors.iter().position(signed)?;
        let mut verified = verified();
        if verified.len() >= MOST_VERIFIED {
            verified.clear();
        }
        verified.insert(hash, u8::try_from(at).ok()?);
        self.anchors.get(at)
    }
}

/// A certificate that is about to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The id of the CA that will sign it.
    pub ca: String,
    pub life: Life,
}

/// A device's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issued {
    pub certificate_pem: String,
    /// All CAs that the device is to trust.
    pub ca_bundle_pem: String,
}

#[derive(Debug, thiserror::Error)]
pub enum NotIssued {
    #[error("there is no CA that can be used; the log says what is wrong with Secret flotta-ca")]
    NoCa,
    #[error("the CA in Secret flotta-ca has ended; rotate it")]
    CaEnded,
    #[error("the certificate cannot be made: {0}")]
    NotMade(#[from] flashjob_pki::Error),
}

impl Certificates {
    /// What a certificate for a device would say now, so that it can be written down before there is one.
    pub fn offer(&self, now: Timestamp) -> Result<Offer, NotIssued> {
        let authority = self.authority.as_ref().ok_or(NotIssued::NoCa)?;
        let ca = authority.pair.leaf();
        let life = device_life(now, self.client_days, ca.not_after()).ok_or(NotIssued::CaEnded)?;
        Ok(Offer { ca: id(ca), life })
    }

    /// The certificate that was offered. Nothing in it but the key comes from the device.
    pub fn issue(
        &self,
        offer: &Offer,
        key: &PublicKey,
        name: &str,
        namespace: &str,
    ) -> Result<Issued, NotIssued> {
        let authority = self.authority.as_ref().ok_or(NotIssued::NoCa)?;
        let made = make::device(authority, key, name, namespace, offer.life)?;
        Ok(Issued {
            certificate_pem: made.pem(),
            ca_bundle_pem: self.ca_bundle_pem().unwrap_or_default(),
        })
    }

    /// All CAs that a device is to trust, as PEM.
    pub fn ca_bundle_pem(&self) -> Option<String> {
        let authority = self.authority.as_ref()?;
        let previous = authority.previous.as_ref().map(Certificate::pem).unwrap_or_default();
        Some(authority.pair.chain().pem() + &previous)
    }

    /// Days until the CA ends, for metrics; below zero when it has.
    pub fn ca_days(&self, now: Timestamp) -> Option<f64> {
        self.authority.as_ref().map(|authority| days(authority.pair.leaf().not_after(), now))
    }

    /// The same for the server's certificate.
    pub fn server_days(&self, now: Timestamp) -> Option<f64> {
        self.server_ends.map(|end| days(end, now))
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("problems", &self.problems).finish_non_exhaustive()
    }
}

fn days(end: Timestamp, now: Timestamp) -> f64 {
    end.duration_since(now).as_secs_f64() / 86_400.0
}

/// What the server shows: its certificate, what came with that, and what leads from it to a CA that devices know from
/// before.
pub(super) fn shown(
    server: &CertifiedKey,
    authority: Option<&Authority>,
) -> Result<rustls::sign::CertifiedKey, rustls::Error> {
    let mut chain: Vec<Certificate> = server.chain().iter().cloned().collect();
    let signed = |a: &&Authority| has_signed(a.pair.leaf(), server.leaf(), KeyPurpose::ServerAuth);
    if let Some(authority) = authority.filter(signed) {
        // A CA that is itself signed by another is part of the way.
        let between = authority.pair.chain().iter().cloned();
        let between = between.filter(|_| authority.pair.chain().iter().count() > 1);
        chain.extend(between.chain(authority.cross.iter().cloned()));
    }
    let leaf = chain.remove(0);
    let (ders, key) = (Chain::new(leaf, chain).ders(), server.key().der().clone_key());
    rustls::sign::CertifiedKey::from_der(ders, key, &ring::default_provider())
}
