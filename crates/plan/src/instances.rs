//! The devices Akri knows now, indexed the ways a job may name them.

use std::collections::{BTreeMap, HashMap};

/// What we need of one Akri Instance.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Instance {
    /// metadata.uid: another one each time Akri discovers the board again.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name: stable for one Configuration and one address.
    pub name: String,
    /// The board's address.
    pub endpoint: String,
    /// The type of board.
    pub device: String,
    /// The application it runs.
    pub application: String,
    /// The version it last reported; may be stale.
    pub version: String,
    /// The Configuration that found it.
    pub configuration: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Akri is taking it away: the board is offline.
    pub deleting: bool,
}

/// All Instances, by namespace and name, by uid, and by name alone.
#[derive(Clone, Debug, Default)]
pub struct Instances {
    by_key: BTreeMap<(String, String), Instance>,
    by_uid: HashMap<String, (String, String)>,
    by_name: HashMap<String, Vec<String>>,
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
    /// Puts in what a watch has shown, in place of what was there.
    pub fn insert(&mut self, instance: Instance) {
        self.remove(&instance.namespace, &instance.name);
        let key = (instance.namespace.clone(), instance.name.clone());
        self.by_uid.insert(instance.uid.clone(), key.clone());
        self.by_name.entry(key.1.clone()).or_default().push(key.0.clone());
        self.by_key.insert(key, instance);
    }

    /// Takes out what a watch has shown gone.
    pub fn remove(&mut self, namespace: &str, name: &str) {
        let Some(old) = self.by_key.remove(&(namespace.to_owned(), name.to_owned())) else {
            return;
        };
        self.by_uid.remove(&old.uid);
        if let Some(namespaces) = self.by_name.get_mut(name) {
            namespaces.retain(|n| n != namespace);
            if namespaces.is_empty() {
                self.by_name.remove(name);
            }
        }
    }

    /// The Instance at this namespace and name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Instance> {
        self.by_key.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// Every Instance, in order of namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &Instance> {
        self.by_key.values()
    }

    /// Finds what a user wrote in `spec.uuid`: a uid, `namespace/name`, or a name, the job's own namespace first.
    /// `reachable` says in which namespaces the job may find devices.
    pub fn find(&self, written: &str, own: &str, reachable: impl Fn(&str) -> bool) -> Found<'_> {
        let one = |key: &(String, String)| match self.by_key.get(key) {
            Some(instance) if reachable(&instance.namespace) => Found::One(instance),
            _ => Found::Nothing,
        };
        if let Some(key) = self.by_uid.get(written) {
            return one(key);
        }
        if let Some((namespace, name)) = written.split_once('/') {
            return one(&(namespace.to_owned(), name.to_owned()));
        }
        let Some(namespaces) = self.by_name.get(written) else { return Found::Nothing };
        if namespaces.iter().any(|n| n == own) {
            return one(&(own.to_owned(), written.to_owned()));
        }
        let mut elsewhere: Vec<&String> = namespaces.iter().filter(|n| reachable(n)).collect();
        elsewhere.sort();
        match elsewhere.as_slice() {
            [] => Found::Nothing,
            [namespace] => one(&((*namespace).clone(), written.to_owned())),
            several => Found::Several(several.iter().map(|n| format!("{n}/{written}")).collect()),
        }
    }

    /// Finds a pinned device again after Akri lost and re-discovered it: by namespace and name, else by its address in
    /// that namespace.
    pub fn find_again(&self, namespace: &str, name: &str, endpoint: &str) -> Option<&Instance> {
        self.get(namespace, name)
            .or_else(|| {
                self.iter()
                    .find(|i| i.namespace == namespace && i.endpoint == endpoint && !i.deleting)
            })
            .filter(|i| !i.deleting)
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
            endpoint: format!("10.0.0.{uid}"),
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
        assert_eq!(all.find_again("a", "x", "10.0.0.1").map(|i| i.uid.as_str()), Some("9"));
        all.remove("a", "x");
        let mut moved = instance("a", "other", "10");
        moved.endpoint = "10.0.0.1".into();
        all.insert(moved);
        assert_eq!(all.find_again("a", "x", "10.0.0.1").map(|i| i.name.as_str()), Some("other"));
    }
}
