//! The Secrets as they are read. Whatever is wrong with one becomes a sentence that names it and says nothing of what is in
//! it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use flashjob_pki::{Certificate, CertifiedKey, Chain, KeyPurpose, Profile};
use flashjob_plan::edge::certificates::{
    AuthorityFacts, COMMAND, Command, Found, LeafFacts, Life, REGISTER,
};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use serde::Deserialize;

use crate::engine::slim::{metadata, slim_resource};
use crate::engine::write::ObjectId;

/// How much of a key's fingerprint names a CA.
const ID: usize = 16;

#[derive(Clone, Deserialize)]
pub struct Secret {
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    pub data: Option<BTreeMap<String, ByteString>>,
}

slim_resource! {
    Secret: core::Secret,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret {}", self.name_any())
    }
}

impl Secret {
    pub fn id(&self) -> ObjectId<'_> {
        let ObjectMeta { namespace, name, uid, .. } = &self.metadata;
        let texts = [namespace, name, uid].map(|text| text.as_deref().unwrap_or_default());
        let [namespace, name, uid] = texts;
        ObjectId { namespace, name, uid }
    }

    fn get(&self, key: &str) -> Option<&[u8]> {
        self.data.as_ref()?.get(key).map(|bytes| bytes.0.as_slice())
    }

    /// The sentence about one of its keys.
    fn wrong(&self, key: &str, why: impl fmt::Display) -> String {
        format!("Secret {} cannot be used: {key}: {why}", self.name_any())
    }

    fn certificates(&self, key: &str) -> Result<Vec<Certificate>, String> {
        let Some(text) = self.get(key) else { return Ok(Vec::new()) };
        let chain = Chain::from_pem(text).map_err(|error| self.wrong(key, error))?;
        Ok(chain.iter().cloned().collect())
    }

    fn certified_key(&self, crt: &str, key: &str) -> Result<CertifiedKey, String> {
        let part = |name: &str| self.get(name).ok_or_else(|| self.wrong(name, "it is missing"));
        let (chain, private) = (part(crt)?, part(key)?);
        CertifiedKey::from_pem(chain, private)
            .map_err(|error| self.wrong(&format!("{crt} and {key}"), error))
    }
}

/// Something that was read, and the Secret that it was in.
pub struct Kept<T> {
    pub secret: Secret,
    pub read: Arc<T>,
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self { secret: self.secret.clone(), read: self.read.clone() }
    }
}

/// Reads a Secret that may not be there.
pub fn found<T>(
    secret: Option<Secret>,
    read: impl FnOnce(&Secret) -> Result<T, String>,
) -> Found<Kept<T>> {
    let Some(secret) = secret else { return Found::Missing };
    match read(&secret) {
        Ok(read) => Found::Read(Kept { secret, read: Arc::new(read) }),
        Err(why) => Found::Unreadable(why),
    }
}

/// The CA, and the one before it while that is trusted too.
pub struct Authority {
    pub pair: CertifiedKey,
    pub previous: Option<Certificate>,
    /// This CA, signed by the one before it; then that one, signed by the one before it, and so on. They lead from the server's
    /// certificate to a CA that a device knows from earlier, also when that is not trusted here any more.
    pub cross: Vec<Certificate>,
}

/// What a CA is called where its whole name is too long.
pub fn id(ca: &Certificate) -> String {
    let mut id = ca.key_fingerprint();
    id.truncate(ID);
    id
}

/// Whether the CA signed it. Its dates do not count: it is asked for a time of its own.
pub fn has_signed(ca: &Certificate, leaf: &Certificate, purpose: KeyPurpose) -> bool {
    let alone = Chain::new(leaf.clone(), []);
    alone.verify(std::slice::from_ref(ca), purpose, leaf.not_before()).is_ok()
}

impl Authority {
    pub fn read(secret: &Secret) -> Result<Authority, String> {
        let pair = secret.certified_key("ca.crt", "ca.key")?;
        let ca = pair.leaf();
        // It is tried once, so that no device is the first to learn that it cannot sign.
        let profile = Profile::leaf("trial", ca.not_before(), ca.not_after());
        let trial = pair.sign(&pair.key().public(), &profile);
        let trial = trial.map_err(|error| secret.wrong("ca.crt", error))?;
        if !has_signed(ca, &trial, KeyPurpose::ClientAuth) {
            return Err(secret.wrong("ca.crt", "what it signs is not taken"));
        }
        let previous = secret.certificates("previous.crt")?.into_iter().next();
        if previous.as_ref().is_some_and(|previous| !previous.is_ca()) {
            return Err(secret.wrong("previous.crt", "the certificate is no CA"));
        }
        let cross = secret.certificates("cross.crt")?;
        let fits = |cross: &Certificate| cross.key_fingerprint() == ca.key_fingerprint();
        if cross.first().is_some_and(|cross| !fits(cross)) {
            return Err(secret.wrong("cross.crt", "it is not for the key of ca.crt"));
        }
        Ok(Authority { pair, previous, cross })
    }

    pub fn facts(&self, secret: &Secret) -> AuthorityFacts {
        AuthorityFacts {
            id: id(self.pair.leaf()),
            life: life(self.pair.leaf()),
            previous: self.previous.as_ref().map(id),
            command: secret.annotations().get(COMMAND).map(|text| Command::read(text)),
        }
    }

    /// All that are trusted, the newest first.
    pub fn anchors(&self) -> impl Iterator<Item = &Certificate> {
        std::iter::once(self.pair.leaf()).chain(&self.previous)
    }
}

pub fn read_server(secret: &Secret) -> Result<CertifiedKey, String> {
    secret.certified_key("server.crt", "server.key")
}

pub fn read_registration(secret: &Secret) -> Result<CertifiedKey, String> {
    let pair = secret.certified_key("client.crt", "client.key")?;
    if pair.leaf().common_names() != [REGISTER] {
        return Err(secret.wrong("client.crt", format!("its common name is not {REGISTER}")));
    }
    Ok(pair)
}

pub fn leaf_facts(
    leaf: &Certificate,
    purpose: KeyPurpose,
    authority: Option<&Authority>,
) -> LeafFacts {
    let mut anchors = authority.into_iter().flat_map(Authority::anchors);
    let signed_by = anchors.find(|ca| has_signed(ca, leaf, purpose)).map(id);
    LeafFacts { life: life(leaf), names: leaf.names(), signed_by }
}

fn life(certificate: &Certificate) -> Life {
    Life { not_before: certificate.not_before(), not_after: certificate.not_after() }
}
