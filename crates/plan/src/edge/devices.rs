//! All that is known of devices: an index of EdgeDevices, requests for approval and tombstones by the name they share.
//!
//! It is fed by watches and by the answers to our own writes, and the two may come in any order: what a watch says of an
//! object may be older than what we have written since. So of one object the newer version counts, and an answer that came
//! while a list was under way is not undone by that list. A list itself is the truth, also where its versions are lower
//! than those seen before: the cluster may have been restored from a backup.

use std::collections::{HashMap, HashSet};

use super::certificates::{DeviceKeys, Holders};
use super::facts::{EdgeDeviceFacts, SignedRequestFacts};
use super::keys::Keys;
use super::tombstone::Tombstone;

/// Everything of one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// At most one in each namespace.
    pub devices: Vec<EdgeDeviceFacts>,
    pub signed_request: Option<SignedRequestFacts>,
    /// At most one for each namespace.
    pub tombstones: Vec<Tombstone>,
}

impl Entry {
    fn is_empty(&self) -> bool {
        self.devices.is_empty() && self.signed_request.is_none() && self.tombstones.is_empty()
    }

    pub fn device(&self, namespace: &str) -> Option<&EdgeDeviceFacts> {
        self.devices.iter().find(|device| device.namespace == namespace)
    }

    pub fn tombstone(&self, namespace: &str) -> Option<&Tombstone> {
        self.tombstones.iter().find(|tombstone| tombstone.namespace == namespace)
    }
}

/// A list of EdgeDevices of one namespace, or of requests for approval, that is under way.
#[derive(Debug, Default)]
struct Listing {
    /// Names that were in it, and those that were written meanwhile.
    seen: HashSet<String>,
    /// What we have written since it began, with its version.
    written: HashMap<String, u64>,
}

/// The index.
#[derive(Debug, Default)]
pub struct Devices {
    /// Boxed: a table of so many has as much again of free places.
    entries: HashMap<String, Box<Entry>>,
    /// By namespace; requests for approval are all in one.
    lists: HashMap<String, Listing>,
    request_list: Option<Listing>,
    /// Requests that nobody has answered yet.
    pending: usize,
}

