//! EdgeDeviceSets and EdgeDeviceGroups, which are one thing with two names.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use flashjob_api::edge;

use crate::engine::watch::WatchEvent;

/// Of two sets with one name the one of the newer kind counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SetKind {
    EdgeDeviceSet,
    EdgeDeviceGroup,
}

impl SetKind {
    pub const ALL: [Self; 2] = [Self::EdgeDeviceSet, Self::EdgeDeviceGroup];
}

/// What a set says, or why it cannot be read.
pub type SetSettings = Arc<Result<edge::Settings, String>>;
type Key = (String, String, SetKind);

#[derive(Default)]
pub struct Sets {
    known: BTreeMap<Key, SetSettings>,
    listing: HashMap<(SetKind, String), HashSet<String>>,
}

impl Sets {
    /// The set of this name in this namespace.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&SetSettings> {
        let key = |kind| (namespace.to_owned(), name.to_owned(), kind);
        SetKind::ALL.into_iter().find_map(|kind| self.known.get(&key(kind)))
    }

    /// Takes in what a watch saw. Returns the names of those that have changed.
    pub fn take(
        &mut self,
        kind: SetKind,
        namespace: &str,
        event: WatchEvent<(String, SetSettings)>,
    ) -> BTreeSet<String> {
        let list = (kind, namespace.to_owned());
        let key = |name: &str| (namespace.to_owned(), name.to_owned(), kind);
        match event {
            WatchEvent::Listing => {
                self.listing.insert(list, HashSet::new());
                BTreeSet::new()
            }
            WatchEvent::There((name, settings)) => {
                if let Some(listing) = self.listing.get_mut(&list) {
                    listing.insert(name.clone());
                }
                let before = self.known.insert(key(&name), settings.clone());
                if before == Some(settings) { BTreeSet::new() } else { BTreeSet::from([name]) }
            }
            WatchEvent::Left((name, _)) => {
                self.known.remove(&key(&name));
                BTreeSet::from([name])
            }
            WatchEvent::Synced => {
                let seen = self.listing.remove(&list).unwrap_or_default();
                let here = |key: &Key| key.0 == namespace && key.2 == kind;
                let gone = self.known.keys().filter(|key| here(key) && !seen.contains(&key.1));
                let gone: BTreeSet<String> = gone.map(|key| key.1.clone()).collect();
                gone.iter().for_each(|name| drop(self.known.remove(&key(name))));
                gone
            }
        }
    }
}

#[cfg(test)]
mod tests;
