//! The Secrets and ConfigMaps that configurations are made of, as far as they are known.
//!
//! That there is no such object and that nobody has read it yet are two things: without the first a device may be told the
//! rest, without the second it is told nothing new.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use crate::edge::problem::Problem;

/// What is known of an object.
#[derive(Clone, Debug)]
pub enum Found<T> {
    There(Arc<T>),
    /// It was looked for, and there is none.
    Missing,
    /// It was not read yet.
    Unknown,
    /// The same, because reads of it fail: what was said to the last of them. It is tried again.
    Failed(Arc<str>),
    /// Who asks may not read it. To the operator that does not happen; people see the place where it would be.
    Unreadable,
}

impl<T> Found<T> {
    /// What stands in for it where it may not be read.
    pub(in crate::edge) fn or_stand_in(self) -> Self
    where
        T: Stand,
    {
        match self {
            Self::Unreadable => Self::There(Arc::new(T::in_for())),
            found => found,
        }
    }
}

/// Stands for what people may not read. It is the key of no object.
pub const NOT_READABLE: &str = "<not readable>";

/// Who knows them.
pub trait Material {
    fn secret(&self, namespace: &str, name: &str) -> Found<SecretData>;
    fn config_map(&self, namespace: &str, name: &str) -> Found<ConfigMapData>;
}

/// Why something cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// Something it needs was not read yet. It will be. What there is to say of that, if reads fail.
    Unread(Vec<Problem>),
    /// What somebody has to do something about: in order, and not too many.
    Problems(Vec<Problem>),
}

#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretData {
    pub data: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, Default, PartialEq, Eq)]
pub struct ConfigMapData {
    pub data: BTreeMap<String, String>,
    pub binary: BTreeMap<String, Vec<u8>>,
}

impl From<Secret> for SecretData {
    fn from(secret: Secret) -> Self {
        Self::new(secret.data)
    }
}

impl From<ConfigMap> for ConfigMapData {
    fn from(map: ConfigMap) -> Self {
        Self::new(map.data, map.binary_data)
    }
}

fn bytes(data: Option<BTreeMap<String, ByteString>>) -> BTreeMap<String, Vec<u8>> {
    data.into_iter().flatten().map(|(key, value)| (key, value.0)).collect()
}

impl SecretData {
    /// With what such an object has in its field of this name.
    pub fn new(data: Option<BTreeMap<String, ByteString>>) -> Self {
        Self { data: bytes(data) }
    }

    pub(in crate::edge) fn get(&self, key: &str) -> Option<&Vec<u8>> {
        self.data.get(key).or_else(|| self.data.get(NOT_READABLE))
    }
}

impl ConfigMapData {
    /// With what such an object has in its fields `data` and `binaryData`.
    pub fn new(
        data: Option<BTreeMap<String, String>>,
        binary: Option<BTreeMap<String, ByteString>>,
    ) -> Self {
        Self { data: data.unwrap_or_default(), binary: bytes(binary) }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some() || self.binary.contains_key(key)
    }

    pub(in crate::edge) fn get(&self, key: &str) -> Option<&String> {
        self.data.get(key).or_else(|| self.data.get(NOT_READABLE))
    }

    /// It stands in for one that may not be read.
    pub(in crate::edge) fn stands_in(&self) -> bool {
        self.data.contains_key(NOT_READABLE)
    }
}

/// An object that may be unreadable, with whatever key is asked for.
pub(in crate::edge) trait Stand {
    fn in_for() -> Self;
}

impl Stand for SecretData {
    fn in_for() -> Self {
        Self { data: [(NOT_READABLE.to_owned(), NOT_READABLE.into())].into() }
    }
}

impl Stand for ConfigMapData {
    fn in_for() -> Self {
        let data = [(NOT_READABLE.to_owned(), NOT_READABLE.to_owned())].into();
        Self { data, binary: BTreeMap::new() }
    }
}

/// The keys without what they hold.
impl fmt::Debug for SecretData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SecretData").field(&self.data.keys()).finish()
    }
}

/// The keys: what they hold may be long.
impl fmt::Debug for ConfigMapData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConfigMapData").field(&self.data.keys()).field(&self.binary.keys()).finish()
    }
}

#[cfg(test)]
pub(in crate::edge) mod tests {
    use super::*;

    /// A namespace that was read as a whole, but for the names in `unread`.
    #[derive(Default)]
    pub struct Namespace {
        pub secrets: BTreeMap<String, SecretData>,
        pub config_maps: BTreeMap<String, ConfigMapData>,
        pub unread: Vec<String>,
        /// Names, and what is said to who reads them.
        pub failing: BTreeMap<String, String>,
    }