impl Devices {
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name).map(Box::as_ref)
    }

    /// How many requests for approval wait for an answer.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// A list of the EdgeDevices of a namespace begins.
    pub fn begin_devices(&mut self, namespace: &str) {
        self.lists.insert(namespace.to_owned(), Listing::default());
    }

    /// That list is complete. Returns the names of those that are gone.
    pub fn end_devices(&mut self, namespace: &str) -> Vec<String> {
        let Some(list) = self.lists.remove(namespace) else { return Vec::new() };
        let here = |entry: &Entry| entry.device(namespace).is_some();
        let gone =
            self.entries.iter().filter(|(name, entry)| here(entry) && !list.seen.contains(*name));
        let gone: Vec<String> = gone.map(|(name, _)| name.clone()).collect();
        gone.iter().for_each(|name| {
            self.change(name, |entry| entry.devices.retain(|d| d.namespace != namespace))
        });
        gone
    }

    /// A watch or a live read says that this is there.
    pub fn see_device(&mut self, name: &str, device: EdgeDeviceFacts) {
        let listing = self.lists.get_mut(&device.namespace);
        let in_list = listing.is_some();
        if let Some(list) = listing {
            list.seen.insert(name.to_owned());
            if list.written.get(name).is_some_and(|written| *written > device.resource_version) {
                return;
            }
        }
        let known = self.entry(name).and_then(|entry| entry.device(&device.namespace));
        let older = |known: &EdgeDeviceFacts| {
            known.uid == device.uid && known.resource_version > device.resource_version
        };
        if !in_list && known.is_some_and(older) {
            return;
        }
        self.put_device(name, device);
    }

    /// The answer to a write of ours.
    pub fn wrote_device(&mut self, name: &str, device: EdgeDeviceFacts) {
        if let Some(list) = self.lists.get_mut(&device.namespace) {
            list.seen.insert(name.to_owned());
            list.written.insert(name.to_owned(), device.resource_version);
        }
        let known = self.entry(name).and_then(|entry| entry.device(&device.namespace));
        // A watch may have been faster.
        let newer = |known: &EdgeDeviceFacts| {
            known.uid == device.uid && known.resource_version > device.resource_version
        };
        if !known.is_some_and(newer) {
            self.put_device(name, device);
        }
    }

    /// A write of ours was for a version that the server has never heard of, and this is what it has: the cluster was restored
    /// from a backup.
    pub fn went_back(&mut self, name: &str, tried: u64, device: EdgeDeviceFacts) {
        let known = self.entry(name).and_then(|entry| entry.device(&device.namespace));
        // A list may have said so meanwhile.
        if known.is_some_and(|known| known.uid == device.uid && known.resource_version == tried) {
            self.put_device(name, device);
        }
    }

    fn put_device(&mut self, name: &str, device: EdgeDeviceFacts) {
        self.change(name, |entry| {
            let place =
                entry.devices.binary_search_by(|known| known.namespace.cmp(&device.namespace));
            match place {
                Ok(at) => entry.devices[at] = device,
                Err(at) => {
                    // As a rule there is no other.
                    entry.devices.reserve_exact(1);
                    entry.devices.insert(at, device);
                }
            }
        });
    }

    /// This very EdgeDevice is gone.
    pub fn lose_device(&mut self, name: &str, namespace: &str, uid: &str) {
        self.change(name, |entry| {
            entry.devices.retain(|known| known.namespace != namespace || known.uid != uid);
        });
    }

    /// A live read found no EdgeDevice of this name there.
    pub fn no_device(&mut self, name: &str, namespace: &str) {
        self.change(name, |entry| entry.devices.retain(|known| known.namespace != namespace));
    }

    pub fn begin_requests(&mut self) {
        self.request_list = Some(Listing::default());
    }

    /// The list of requests for approval is complete. Returns the names of those that are gone.
    pub fn end_requests(&mut self) -> Vec<String> {
        let Some(list) = self.request_list.take() else { return Vec::new() };
        let asked = self.entries.iter().filter(|(_, entry)| entry.signed_request.is_some());
        let gone = asked.filter(|(name, _)| !list.seen.contains(*name));
        let gone: Vec<String> = gone.map(|(name, _)| name.clone()).collect();
        gone.iter().for_each(|name| self.change(name, |entry| entry.signed_request = None));
        gone
    }

    /// A watch, a live read or the answer to a write says that this request is there.
    pub fn see_request(&mut self, name: &str, request: SignedRequestFacts) {
        if let Some(list) = &mut self.request_list {
            list.seen.insert(name.to_owned());
        }
        let known = self.entry(name).and_then(|entry| entry.signed_request.as_ref());
        let older = |known: &SignedRequestFacts| {
            known.uid == request.uid && known.resource_version > request.resource_version
        };
        if self.request_list.is_none() && known.is_some_and(older) {
            return;
        }
        self.change(name, |entry| entry.signed_request = Some(request));
    }

    /// There is no request of this uid any more; `None`: of this name.
    pub fn lose_request(&mut self, name: &str, uid: Option<&str>) {
        self.change(name, |entry| {
            entry.signed_request.take_if(|known| uid.is_none_or(|uid| known.uid == uid));
        });
    }

    /// A tombstone is written.
    pub fn put_tombstone(&mut self, tombstone: Tombstone) {
        let name = tombstone.name.clone();
        self.change(&name, |entry| {
            entry.tombstones.retain(|known| known.namespace != tombstone.namespace);
            entry.tombstones.push(tombstone);
        });
    }

    pub fn drop_tombstone(&mut self, name: &str, namespace: &str) {
        self.change(name, |entry| entry.tombstones.retain(|known| known.namespace != namespace));
    }

    pub fn tombstones(&self) -> impl Iterator<Item = &Tombstone> {
        self.entries.values().flat_map(|entry| &entry.tombstones)
    }

    /// The EdgeDevices of a namespace, with their names.
    pub fn of_namespace<'a>(
        &'a self,
        namespace: &str,
    ) -> impl Iterator<Item = (&'a String, &'a EdgeDeviceFacts)> {
        self.entries.iter().filter_map(move |(name, entry)| Some((name, entry.device(namespace)?)))
    }

    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.entries.keys()
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut Entry)) {
        let entry = self.entries.entry(name.to_owned()).or_default();
        let waits = |entry: &Entry| {
            entry.signed_request.as_ref().is_some_and(|r| !r.approved && !r.declined)
        };
        self.pending -= usize::from(waits(entry));
        change(entry);
        self.pending += usize::from(waits(entry));
        if entry.is_empty() {
            self.entries.remove(name);
        }
    }

    /// Whose keys depend on which CA.
    pub fn keys_by_ca(&self) -> DeviceKeys {
        let mut keys = DeviceKeys::default();
        for (name, entry) in &self.entries {
            for device in &entry.devices {
                match device.keys.as_ref().ok().and_then(Keys::ca) {
                    Some(ca) => add(keys.by_ca.entry(ca.0.clone()).or_default(), name),
                    // It has no certificate yet.
                    None if device.unclaimed => {}
                    None => add(&mut keys.unknown, name),
                }
            }
        }
        keys
    }
}

/// How many are named of those who depend on a CA.
const SOME: usize = 5;

/// The first by name are named, so that a sentence about them stays the same.
fn add(holders: &mut Holders, name: &str) {
    holders.count += 1;
    let place = holders.some.partition_point(|known| known.as_str() < name);
    if place < SOME {
        holders.some.insert(place, name.to_owned());
        holders.some.truncate(SOME);
    }
}

#[cfg(test)]
mod tests;
