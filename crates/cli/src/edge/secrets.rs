//! The Secrets of the operator's namespace, as the operator reads them: what is wrong with one is a sentence that names it and
//! says nothing of what is in it. Whatever else has to be judged is judged by the plan that the operator follows.

use std::slice::from_ref;

use anyhow::{Result, anyhow};
use flashjob_pki::{Certificate, CertifiedKey, Chain, KeyPurpose};
use flashjob_plan::edge::certificates::{
    AuthorityFacts, CA_SECRET, COMMAND, Command, DeviceKeys, Facts, Found, LeafFacts, Life,
    MESSAGE, REGISTER, REGISTRATION_SECRET, RegistrationFacts, SERVER_SECRET,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};

use crate::edge::SYSTEM;
use crate::read::pages;

/// How much of a key's fingerprint names a CA.
const ID: usize = 16;

pub struct Secrets {
    pub ca: Found<Authority>,
    pub server: Found<CertifiedKey>,
    pub registrations: Vec<Registration>,
    /// What was asked for and is not answered yet.
    pub command: Option<String>,
    /// What came of the last command.
    pub answer: Option<String>,
    /// Of flotta-ca.
    pub version: Option<String>,
}

/// The CA, the one before it while that is trusted too, and the cross certificates.
pub struct Authority {
    pub pair: CertifiedKey,
    pub previous: Option<Certificate>,
    pub cross: Vec<Certificate>,
}

pub struct Registration {
    pub secret: String,
    pub found: Found<CertifiedKey>,
}

/// What a CA is called.
pub fn id(ca: &Certificate) -> String {
    let mut id = ca.key_fingerprint();
    id.truncate(ID);
    id
}

impl Secrets {
    pub async fn read(client: &Client, home: &str) -> kube::Result<Secrets> {
        let api: Api<Secret> = Api::namespaced(client.clone(), home);
        let label = format!("{REGISTRATION_SECRET}=true");
        let (ca, server, registrations) =
            futures::join!(api.get_opt(CA_SECRET), api.get_opt(SERVER_SECRET), pages(&api, &label));
        // Of several that may not be read it is always the same that is named.
        let (ca, server, registrations) = (ca?, server?, registrations?);
        let note = |name: &str| ca.as_ref()?.annotations().get(name).cloned();
        let registration = |secret: Secret| Registration {
            secret: secret.name_any(),
            found: found(Some(secret), registration),
        };
        Ok(Secrets {
            command: note(COMMAND),
            answer: note(MESSAGE),
            version: ca.as_ref().and_then(ResourceExt::resource_version),
            ca: found(ca, authority),
            server: found(server, |secret| certified_key(secret, "server.crt", "server.key")),
            registrations: registrations.into_iter().map(registration).collect(),
        })
    }

    /// As the plan sees them.
    pub fn facts(&self, devices: Option<DeviceKeys>) -> Facts {
        let ca = self.ca.read();
        let server = self.server.as_ref(|pair| leaf_facts(pair, KeyPurpose::ServerAuth, ca));
        let registration = |registration: &Registration| RegistrationFacts {
            secret: registration.secret.clone(),
            found: registration.found.as_ref(|pair| leaf_facts(pair, KeyPurpose::ClientAuth, ca)),
        };
        Facts {
            ca: self.ca.as_ref(|ca| ca.facts(self.command.as_deref())),
            // Which names are wanted is a setting of the operator.
            names: server.read().map(|server| server.names.clone()).unwrap_or_default(),
            server,
            registrations: self.registrations.iter().map(registration).collect(),
            ca_in_memory: None,
            server_in_memory: None,
            registration_in_memory: None,
            devices,
            settings_problems: Vec::new(),
        }
    }
}

/// What is in a Secret, seen in another way.
trait Seen<T> {
    fn as_ref<U>(&self, see: impl FnOnce(&T) -> U) -> Found<U>;
}

impl<T> Seen<T> for Found<T> {
    fn as_ref<U>(&self, see: impl FnOnce(&T) -> U) -> Found<U> {
        match self {
            Found::Missing => Found::Missing,
            Found::Unreadable(why) => Found::Unreadable(why.clone()),
            Found::Read(read) => Found::Read(see(read)),
        }
    }
}

