//! Tombstones, kept in ConfigMaps of our own namespace.
//!
//! They are read once, after the lease was won; from then on memory is the truth, and every change carries the version of the
//! ConfigMap that it was decided on. One write is under way at a time, with all there is to say by then about one of them: who
//! deletes many devices at once gets a write for many of them.

use std::collections::{BTreeMap, BTreeSet};

use flashjob_plan::edge::tombstone::{self, CONFIG_MAP, LABEL, MOST_IN_ONE, Tombstone};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::crds::EDGE_DEVICES;
use super::slim;
use crate::engine::backoff::Backoff;
use crate::engine::pool::Caller;
use crate::engine::write::ObjectId;
use crate::engine::{read, write};
use crate::process::client::error_message;

const PAGE: u32 = 10;

/// Namespace and name of an EdgeDevice.
pub type Place = (String, String);
/// What is to be written: a tombstone, or that there is none any more.
pub type Changes = BTreeMap<Place, Option<Tombstone>>;

#[derive(Default)]
pub struct Tombstones {
    shards: BTreeMap<u32, Shard>,
    waiting: Changes,
    /// A write is under way.
    flushing: bool,
    backoff: Backoff,
}

/// One of the ConfigMaps.
#[derive(Clone, Debug)]
pub struct Shard {
    uid: String,
    version: String,
    places: BTreeSet<Place>,
}

/// What was read at the start.
pub struct Loaded {
    shards: BTreeMap<u32, Shard>,
    pub tombstones: Vec<Tombstone>,
}

/// What a write came to.
pub struct Flushed {
    number: u32,
    changes: Changes,
    result: Result<End, String>,
    /// The ConfigMap as it is now.
    shard: Option<Shard>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Written,
    /// It is the CRD that goes, and its EdgeDevices with it: nobody has said that a device shall.
    CrdEnds,
}

impl Tombstones {
    pub fn load(&mut self, loaded: &Loaded) {
        self.shards.clone_from(&loaded.shards);
    }

    pub fn put(&mut self, tombstone: Tombstone) {
        let place = (tombstone.namespace.clone(), tombstone.name.clone());
        self.waiting.insert(place, Some(tombstone));
    }

    pub fn remove(&mut self, namespace: &str, name: &str) {
        self.waiting.insert((namespace.to_owned(), name.to_owned()), None);
    }

    /// When the next try is, after one that failed.
    pub fn pause(&self) -> Option<tokio::time::Instant> {
        self.backoff.until()
    }

    /// The next write, if there is any and it may be sent now.
    pub fn next(&mut self) -> Option<Flush> {
        if self.flushing || self.backoff.until().is_some() {
            return None;
        }
        let (first, _) = self.waiting.first_key_value()?;
        let number = self.shard_for(&first.clone(), 0);
        let mut held = self.shards.get(&number).map_or(0, |shard| shard.places.len());
        let mut changes = Changes::new();
        for place in self.waiting.keys().cloned().collect::<Vec<_>>() {
            let known = self.shards.iter().find(|(_, shard)| shard.places.contains(&place));
            let fits = match known {
                Some((known, _)) => *known == number,
                None => held < MOST_IN_ONE,
            };
            if fits && let Some(change) = self.waiting.remove(&place) {
                held += usize::from(known.is_none());
                changes.insert(place, change);
            }
        }
        self.flushing = true;
        Some(Flush { number, changes, shard: self.shards.get(&number).cloned() })
    }

    /// Where the tombstone of a place is, or where there is room for it.
    fn shard_for(&self, place: &Place, more: usize) -> u32 {
        let known = self.shards.iter().find(|(_, shard)| shard.places.contains(place));
        if let Some((number, _)) = known {
            return *number;
        }
        let room = |number: &u32| {
            self.shards.get(number).is_none_or(|shard| shard.places.len() + more < MOST_IN_ONE)
        };
        (0..).find(room).unwrap_or_default()
    }

    /// Takes in what a write came to, and says what is done by it. What was not written waits on.
    pub fn flushed(&mut self, flushed: Flushed) -> Option<(End, Changes)> {
        let Flushed { number, changes, result, shard } = flushed;
        self.flushing = false;
        match shard {
            Some(shard) => self.shards.insert(number, shard),
            None => self.shards.remove(&number),
        };
        match result {
            Ok(End::Written) => {
                self.backoff.succeeded();
                Some((End::Written, changes))
            }
            Ok(End::CrdEnds) => {
                let (buried, others) =
                    changes.into_iter().partition(|(_, t)| is_burial(t.as_ref()));
                self.wait_on(others);
                Some((End::CrdEnds, buried))
            }
            Err(error) => {
                tracing::warn!(error, "tombstones could not be written and are tried again");
                self.backoff.failed();
                self.wait_on(changes);
                None
            }
        }
    }

    fn wait_on(&mut self, changes: Changes) {
        for (place, change) in changes {
            self.waiting.entry(place).or_insert(change);
        }
    }
}

