//! Looks at the Secrets, has it decided what to do, does it, and looks again.

use std::sync::Arc;

use flashjob_pki::{CertifiedKey, KeyPurpose};
use flashjob_plan::edge::certificates::{
    CA_SECRET, DeviceKeys, Facts, Found, LeafFacts, REGISTRATION_SECRET, RegistrationFacts,
    SERVER_SECRET, current_registration, decide,
};
use jiff::Timestamp;
use kube::{Api, ResourceExt};
use tokio::sync::watch::Sender;

use super::CertificateSettings;
use super::published::{Certificates, Trust, shown};
use super::secret::{Authority, Kept, Secret, found, leaf_facts, read_registration, read_server};
use super::steps::Written;
use crate::engine::pool::Caller;
use crate::engine::read;
use crate::process::client::error_message;

/// Looks in a row, each after a write. Nothing needs more than five.
const MOST_LOOKS: usize = 8;
const PAGE: u32 = 100;

pub struct Keeper {
    pub(super) caller: Caller,
    pub(super) namespace: String,
    api: Api<Secret>,
    settings: CertificateSettings,
    pub(super) authority: Option<Kept<Authority>>,
    pub(super) server: Option<Kept<CertifiedKey>>,
    pub(super) registration: Option<Kept<CertifiedKey>>,
    published: Sender<Arc<Certificates>>,
}

/// What the Secrets hold now.
pub struct Seen {
    pub authority: Found<Kept<Authority>>,
    pub server: Found<Kept<CertifiedKey>>,
    pub registrations: Vec<(String, Found<Kept<CertifiedKey>>)>,
}

impl Keeper {
    pub fn new(
        caller: Caller,
        namespace: &str,
        settings: CertificateSettings,
        published: Sender<Arc<Certificates>>,
    ) -> Keeper {
        let api = Api::namespaced(caller.client.clone(), namespace);
        let namespace = namespace.to_owned();
        let (authority, server, registration) = (None, None, None);
        Keeper { caller, api, namespace, settings, authority, server, registration, published }
    }

    pub fn listeners(&self) -> Sender<Arc<Certificates>> {
        self.published.clone()
    }

    /// Brings everything up to date and says when to look again. An error is a sentence; it is among the problems, too.
    /// `devices` is asked each time: a device may have come in since the last write.
    pub async fn look(
        &mut self,
        devices: impl Fn() -> Option<DeviceKeys>,
        now: Timestamp,
    ) -> Result<Timestamp, String> {
        let mut problems = Vec::new();
        for _ in 0..MOST_LOOKS {
            let seen = match self.see().await {
                Ok(seen) => seen,
                Err(error) => {
                    let why = format!("the certificates' Secrets cannot be read: {error}");
                    return Err(self.failed(problems, why));
                }
            };
            self.remember(&seen);
            let facts = self.facts(&seen, devices());
            let plan = decide(&facts, now);
            if let Some(name) = current_registration(&facts, now) {
                self.hand_out(name, &seen);
            }
            problems.clone_from(&plan.problems);
            self.publish(plan.problems);
            if plan.steps.is_empty() {
                return Ok(plan.again);
            }
            for step in plan.steps {
                match self.perform(&step, &seen).await {
                    Ok(Written::Done) => {}
                    // Somebody else was there first; what they did is looked at.
                    Ok(Written::Overtaken) => break,
                    Err(why) => return Err(self.failed(problems, why)),
                }
            }
        }
        let why = "the certificates' Secrets are changed again and again by somebody else";
        Err(self.failed(problems, why.to_owned()))
    }

    fn failed(&self, mut problems: Vec<String>, why: String) -> String {
        problems.push(why.clone());
        self.publish(problems);
        why
    }

    async fn see(&self) -> Result<Seen, String> {
        let get = async |name| {
            let answer = self.caller.call(self.api.get_opt(name)).await;
            answer.map_err(|error| error_message(&error))
        };
        let authority = found(get(CA_SECRET).await?, Authority::read);
        let server = found(get(SERVER_SECRET).await?, read_server);
        let selector = format!("{REGISTRATION_SECRET}=true");
        let listed = read::list(&self.caller, &self.api, &selector, PAGE, Some).await;
        let listed = listed.map_err(|error| error_message(&error))?;
        let registrations = listed
            .into_iter()
            .map(|secret| (secret.name_any(), found(Some(secret), read_registration)))
            .collect();
        Ok(Seen { authority, server, registrations })
    }