impl Authority {
    /// All that are trusted, the newest first.
    pub fn anchors(&self) -> impl Iterator<Item = &Certificate> {
        std::iter::once(self.pair.leaf()).chain(&self.previous)
    }

    /// The one of them that has signed this.
    pub fn issuer(&self, leaf: &Certificate, purpose: KeyPurpose) -> Option<String> {
        let alone = Chain::new(leaf.clone(), []);
        let signed =
            |ca: &&Certificate| alone.verify(from_ref(*ca), purpose, leaf.not_before()).is_ok();
        self.anchors().find(signed).map(id)
    }

    fn facts(&self, command: Option<&str>) -> AuthorityFacts {
        AuthorityFacts {
            id: id(self.pair.leaf()),
            life: life(self.pair.leaf()),
            previous: self.previous.as_ref().map(id),
            command: command.map(Command::read),
        }
    }
}

fn leaf_facts(pair: &CertifiedKey, purpose: KeyPurpose, ca: Option<&Authority>) -> LeafFacts {
    let leaf = pair.leaf();
    let signed_by = ca.and_then(|ca| ca.issuer(leaf, purpose));
    LeafFacts { life: life(leaf), names: leaf.names(), signed_by }
}

fn life(certificate: &Certificate) -> Life {
    Life { not_before: certificate.not_before(), not_after: certificate.not_after() }
}

fn found<T>(secret: Option<Secret>, read: impl FnOnce(&Secret) -> Result<T, String>) -> Found<T> {
    match secret.as_ref().map(read) {
        None => Found::Missing,
        Some(Ok(read)) => Found::Read(read),
        Some(Err(why)) => Found::Unreadable(why),
    }
}

fn authority(secret: &Secret) -> Result<Authority, String> {
    let pair = certified_key(secret, "ca.crt", "ca.key")?;
    if !pair.leaf().is_ca() {
        return Err(wrong(secret, "ca.crt", "the certificate is no CA"));
    }
    let certificates = |part: &str| match part_of(secret, part) {
        None => Ok(Vec::new()),
        Some(text) => Chain::from_pem(text)
            .map(|chain| chain.iter().cloned().collect())
            .map_err(|error| wrong(secret, part, error)),
    };
    let previous: Vec<Certificate> = certificates("previous.crt")?;
    let cross = certificates("cross.crt")?;
    Ok(Authority { pair, previous: previous.into_iter().next(), cross })
}

fn registration(secret: &Secret) -> Result<CertifiedKey, String> {
    let pair = certified_key(secret, "client.crt", "client.key")?;
    if pair.leaf().common_names() != [REGISTER] {
        let why = format!("its common name is not {REGISTER}");
        return Err(wrong(secret, "client.crt", why));
    }
    Ok(pair)
}

fn certified_key(secret: &Secret, crt: &str, key: &str) -> Result<CertifiedKey, String> {
    let part =
        |name: &str| part_of(secret, name).ok_or_else(|| wrong(secret, name, "it is missing"));
    let (chain, private) = (part(crt)?, part(key)?);
    CertifiedKey::from_pem(chain, private)
        .map_err(|error| wrong(secret, &format!("{crt} and {key}"), error))
}

fn part_of<'a>(secret: &'a Secret, name: &str) -> Option<&'a [u8]> {
    secret.data.as_ref()?.get(name).map(|bytes| bytes.0.as_slice())
}

fn wrong(secret: &Secret, part: &str, why: impl std::fmt::Display) -> String {
    format!("Secret {} cannot be used: {part}: {why}", secret.name_any())
}

/// The roles of Edge give no right to Secrets, so their advice would lead astray.
pub fn failed(verb: &str, home: &str, error: &kube::Error) -> anyhow::Error {
    let what = format!("cannot {verb} Secrets in namespace {home}");
    match error {
        kube::Error::Api(status) if status.is_forbidden() => anyhow!(
            "{what}: {}\nwho may, can make certificates for any device, so no role that is shipped has it. Ask who \
             administrates namespace {home}",
            status.message
        ),
        error => SYSTEM.failed(what, error),
    }
}
