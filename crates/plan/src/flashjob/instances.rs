//! The devices Akri knows now, indexed the ways a job may name them.

use std::collections::{BTreeMap, HashMap};

use flashjob_api::flashjob::instance::{self, InstanceSpec};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::flashjob::endpoint::{BoardKey, Endpoint};

/// The most that timeouts.offlineSeconds can be.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_hours(30 * 24);

/// A property of a board that is longer than this, in bytes, is none: it goes into ledgers and statuses.
const LONGEST_PROPERTY: usize = 1024;

/// What we need of one Akri Instance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Instance {
    /// metadata.uid: another one each time Akri discovers the board again.
    pub uid: String,
    pub namespace: String,
    /// Its name: stable for one Configuration and one address.
    pub name: String,
    /// The board's address; empty if it has none.
    pub endpoint: Endpoint,
    /// The type of board.
    pub device: String,
    /// The application it runs.
    pub application: String,
    /// The version it last reported; may be stale.
    pub version: String,
    /// The Configuration that found it.
    pub configuration: String,
    pub labels: BTreeMap<String, String>,
    /// Akri is taking it away: the board is offline.
    pub deleting: bool,
}

impl Instance {
    /// Reads an Akri Instance.
    pub fn read(metadata: ObjectMeta, spec: Value) -> Result<Instance, serde_json::Error> {
        let spec: InstanceSpec = serde_json::from_value(spec)?;
        let property = |name: &str| {
            let value = spec.broker_properties.get(name).map(|v| v.trim());
            value.filter(|v| v.len() <= LONGEST_PROPERTY).unwrap_or_default().to_owned()
        };
        Ok(Instance {
            uid: metadata.uid.unwrap_or_default(),
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            endpoint: property(instance::HOST_ENDPOINT).into(),
            device: property(instance::DEVICE),
            application: property(instance::APPLICATION_TYPE),
            version: property(instance::VERSION),
            configuration: spec.configuration_name.clone(),
            labels: metadata.labels.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
        })
    }
}

/// All Instances, by namespace and name, by uid, by name alone, and by address.
#[derive(Clone, Debug, Default)]
pub struct Instances {
    by_key: HashMap<String, HashMap<String, Instance>>,
    by_uid: HashMap<String, (String, String)>,
    by_name: HashMap<String, Vec<String>>,
    by_board: HashMap<BoardKey<'static>, Vec<(String, String)>>,
    /// The first list is under way: what is here is there, what is not may still come.
    pub listing: bool,
    /// When the first list was complete: since when it is known what is not there.
    pub listed_at: Option<Timestamp>,
    /// Since when those are away that were there before.
    lost: HashMap<(String, String), Timestamp>,
}

/// What looking for a device found.
#[derive(Clone, Debug, PartialEq)]
pub enum Found<'a> {
    /// This one.
    One(&'a Instance),
    /// None now.
    Nothing,
    /// The name fits Instances in several namespaces.
    Several(Vec<String>),
}

impl Instances {
    /// None yet, and a list of them begins.
    pub fn being_listed() -> Instances {
        Instances { listing: true, ..Instances::default() }
    }

    /// Puts in what a watch has shown, in place of what was there.
    pub fn insert(&mut self, instance: Instance) {
        self.remove(&instance.namespace, &instance.name);
        let key = (instance.namespace.clone(), instance.name.clone());
        if !instance.deleting {
            self.lost.remove(&key);
        }
        self.by_uid.insert(instance.uid.clone(), key.clone());
        self.by_name.entry(key.1.clone()).or_default().push(key.0.clone());
        let board = instance.endpoint.board().into_owned();
        self.by_board.entry(board).or_default().push(key.clone());
        self.by_key.entry(key.0).or_default().insert(key.1, instance);
    }

    /// Notes that an Instance is gone, or about to go, unless that is known already.
    pub fn lose(&mut self, namespace: &str, name: &str, now: Timestamp) {
        self.lost.entry((namespace.to_owned(), name.to_owned())).or_insert(now);
    }

    /// Forgets those that are away for longer than any job would wait for them.
    pub fn forget_lost(&mut self, now: Timestamp) {
        self.lost.retain(|_, since| now.duration_since(*since) < LONGEST_WAIT);
    }

    /// Since when an Instance that was there once is away, as far as is known: a new process knows it from its first list.
    pub fn away_since(&self, namespace: &str, name: &str) -> Option<Timestamp> {
        let lost = self.lost.get(&(namespace.to_owned(), name.to_owned()));
        lost.copied().or(self.listed_at)
    }

    /// Takes out what a watch has shown gone.
    pub fn remove(&mut self, namespace: &str, name: &str) {
        let Some(names) = self.by_key.get_mut(namespace) else { return };
        let Some(old) = names.remove(name) else { return };
        if names.is_empty() {
            self.by_key.remove(namespace);
        }
        self.by_uid.remove(&old.uid);
        if let Some(namespaces) = self.by_name.get_mut(name) {
            namespaces.retain(|n| n != namespace);
            if namespaces.is_empty() {
                self.by_name.remove(name);
            }
        }
        let board = old.endpoint.board();
        if let Some(keys) = self.by_board.get_mut(board.as_str()) {
            keys.retain(|key| (key.0.as_str(), key.1.as_str()) != (namespace, name));
            if keys.is_empty() {
                self.by_board.remove(board.as_str());
            }
        }
    }

