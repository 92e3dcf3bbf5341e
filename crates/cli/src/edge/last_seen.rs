//! When devices were heard of last, from the roll that the operator keeps in ConfigMaps of its own namespace. It is written every
//! five minutes, and not everybody may look there.

use std::collections::HashMap;

use flashjob_plan::edge::heartbeat::roll::{self, Decoded, LABEL};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::check::{ReadError, soon};
use crate::edge::device::Device;
use crate::edge::read::Kind;
use crate::read::pages_of;

/// A ConfigMap of the roll has up to two thirds of a mebibyte.
const PAGE: u32 = 5;

/// By `namespace/name`.
#[derive(Debug, Default)]
pub struct LastSeen(HashMap<String, Timestamp>);

impl LastSeen {
    /// The error is a sentence.
    pub async fn read(client: &Client, home: &str) -> Result<LastSeen, String> {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), home);
        let choice = ListParams::default().labels(&format!("{LABEL}=true")).limit(PAGE);
        let decode = |map: ConfigMap| {
            roll::shard_of(&map.name_any())?;
            Some(roll::decode(&map.data.unwrap_or_default()))
        };
        match soon(pages_of(&maps, choice, decode)).await {
            Ok(decoded) => Ok(LastSeen::from_roll(decoded.into_iter().flatten())),
            Err(ReadError::Forbidden) => {
                Err(format!("you may not see the ConfigMaps of namespace {home}"))
            }
            Err(ReadError::Failed(message)) => Err(message),
        }
    }

    /// A device that is in two ConfigMaps was heard of when the later one says.
    pub fn from_roll(decoded: impl IntoIterator<Item = Decoded>) -> LastSeen {
        let mut seen = HashMap::new();
        for entry in decoded.into_iter().flat_map(|decoded| decoded.entries) {
            let last: &mut Timestamp = seen.entry(entry.device).or_insert(entry.last_seen);
            *last = entry.last_seen.max(*last);
        }
        LastSeen(seen)
    }

    pub fn of(&self, device: &Device) -> Option<Timestamp> {
        self.0.get(&device.path()).copied()
    }
}
