//! Who is on a connection: the certificate it has shown, and what that is worth now.
//!
//! The key is proved by the handshake, once. Whose certificate it is depends on which CAs are trusted, and that may change
//! while the connection is open.

use std::sync::{Arc, Mutex, PoisonError};

use flashjob_pki::Certificate;
use flashjob_plan::edge::certificate::{CertificateFacts, DEFAULT_NAMESPACE, Holder};
use flashjob_plan::edge::device_id::{DeviceId, REGISTER};
use flashjob_plan::edge::keys::{CaId, Fingerprint};
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;

use super::certificates::Trust;

pub struct Peer {
    /// As it came: read, it would be several times as long, and a connection is judged once.
    leaf: Option<CertificateDer<'static>>,
    /// What it is worth, and with which set of CAs that was found out.
    judged: Mutex<Option<(u64, Arc<CertificateFacts>)>>,
}

impl Peer {
    pub fn new(chain: Vec<CertificateDer<'static>>) -> Self {
        Self { leaf: chain.into_iter().next(), judged: Mutex::new(None) }
    }

    pub fn facts(&self, trust: &Trust) -> Arc<CertificateFacts> {
        let mut judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        match &*judged {
            Some((generation, facts)) if *generation == trust.generation => facts.clone(),
            _ => {
                let facts = Arc::new(self.judge(trust));
                *judged = Some((trust.generation, facts.clone()));
                facts
            }
        }
    }

    fn judge(&self, trust: &Trust) -> CertificateFacts {
        let leaf = self.leaf.clone().and_then(Certificate::from_der);
        let Some(leaf) = &leaf else {
            // What was shown cannot be read.
            let (key, never) = (Fingerprint::new(&[0; 32]), Timestamp::UNIX_EPOCH);
            let holder = Holder::Foreign;
            return CertificateFacts { holder, key, not_before: never, not_after: never };
        };
        let holder = trust.issuer(leaf).and_then(|ca| holder(leaf, &ca.id));
        CertificateFacts {
            holder: holder.unwrap_or(Holder::Foreign),
            key: Fingerprint::read(&leaf.key_fingerprint()),
            not_before: leaf.not_before(),
            not_after: leaf.not_after(),
        }
    }
}

/// `None` for one that is for no device, such as the server's own.
fn holder(leaf: &Certificate, ca: &str) -> Option<Holder> {
    let names = leaf.common_names();
    let [name] = names.as_slice() else { return None };
    if name == REGISTER {
        return Some(Holder::Registration);
    }
    let id = DeviceId::read(name).ok()?;
    let unit = leaf.organizational_units().into_iter().next();
    let namespace = unit.unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
    Some(Holder::Device { id, namespace, ca: CaId(ca.to_owned()) })
}
