//! A job's ledger in memory: the truth, moved on by acknowledged writes and by nothing else.
//!
//! It is read once after the lease was won, and again when a write did not go as it should; it is never watched. Writes
//! are grouped: one under way per ConfigMap, the next 250 ms after its answer at the earliest, each with everything that
//! is to be said by then, each carrying the resourceVersion of the state it was decided on.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use flashjob_plan::children::{self, Owner, Place};
use flashjob_plan::facts::{Job, LedgerState};
use flashjob_plan::ledger::{Change, Ledger};
use flashjob_plan::names;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

use super::pool::Turn;
use super::read;
use super::slim;
use super::write::{self, Created};

/// How long a ConfigMap is left alone after a write.
pub const GROUP: Duration = Duration::from_millis(250);

/// One ConfigMap as read or acknowledged.
#[derive(Clone, Debug, PartialEq)]
pub struct Shard {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The resourceVersion the next write builds on.
    pub version: String,
    /// Its data, when it was just read.
    pub data: BTreeMap<String, String>,
}

/// The ledger of one job.
pub struct Memory {
    content: Content,
    /// Its ConfigMaps, in order.
    pub shards: Vec<Shard>,
    /// It is being read or made.
    pub reading: bool,
    /// The writes under way, by shard.
    pub flushing: BTreeMap<usize, Change>,
    /// When the last write of each shard was answered.
    pub flushed: HashMap<usize, Instant>,
    leftovers: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Content {
    Absent,
    Partial,
    Broken(String),
    Sealed(Box<Ledger>),
}

impl Memory {
    /// What was read: nothing, a part, or all of it.
    pub fn read(job_uid: &str, mut shards: Vec<Shard>) -> Memory {
        shards.sort_by_key(|s| (s.name.len(), s.name.clone()));
        let leftovers = shards.iter().map(|s| (s.name.clone(), s.uid.clone())).collect();
        let content = match shards.first() {
            None => Content::Absent,
            Some(first) if !first.data.contains_key("header") => Content::Partial,
            Some(_) => match Ledger::read(job_uid, shards.iter().map(|s| &s.data)) {
                Ok(ledger) => Content::Sealed(Box::new(ledger)),
                Err(error) => Content::Broken(error),
            },
        };
        // The records are in `content` now.
        for shard in &mut shards {
            shard.data.clear();
        }
        Memory {
            content,
            shards,
            reading: false,
            flushing: BTreeMap::new(),
            flushed: HashMap::new(),
            leftovers,
        }
    }

    /// What `decide` may know of it.
    pub fn state(&self) -> LedgerState<'_> {
        match &self.content {
            _ if self.reading => LedgerState::Unknown,
            Content::Absent => LedgerState::Absent,
            Content::Partial => LedgerState::Partial(&self.leftovers),
            Content::Broken(error) => LedgerState::Broken(error),
            Content::Sealed(ledger) => LedgerState::Sealed(ledger),
        }
    }

    /// The ledger, where there is one.
    pub fn sealed(&self) -> Option<&Ledger> {
        match &self.content {
            Content::Sealed(ledger) => Some(ledger),
            _ => None,
        }
    }

    /// The boards whose attempts are open.
    pub fn open_endpoints(&self) -> Vec<String> {
        let records = self.sealed().map(|l| l.records.as_slice()).unwrap_or_default();
        let pinned = records.iter().filter(|r| r.open).filter_map(|r| r.pinned.as_ref());
        pinned.map(|p| p.endpoint.clone()).collect()
    }

    /// A write was acknowledged: what it changed.
    pub fn acknowledge(&mut self, index: usize, acknowledged: Shard) -> Option<Change> {
        let change = self.flushing.remove(&index)?;
        self.flushed.insert(index, Instant::now());
        let Content::Sealed(ledger) = &mut self.content else { return None };
        ledger.apply(index, &change);
        match self.shards.get_mut(index) {
            Some(shard) => *shard = acknowledged,
            None => self.shards.push(acknowledged),
        }
        Some(change)
    }

