//! What is known when certificates are decided about.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Life;

/// What a Secret holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found<T> {
    Missing,
    /// A sentence that names the Secret and says what is wrong with it.
    Unreadable(String),
    Read(T),
}

impl<T> Found<T> {
    pub fn read(&self) -> Option<&T> {
        match self {
            Found::Read(read) => Some(read),
            _ => None,
        }
    }

    pub fn is_missing(&self) -> bool {
        matches!(self, Found::Missing)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    pub ca: Found<AuthorityFacts>,
    pub server: Found<LeafFacts>,
    pub registrations: Vec<RegistrationFacts>,
    /// What this process has read before and still knows. It serves on from that.
    pub ca_in_memory: Option<AuthorityFacts>,
    pub server_in_memory: Option<LeafFacts>,
    /// The registration Secret that was the current one.
    pub registration_in_memory: Option<(String, LeafFacts)>,
    /// `None` until every EdgeDevice was listed.
    pub devices: Option<DeviceKeys>,
    /// What the server's certificate has to say, as [`server_names`](super::server_names) gives it.
    pub names: Vec<String>,
    /// What is wrong with the settings.
    pub settings_problems: Vec<String>,
}

/// The CA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityFacts {
    /// The first 16 digits of its key's fingerprint.
    pub id: String,
    pub life: Life,
    /// The id of the CA before it, while that is trusted too.
    pub previous: Option<String>,
    pub command: Option<Command>,
}

/// What the annotation asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Rotate,
    Retire,
    Unknown(String),
}

impl Command {
    pub fn read(text: &str) -> Command {
        match text.trim() {
            "rotate" => Command::Rotate,
            "retire" => Command::Retire,
            other => Command::Unknown(other.chars().take(40).collect()),
        }
    }
}

/// A certificate that signs none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafFacts {
    pub life: Life,
    /// DNS names and addresses.
    pub names: Vec<String>,
    /// The id of the CA of ours that signed it, the previous one too.
    pub signed_by: Option<String>,
}

impl LeafFacts {
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.life.not_after < now
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrationFacts {
    pub secret: String,
    pub found: Found<LeafFacts>,
}

/// Whose keys the EdgeDevices hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceKeys {
    /// By the id of the CA that they depend on.
    pub by_ca: BTreeMap<String, Holders>,
    /// Those of whom nobody knows which CA they depend on, such as Flotta's before their first request. They count for
    /// every CA.
    pub unknown: Holders,
}

/// How many, and some of them by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holders {
    pub count: usize,
    pub some: Vec<String>,
}

impl DeviceKeys {
    /// Whether a device holds a key that a CA of ours has signed.
    pub(super) fn any(&self) -> bool {
        self.unknown.count > 0 || self.by_ca.values().any(|holders| holders.count > 0)
    }

    pub(super) fn depend_on(&self, ca: &str) -> Holders {
        let mut all = self.unknown.clone();
        if let Some(holders) = self.by_ca.get(ca) {
            all.count += holders.count;
            all.some.extend(holders.some.iter().cloned());
        }
        all
    }
}