    impl Namespace {
        pub fn secret(mut self, name: &str, data: &[(&str, &str)]) -> Self {
            let entry = |(key, value): &(&str, &str)| ((*key).into(), value.as_bytes().to_vec());
            let data = data.iter().map(entry).collect();
            self.secrets.insert(name.into(), SecretData { data });
            self
        }

        pub fn config_map(mut self, name: &str, data: &[(&str, &str)]) -> Self {
            let entry = |(key, value): &(&str, &str)| ((*key).into(), (*value).into());
            let data = data.iter().map(entry).collect();
            self.config_maps.insert(name.into(), ConfigMapData { data, ..Default::default() });
            self
        }

        pub fn unread(mut self, name: &str) -> Self {
            self.unread.push(name.into());
            self
        }

        pub fn failing(mut self, name: &str, why: &str) -> Self {
            self.failing.insert(name.into(), why.into());
            self
        }

        fn look<T: Clone>(
            &self,
            of: &BTreeMap<String, T>,
            namespace: &str,
            name: &str,
        ) -> Found<T> {
            assert_eq!(namespace, "default", "nobody asks for objects of another namespace");
            if let Some(why) = self.failing.get(name) {
                return Found::Failed(why.as_str().into());
            }
            match of.get(name) {
                _ if self.unread.iter().any(|unread| unread == name) => Found::Unknown,
                Some(found) => Found::There(Arc::new(found.clone())),
                None => Found::Missing,
            }
        }
    }

    impl Material for Namespace {
        fn secret(&self, namespace: &str, name: &str) -> Found<SecretData> {
            self.look(&self.secrets, namespace, name)
        }

        fn config_map(&self, namespace: &str, name: &str) -> Found<ConfigMapData> {
            self.look(&self.config_maps, namespace, name)
        }
    }

    /// Nothing here may be read.
    pub struct Closed;

    impl Material for Closed {
        fn secret(&self, _: &str, _: &str) -> Found<SecretData> {
            Found::Unreadable
        }

        fn config_map(&self, _: &str, _: &str) -> Found<ConfigMapData> {
            Found::Unreadable
        }
    }

    #[test]
    fn what_may_not_be_read_has_its_place_and_is_no_problem() {
        let key = serde_json::json!({ "name": "o", "key": "k" });
        let env = ["secretKeyRef", "configMapKeyRef"]
            .map(|from| serde_json::json!({ "name": "V", "valueFrom": { from: key } }));
        let spec = serde_json::from_value(serde_json::json!({
            "pod": { "spec": { "containers": [{ "name": "c", "image": "i", "env": env }] } },
            "imageRegistries": { "secretRef": { "name": "o" } },
            "metrics": { "port": 1, "allowList": { "name": "o" } }
        }))
        .unwrap();
        let (labels, annotations) = (BTreeMap::new(), BTreeMap::new());
        let namespace = "default";
        let input = crate::edge::configuration::WorkloadInput {
            namespace,
            name: "w",
            labels: &labels,
            annotations: &annotations,
            spec: &spec,
        };
        let fragment = crate::edge::configuration::fragment(&input, &Closed).unwrap();
        assert_eq!(fragment.json.matches(NOT_READABLE).count(), 3, "{}", fragment.json);
        assert_eq!(fragment.secrets.len(), 1);

        let settings = serde_json::from_value(serde_json::json!({
            "heartbeat": { "periodSeconds": 5 },
            "logCollection": { "a": { "syslogConfig": { "name": "o" } } },
            "metrics": { "system": { "allowList": { "name": "o" } } },
            "storage": { "s3": { "secretName": "o", "configMapName": "o" } }
        }))
        .unwrap();
        let rendered =
            crate::edge::configuration::render_settings(namespace, &settings, None, &Closed);
        assert_eq!((rendered.problems, rendered.unread), (Vec::new(), false));
        let heartbeat = rendered.configuration.heartbeat.unwrap();
        assert_eq!(heartbeat.period_seconds, 5);
        let bucket = rendered.configuration.storage.unwrap().s3.unwrap();
        assert_eq!((bucket.bucket_host.as_str(), bucket.bucket_port), (NOT_READABLE, 0));
    }

    #[test]
    fn what_a_secret_holds_is_in_no_log() {
        let secret = Secret {
            data: Some([("password".to_owned(), ByteString(b"hunter2".to_vec()))].into()),
            ..Secret::default()
        };
        let shown = format!("{:?}", Found::There(Arc::new(SecretData::from(secret))));
        assert!(shown.contains("password") && !shown.contains("hunter2"), "{shown}");
        // Nor as a list of its bytes.
        assert!(!shown.contains("104"), "{shown}");
    }
}