    /// Whether a fresh read says what we knew and what we were writing: then only the answers were lost, and nobody else
    /// has written.
    pub fn writes_arrived(&self, fresh: &Memory) -> bool {
        let (Some(known), Some(fresh)) = (self.sealed(), fresh.sealed()) else { return false };
        let mut moved = known.clone();
        for (shard, change) in &self.flushing {
            moved.apply(*shard, change);
        }
        !self.flushing.is_empty() && &moved == fresh
    }
}

/// Reads the ledgers of every job, or of one.
pub async fn read_all(
    turn: &Turn,
    namespace: Option<&str>,
    job_uid: Option<&str>,
) -> kube::Result<HashMap<Owner, Vec<Shard>>> {
    let api: Api<slim::ConfigMap> = match namespace {
        Some(namespace) => Api::namespaced(turn.client.clone(), namespace),
        None => Api::all(turn.client.clone()),
    };
    let selector = match job_uid {
        Some(uid) => format!("{},{}={uid}", names::SHARD, names::JOB_UID),
        None => names::SHARD.to_owned(),
    };
    let ours = |object: slim::ConfigMap| match children::claim(&object.metadata).ok()? {
        (owner, Place::Shard(_)) if object.metadata.deletion_timestamp.is_none() => {
            Some((owner, shard(&object.metadata, object.data)))
        }
        _ => None,
    };
    let mut ledgers: HashMap<Owner, Vec<Shard>> = HashMap::new();
    // A shard may be 200 KB: small pages keep the memory flat.
    for (job, shard) in read::list(turn, &api, &selector, 50, ours).await? {
        ledgers.entry(job).or_default().push(shard);
    }
    Ok(ledgers)
}

/// Makes the ConfigMaps of a new ledger, the one with the header last: it is sealed when that one is there.
pub async fn create(
    turn: &Turn,
    job: &Job,
    owner: &OwnerReference,
    ledger: &Ledger,
) -> Result<Vec<Shard>, String> {
    let mut shards = Vec::new();
    for index in (0..ledger.shards()).rev() {
        shards.push(add(turn, job, owner, index, ledger.shard_data(index)).await?);
    }
    shards.reverse();
    Ok(shards)
}

/// Makes one more ConfigMap.
pub async fn add(
    turn: &Turn,
    job: &Job,
    owner: &OwnerReference,
    index: usize,
    data: BTreeMap<String, String>,
) -> Result<Shard, String> {
    let object = ConfigMap {
        metadata: ObjectMeta {
            name: Some(names::ledger(&job.name, &job.uid, index)),
            namespace: Some(job.namespace.clone()),
            labels: Some(BTreeMap::from([
                (names::JOB_UID.to_owned(), job.uid.clone()),
                (names::SHARD.to_owned(), index.to_string()),
            ])),
            owner_references: Some(vec![owner.clone()]),
            ..ObjectMeta::default()
        },
        data: Some(data.clone()),
        ..ConfigMap::default()
    };
    match write::create(turn, object).await {
        Created::There(slim::ConfigMap { metadata, data: Some(found) }) if found == data => {
            Ok(shard(&metadata, None))
        }
        Created::There(_) => Err("the ledger is there already with other content".into()),
        Created::Not { message, .. } => Err(message),
    }
}

/// Changes one ConfigMap, if nobody else has.
pub async fn patch(
    turn: &Turn,
    namespace: &str,
    shard_before: &Shard,
    keys: &BTreeMap<String, Option<String>>,
) -> kube::Result<Shard> {
    let api: Api<slim::WrittenConfigMap> = Api::namespaced(turn.client.clone(), namespace);
    let patch = json!({
        "metadata": { "resourceVersion": shard_before.version, "uid": shard_before.uid },
        "data": keys,
    });
    let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
    let patched = turn.call(api.patch(&shard_before.name, &params, &patch)).await?;
    Ok(shard(&patched.metadata, None))
}

fn shard(metadata: &ObjectMeta, data: Option<BTreeMap<String, String>>) -> Shard {
    Shard {
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        version: metadata.resource_version.clone().unwrap_or_default(),
        data: data.unwrap_or_default(),
    }
}