/// Whether it is a new one.
fn is_burial(tombstone: Option<&Tombstone>) -> bool {
    tombstone.is_some_and(|tombstone| tombstone.fetched.is_none())
}

/// One write of one ConfigMap.
pub struct Flush {
    number: u32,
    changes: Changes,
    shard: Option<Shard>,
}

impl Flush {
    pub async fn send(self, caller: &Caller, home: &str) -> Flushed {
        let Flush { number, changes, shard } = self;
        if changes.values().any(|change| is_burial(change.as_ref())) {
            match crd_ends(caller).await {
                Ok(false) => {}
                Ok(true) => return Flushed { number, changes, result: Ok(End::CrdEnds), shard },
                Err(error) => return Flushed { number, changes, result: Err(error), shard },
            }
        }
        let text = |change: &Option<Tombstone>| match change {
            Some(tombstone) => Value::from(tombstone.write()),
            None => Value::Null,
        };
        let key = |(namespace, name): &Place| tombstone::key(namespace, name);
        let data: serde_json::Map<_, _> =
            changes.iter().map(|(place, change)| (key(place), text(change))).collect();
        let name = format!("{CONFIG_MAP}{number}");
        let written = match &shard {
            Some(shard) => {
                let id = ObjectId { namespace: home, name: &name, uid: &shard.uid };
                write::patch(caller, id, &shard.version, json!({ "data": data })).await
            }
            None => create(caller, home, &name, data).await,
        };
        match written {
            Ok(map) => {
                let shard = Some(read_shard(&map).0);
                Flushed { number, changes, result: Ok(End::Written), shard }
            }
            Err(error) => {
                let api: Api<slim::ConfigMap> = Api::namespaced(caller.client.clone(), home);
                let found = read::live(caller, &api, &name).await;
                let shard = found.map(|map| read_shard(&map).0);
                Flushed { number, changes, result: Err(error_message(&error)), shard }
            }
        }
    }
}

async fn create(
    caller: &Caller,
    home: &str,
    name: &str,
    data: serde_json::Map<String, Value>,
) -> kube::Result<slim::ConfigMap> {
    let data: serde_json::Map<_, _> =
        data.into_iter().filter(|(_, text)| !text.is_null()).collect();
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": home, "labels": { (LABEL): "true" } },
        "data": data,
    });
    let body = serde_json::to_vec(&object).map_err(kube::Error::SerdeError)?;
    let api: Api<slim::ConfigMap> = Api::namespaced(caller.client.clone(), home);
    let request = kube::core::Request::new(api.resource_url());
    let request =
        request.create(&PostParams::default(), body).map_err(kube::Error::BuildRequest)?;
    caller.call(caller.client.request(request)).await
}

/// Whether the CRD of EdgeDevices is being deleted, or is gone: then all EdgeDevices go, and no device is meant.
async fn crd_ends(caller: &Caller) -> Result<bool, String> {
    let api: Api<CustomResourceDefinition> = Api::all(caller.client.clone());
    let found = caller.call(api.get_metadata_opt(EDGE_DEVICES.crd)).await;
    let found = found.map_err(|error| {
        format!("the CRD {} cannot be read: {}", EDGE_DEVICES.crd, error_message(&error))
    })?;
    Ok(found.is_none_or(|crd| crd.metadata.deletion_timestamp.is_some()))
}

/// Reads all of them.
pub async fn load(caller: &Caller, home: &str) -> kube::Result<Loaded> {
    let api: Api<slim::ConfigMap> = Api::namespaced(caller.client.clone(), home);
    let maps = read::list(caller, &api, &format!("{LABEL}=true"), PAGE, Some).await?;
    let mut loaded = Loaded { shards: BTreeMap::new(), tombstones: Vec::new() };
    for map in maps {
        let name = map.name_any();
        let number = name.strip_prefix(CONFIG_MAP).and_then(|number| number.parse::<u32>().ok());
        // Any other has its label from somebody else.
        let Some(number) = number.filter(|number| name == format!("{CONFIG_MAP}{number}")) else {
            continue;
        };
        let (shard, tombstones) = read_shard(&map);
        loaded.shards.insert(number, shard);
        loaded.tombstones.extend(tombstones);
    }
    Ok(loaded)
}

fn read_shard(map: &slim::ConfigMap) -> (Shard, Vec<Tombstone>) {
    let (mut places, mut tombstones) = (BTreeSet::new(), Vec::new());
    for (key, text) in map.data.iter().flatten() {
        let read = Tombstone::read(text);
        match read.filter(|read| tombstone::key(&read.namespace, &read.name) == *key) {
            Some(read) => {
                places.insert((read.namespace.clone(), read.name.clone()));
                tombstones.push(read);
            }
            None => {
                let map = map.name_any();
                tracing::warn!(
                    "the tombstone {key:.40} in ConfigMap {map} cannot be read; nobody is disconnected by it"
                );
            }
        }
    }
    let version = map.metadata.resource_version.clone().unwrap_or_default();
    (Shard { uid: map.uid().unwrap_or_default(), version, places }, tombstones)
}
