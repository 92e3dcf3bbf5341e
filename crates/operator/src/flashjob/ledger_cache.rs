//! A job's ledger in memory: the truth, moved on by acknowledged writes and by nothing else.
//!
//! It is read when its job is loaded, after the lease was won, and again when a write did not go as it should; it is never
//! watched. Writes
//! are grouped: one under way per ConfigMap, the next 250 ms after its answer at the earliest, each with everything that
//! is to be said by then, each carrying the resourceVersion of the state it was decided on.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use flashjob_plan::flashjob::children::{self, Owner, Place};
use flashjob_plan::flashjob::facts::{Job, LedgerState};
use flashjob_plan::flashjob::ids::JobUid;
use flashjob_plan::flashjob::ledger::{Change, Ledger, Reader, Record};
use flashjob_plan::flashjob::locks::Lock;
use flashjob_plan::flashjob::names;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Api;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::slim;
use crate::engine::pool::Caller;
use crate::engine::read;
use crate::engine::write::{self, Created, ObjectId};

/// How long a ConfigMap is left alone after a write.
pub const GROUP: Duration = Duration::from_millis(250);

/// So many ConfigMaps of one ledger are read at once.
const READ_AT_ONCE: usize = 8;

/// The right to have a ledger of more than one ConfigMap in memory that may be parked at once: there is one of it, so a
/// hundred of them do not meet there.
pub type LargeLedgerSlot = OwnedSemaphorePermit;

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
pub struct LedgerCache {
    content: Content,
    /// Its ConfigMaps, in order.
    pub shards: Vec<Shard>,
    /// It is being read or made.
    pub reading: bool,
    /// The writes under way, by shard.
    pub flushing: BTreeMap<usize, Change>,
    /// When the last write of each shard was answered.
    pub flushed: HashMap<usize, Instant>,
}

#[derive(Clone, Debug, PartialEq)]
enum Content {
    Absent,
    /// Names and uids of what is there.
    Partial(Vec<(String, String)>),
    Broken(String),
    Sealed(Box<Ledger>),
}

impl LedgerCache {
    /// What was read: nothing, a part, or all of it.
    pub fn read(job_uid: &JobUid, mut shards: Vec<Shard>) -> LedgerCache {
        shards.sort_by_key(|s| (s.name.len(), s.name.clone()));
        let content = match shards.first() {
            None => Content::Absent,
            Some(first) if !first.data.contains_key("header") => {
                Content::Partial(shards.iter().map(|s| (s.name.clone(), s.uid.clone())).collect())
            }
            Some(_) => match Ledger::read(job_uid, shards.iter().map(|s| &s.data)) {
                Ok(ledger) => Content::Sealed(Box::new(ledger)),
                Err(error) => Content::Broken(error),
            },
        };
        // The records are in `content` now.
        for shard in &mut shards {
            shard.data.clear();
        }
        LedgerCache::new(content, shards)
    }

    /// There is none.
    pub fn absent() -> LedgerCache {
        LedgerCache::new(Content::Absent, Vec::new())
    }

    fn new(content: Content, shards: Vec<Shard>) -> LedgerCache {
        let (flushing, flushed) = (BTreeMap::new(), HashMap::new());
        LedgerCache { content, shards, reading: false, flushing, flushed }
    }

