//! The configuration of one device: its settings and its workloads, put together when they are sent.
//!
//! What a device costs is a few pointers, since settings and workloads are texts that it shares with others. The version is
//! a hash of what is sent: the same for every process that serves, and another one exactly when something changes. So who
//! has it need not be told again. It is made of the hashes of the parts, which were hashed once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::sync::Arc;

use flashjob_api::edge::wire::{DeviceConfiguration, Message};
use sha2::{Digest, Sha256};

use super::fragment::{Fragment, SecretText, text};

/// Bytes that a device is sent. Its gateway hands them on in one gRPC message, which has 4 MiB at most.
pub const LARGEST_CONFIGURATION: usize = 3 << 20;

/// Seconds between two looks of a device at what it runs.
const MONITORING_INTERVAL: i64 = 15;

/// The settings of a device as they are sent. Devices that have the same can share it.
#[derive(Clone)]
pub struct SettingsText {
    json: Arc<str>,
    hash: [u8; 32],
}

/// What a device is to do.
pub struct Configuration {
    device: Box<str>,
    settings: SettingsText,
    /// By name.
    fragments: Box<[Arc<Fragment>]>,
    /// Sixteen bytes are more than enough to tell two configurations of one device apart.
    version: [u8; 16],
}

pub struct Composed {
    pub configuration: Configuration,
    /// Workloads that it has no room for.
    pub left_out: Vec<String>,
}

impl SettingsText {
    pub fn new(settings: &DeviceConfiguration) -> Self {
        let (json, hash) = text(settings);
        Self { json: json.into(), hash }
    }
}

/// Workloads have their place by name, in whatever order they come; so have those that there is no room for.
pub fn compose(
    device: &str,
    settings: &SettingsText,
    fragments: impl IntoIterator<Item = Arc<Fragment>>,
) -> Composed {
    let fragments = fragments.into_iter().map(|fragment| (fragment.name.clone(), fragment));
    let fragments: BTreeMap<_, _> = fragments.collect();
    let (mut kept, mut left_out, mut known) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut room = LARGEST_CONFIGURATION.saturating_sub(settings.json.len());
    for (name, fragment) in fragments {
        let secrets = fragment.secrets.iter().filter(|secret| !known.contains(&secret.name));
        let size = fragment.json.len() + secrets.map(|secret| secret.json.len()).sum::<usize>();
        if size > room {
            left_out.push(name);
            continue;
        }
        room -= size;
        known.extend(fragment.secrets.iter().map(|secret| secret.name.clone()));
        kept.push(fragment);
    }
    let mut configuration = Configuration {
        device: device.into(),
        settings: settings.clone(),
        fragments: kept.into(),
        version: [0; 16],
    };
    configuration.version = configuration.hash();
    Composed { configuration, left_out }
}

impl Configuration {
    pub fn version(&self) -> String {
        let mut version = String::with_capacity(32);
        for byte in self.version {
            // Writing to a text cannot fail.
            let _ = write!(version, "{byte:02x}");
        }
        version
    }

    /// Whether the device is told to run it.
    pub fn has(&self, workload: &str) -> bool {
        self.fragments.binary_search_by(|fragment| fragment.name.as_str().cmp(workload)).is_ok()
    }

    /// The workloads that the device is told to run, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fragments.iter().map(|fragment| fragment.name.as_str())
    }

    /// Whether the workload is the same in the other.
    pub fn has_same(&self, workload: &str, other: &Self) -> bool {
        let hash = |of: &Self| of.fragments.iter().find(|f| f.name == workload).map(|f| f.hash);
        hash(self) == hash(other)
    }

    /// The content of the message, a `DeviceConfigurationMessage`.
    pub fn content_json(&self) -> String {
        let secrets = self.secrets();
        let size = self.settings.json.len()
            + self.fragments.iter().map(|fragment| fragment.json.len() + 1).sum::<usize>()
            + secrets.iter().map(|secret| secret.json.len() + 1).sum::<usize>();
        let mut json = String::with_capacity(size + 2 * self.device.len() + 192);
        json.push_str("{\"device_id\":");
        json.push_str(&serde_json::Value::from(&*self.device).to_string());
        let _ = write!(json, ",\"version\":\"{}\",\"configuration\":", self.version());
        json.push_str(&self.settings.json);
        list(&mut json, "workloads", self.fragments.iter().map(|fragment| &*fragment.json));
        list(&mut json, "secrets", secrets.iter().map(|secret| &*secret.json));
        let _ = write!(json, ",\"workloads_monitoring_interval\":{MONITORING_INTERVAL}}}");
        json
    }

    /// The whole message. `envelope` is without its content.
    pub fn body(&self, envelope: &Message) -> String {
        let envelope = Message { content: serde_json::Value::Null, ..envelope.clone() };
        let mut body = serde_json::to_string(&envelope).unwrap_or_default();
        // It has at least its type, so there is something before the comma.
        body.pop();
        body.push_str(",\"content\":");
        body.push_str(&self.content_json());
        body.push('}');
        body
    }

    /// Those of all workloads, each once. Rendered from the same Secret they are the same; if one of them is older for a
    /// moment, that of the first workload counts.
    fn secrets(&self) -> Vec<&SecretText> {
        let mut secrets = BTreeMap::new();
        for secret in self.fragments.iter().flat_map(|fragment| &fragment.secrets) {
            secrets.entry(&secret.name).or_insert(&**secret);
        }
        secrets.into_values().collect()
    }

    /// Each part has a hash of one length, so none can be taken for another.
    fn hash(&self) -> [u8; 16] {
        let mut hash = Sha256::new();
        hash.update(Sha256::digest(self.device.as_bytes()));
        hash.update(self.settings.hash);
        for fragment in &self.fragments {
            hash.update(fragment.hash);
        }
        // Where workloads end and Secrets begin.
        hash.update([0; 32]);
        for secret in self.secrets() {
            hash.update(secret.hash);
        }
        let mut version = [0; 16];
        version.copy_from_slice(&hash.finalize()[..16]);
        version
    }
}

/// One more field, a list of what is JSON already. An empty one is left out.
fn list<'a>(json: &mut String, name: &str, entries: impl Iterator<Item = &'a str>) {
    let mut before = format!(",\"{name}\":[");
    for entry in entries {
        json.push_str(&before);
        json.push_str(entry);
        before = ",".to_owned();
    }
    if before == "," {
        json.push(']');
    }
}

/// Without what is sent.
impl fmt::Debug for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Configuration")
            .field("device", &self.device)
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}

/// Without the keys of a bucket.
impl fmt::Debug for SettingsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SettingsText").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