    /// Keeps what was read, for when it cannot be read any more.
    fn remember(&mut self, seen: &Seen) {
        if let Found::Read(authority) = &seen.authority {
            self.authority = Some(authority.clone());
        }
        if let Found::Read(server) = &seen.server {
            self.server = Some(server.clone());
        }
    }

    fn hand_out(&mut self, name: &str, seen: &Seen) {
        let mut all = seen.registrations.iter();
        if let Some((_, Found::Read(current))) = all.find(|(secret, _)| secret == name) {
            self.registration = Some(current.clone());
        }
    }

    fn facts(&self, seen: &Seen, devices: Option<DeviceKeys>) -> Facts {
        let authority = self.authority.as_ref().map(|kept| &*kept.read);
        let leaf =
            |kept: &Kept<CertifiedKey>, purpose| leaf_facts(kept.read.leaf(), purpose, authority);
        let client = |kept: &Kept<CertifiedKey>| leaf(kept, KeyPurpose::ClientAuth);
        let server = |kept: &Kept<CertifiedKey>| leaf(kept, KeyPurpose::ServerAuth);
        let registrations = seen.registrations.iter().map(|(secret, found)| RegistrationFacts {
            secret: secret.clone(),
            found: mapped(found, client),
        });
        let remembered = |kept: &Kept<CertifiedKey>| -> (String, LeafFacts) {
            (kept.secret.name_any(), client(kept))
        };
        Facts {
            ca: mapped(&seen.authority, |kept| kept.read.facts(&kept.secret)),
            server: mapped(&seen.server, server),
            registrations: registrations.collect(),
            ca_in_memory: self.authority.as_ref().map(|kept| kept.read.facts(&kept.secret)),
            server_in_memory: self.server.as_ref().map(server),
            registration_in_memory: self.registration.as_ref().map(remembered),
            devices,
            names: self.settings.names.clone(),
            settings_problems: self.settings.problems.clone(),
        }
    }

    fn publish(&self, mut problems: Vec<String>) {
        let authority = self.authority.as_ref().map(|kept| kept.read.clone());
        let before = self.published.borrow().clone();
        let server = self.server.as_ref().map(|kept| shown(&kept.read, authority.as_deref()));
        let server = match server {
            Some(Ok(server)) => match &before.server {
                Some(same) if same.cert == server.cert => Some(same.clone()),
                _ => Some(Arc::new(server)),
            },
            Some(Err(error)) => {
                problems.push(format!("Secret {SERVER_SECRET} cannot be shown: {error}"));
                before.server.clone()
            }
            None => None,
        };
        for problem in problems.iter().filter(|problem| !before.problems.contains(problem)) {
            tracing::warn!("{problem}");
        }
        let registration = self.registration.as_ref().map(|kept| kept.secret.name_any());
        if let Some(secret) = registration.as_ref().filter(|_| registration != before.registration)
        {
            tracing::info!("devices register with what is in Secret {secret}");
        }
        let trust = authority.as_deref().map(|authority| trust(authority, before.trust.as_ref()));
        self.published.send_replace(Arc::new(Certificates {
            server_ends: self.server.as_ref().map(|kept| kept.read.leaf().not_after()),
            client_days: self.settings.client_days,
            registration,
            authority,
            trust,
            server,
            problems,
        }));
    }
}

fn mapped<T, U>(found: &Found<T>, map: impl FnOnce(&T) -> U) -> Found<U> {
    match found {
        Found::Missing => Found::Missing,
        Found::Unreadable(why) => Found::Unreadable(why.clone()),
        Found::Read(read) => Found::Read(map(read)),
    }
}

/// The same as before while the CAs are.
fn trust(authority: &Authority, before: Option<&Arc<Trust>>) -> Arc<Trust> {
    let generation = before.map_or(0, |before| before.generation);
    let new = Trust::new(authority, generation + 1);
    match before {
        Some(before) if before.has_the_same(&new) => before.clone(),
        _ => Arc::new(new),
    }
}