    /// What `decide` may know of it.
    pub fn state(&self) -> LedgerState<'_> {
        match &self.content {
            _ if self.reading => LedgerState::Unknown,
            Content::Absent => LedgerState::Absent,
            Content::Partial(shards) => LedgerState::Partial(shards),
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
    pub fn open_endpoints(&self) -> Vec<Lock<'static>> {
        let records = self.sealed().map(|l| l.records.as_slice()).unwrap_or_default();
        records.iter().filter(|r| r.is_open()).filter_map(Record::lock).collect()
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
    pub fn writes_arrived(&self, fresh: &LedgerCache) -> bool {
        let (Some(known), Some(fresh)) = (self.sealed(), fresh.sealed()) else { return false };
        let mut moved = known.clone();
        for (shard, change) in &self.flushing {
            moved.apply(*shard, change);
        }
        !self.flushing.is_empty() && &moved == fresh
    }
}

/// Reads a job's ledger by the names of its ConfigMaps, so that it makes no difference what else has our labels. What a
/// creation that was cut short has left is not found this way, but [`list`] finds it.
pub async fn read(
    caller: &Caller,
    job: &Owner,
    large: Arc<Semaphore>,
) -> kube::Result<(LedgerCache, Option<LargeLedgerSlot>)> {
    let api: Api<slim::ConfigMap> = Api::namespaced(caller.client.clone(), &job.namespace);
    let get = async |index: usize| {
        let name = names::ledger(&job.name, &job.uid, index);
        let found = caller.call(api.get_opt(&name)).await?;
        Ok::<_, kube::Error>(found.filter(|object| proven(object, job, index)))
    };
    let Some(first) = get(0).await? else { return Ok((LedgerCache::absent(), None)) };
    if !first.data.iter().any(|data| data.contains_key("header")) {
        return Ok((LedgerCache::read(&job.uid, vec![shard(&first.metadata, first.data)]), None));
    }
    let (mut reader, mut shards) = (Reader::new(&job.uid), Vec::new());
    let mut broken = take(&mut reader, &mut shards, first).err();
    let mut large_slot = None;
    // Those that the header speaks of; then, while the last one is full, one more.
    while broken.is_none() && reader.expects() > shards.len() {
        if large_slot.is_none() {
            // The semaphore is never closed.
            large_slot = large.clone().acquire_owned().await.ok();
        }
        let mut more =
            stream::iter(shards.len()..reader.expects()).map(&get).buffered(READ_AT_ONCE);
        let before = shards.len();
        while let (None, Some(found)) = (&broken, more.next().await) {
            let Some(found) = found? else { break };
            broken = take(&mut reader, &mut shards, found).err();
        }
        if shards.len() == before {
            break;
        }
    }
    let content = match broken.map_or_else(|| reader.finish(), Err) {
        Ok(ledger) => Content::Sealed(Box::new(ledger)),
        Err(error) => Content::Broken(error),
    };
    Ok((LedgerCache::new(content, shards), large_slot))
}

fn take(
    reader: &mut Reader,
    shards: &mut Vec<Shard>,
    object: slim::ConfigMap,
) -> Result<(), String> {
    shards.push(shard(&object.metadata, None));
    reader.add(&object.data.unwrap_or_default())
}

/// Whether an object is this ConfigMap of this job's ledger, and stays.
fn proven(object: &slim::ConfigMap, job: &Owner, index: usize) -> bool {
    let claim = children::claim(&object.metadata);
    object.metadata.deletion_timestamp.is_none()
        && claim.is_ok_and(|(owner, place)| owner == *job && place == Place::Shard(index))
}

/// Lists whatever there is of a job's ledger: a creation of it met something.
pub async fn list(caller: &Caller, job: &Owner) -> kube::Result<LedgerCache> {
    let api: Api<slim::ConfigMap> = Api::namespaced(caller.client.clone(), &job.namespace);
    let selector = format!("{},{}={}", names::SHARD, names::JOB_UID, job.uid);
    let ours = |object: slim::ConfigMap| match children::claim(&object.metadata).ok()? {
        (owner, Place::Shard(index)) if owner == *job && proven(&object, job, index) => {
            Some(shard(&object.metadata, object.data))
        }
        _ => None,
    };
    // A shard may be 200 KB: small pages keep the memory flat.
    Ok(LedgerCache::read(&job.uid, read::list(caller, &api, &selector, 50, ours).await?))
}

/// Makes the ConfigMaps of a new ledger, the one with the header last: it is sealed when that one is there.
pub async fn create(
    caller: &Caller,
    job: &Job,
    owner: &OwnerReference,
    ledger: &Ledger,
) -> Result<Vec<Shard>, String> {
    let mut shards = Vec::new();
    for index in (0..ledger.shards()).rev() {
        shards.push(add(caller, job, owner, index, ledger.shard_data(index)).await?);
    }
    shards.reverse();
    Ok(shards)
}

/// Makes one more ConfigMap.
pub async fn add(
    caller: &Caller,
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
                (names::JOB_UID.to_owned(), job.uid.to_string()),
                (names::SHARD.to_owned(), index.to_string()),
            ])),
            owner_references: Some(vec![owner.clone()]),
            ..ObjectMeta::default()
        },
        data: Some(data.clone()),
        ..ConfigMap::default()
    };
    match write::create(caller, object, children::is_same).await {
        Created::There(slim::ConfigMap { metadata, data: Some(found) }) if found == data => {
            Ok(shard(&metadata, None))
        }
        Created::There(_) => Err("the ledger is there already with other content".into()),
        Created::Not { message, .. } => Err(message),
    }
}

/// Changes one ConfigMap, if nobody else has.
pub async fn patch(
    caller: &Caller,
    namespace: &str,
    shard_before: &Shard,
    keys: &BTreeMap<String, Option<String>>,
) -> kube::Result<Shard> {
    let Shard { name, uid, version, .. } = shard_before;
    let id = ObjectId { namespace, name, uid };
    let change = json!({ "data": keys });
    let patched: slim::WrittenConfigMap = write::patch(caller, id, version, change).await?;
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