    /// The Instance at this namespace and name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Instance> {
        self.by_key.get(namespace)?.get(name)
    }

    /// Every Instance, in order of namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &Instance> {
        let mut all: Vec<&Instance> = self.by_key.values().flat_map(HashMap::values).collect();
        all.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        all.into_iter()
    }

    /// Finds what a user wrote in `spec.uuid`: a uid, `namespace/name`, or a name, the job's own namespace first.
    /// `reachable` says in which namespaces the job may find devices.
    pub fn find(&self, written: &str, own: &str, reachable: impl Fn(&str) -> bool) -> Found<'_> {
        let one = |namespace: &str, name: &str| match self.get(namespace, name) {
            Some(instance) if reachable(&instance.namespace) => Found::One(instance),
            _ => Found::Nothing,
        };
        if let Some(key) = self.by_uid.get(written) {
            return one(&key.0, &key.1);
        }
        if let Some((namespace, name)) = written.split_once('/') {
            return one(namespace, name);
        }
        let Some(namespaces) = self.by_name.get(written) else { return Found::Nothing };
        if namespaces.iter().any(|n| n == own) {
            return one(own, written);
        }
        let mut elsewhere: Vec<&String> = namespaces.iter().filter(|n| reachable(n)).collect();
        elsewhere.sort();
        match elsewhere.as_slice() {
            [] => Found::Nothing,
            [namespace] => one(namespace, written),
            several => Found::Several(several.iter().map(|n| format!("{n}/{written}")).collect()),
        }
    }

    /// The namespaces in which Akri shows a board at this address.
    pub fn namespaces_at(&self, endpoint: &Endpoint) -> impl Iterator<Item = &str> {
        let keys = self.by_board.get(endpoint.board().as_str()).into_iter().flatten();
        keys.map(|(namespace, _)| namespace.as_str())
    }

    /// Finds a pinned device again after Akri lost and re-discovered it: by namespace and name, else by its address in
    /// that namespace. While they are listed the name alone counts: it may be the next to come.
    pub fn find_again(
        &self,
        namespace: &str,
        name: &str,
        endpoint: &Endpoint,
    ) -> Option<&Instance> {
        let by_board = || {
            let keys = self.by_board.get(endpoint.board().as_str())?.iter();
            let keys = keys.filter(|key| key.0 == namespace);
            let found = keys.filter_map(|key| self.get(&key.0, &key.1));
            found.filter(|i| !i.deleting).min_by(|a, b| a.name.cmp(&b.name))
        };
        let by_name = self.get(namespace, name);
        by_name.or_else(|| by_board().filter(|_| !self.listing)).filter(|i| !i.deleting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(namespace: &str, name: &str, uid: &str) -> Instance {
        Instance {
            uid: uid.into(),
            namespace: namespace.into(),
            name: name.into(),
            endpoint: format!("10.0.0.{uid}").into(),
            ..Instance::default()
        }
    }

    fn all() -> Instances {
        let mut all = Instances::default();
        for (namespace, name, uid) in [("a", "x", "1"), ("b", "x", "2"), ("b", "y", "3")] {
            all.insert(instance(namespace, name, uid));
        }
        all
    }

    fn uid(found: Found<'_>) -> String {
        match found {
            Found::One(i) => i.uid.clone(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_device_is_found_by_uid_by_path_and_by_name() {
        let all = all();
        let anywhere = |_: &str| true;
        assert_eq!(uid(all.find("2", "a", anywhere)), "2");
        assert_eq!(uid(all.find("b/x", "a", anywhere)), "2");
        assert_eq!(uid(all.find("x", "a", anywhere)), "1", "own namespace first");
        assert_eq!(uid(all.find("y", "a", anywhere)), "3", "elsewhere when there is one");
        assert_eq!(all.find("x", "c", anywhere), Found::Several(vec!["a/x".into(), "b/x".into()]));
        assert_eq!(all.find("z", "a", anywhere), Found::Nothing);
    }

    #[test]
    fn a_namespace_out_of_reach_has_no_devices() {
        let all = all();
        let only_a = |n: &str| n == "a";
        assert_eq!(all.find("3", "a", only_a), Found::Nothing);
        assert_eq!(all.find("b/y", "a", only_a), Found::Nothing);
        assert_eq!(uid(all.find("x", "c", only_a)), "1");
    }

    #[test]
    fn a_device_discovered_again_is_the_same_device() {
        let mut all = all();
        all.insert(instance("a", "x", "9"));
        assert_eq!(all.find("1", "a", |_| true), Found::Nothing, "the old uid is gone");
        assert_eq!(all.find_again("a", "x", &"10.0.0.1".into()).map(|i| i.uid.as_str()), Some("9"));
        all.remove("a", "x");
        let mut moved = instance("a", "other", "10");
        moved.endpoint = "10.0.0.1".into();
        all.insert(moved);
        assert_eq!(
            all.find_again("a", "x", &"10.0.0.1".into()).map(|i| i.name.as_str()),
            Some("other")
        );
    }
}
