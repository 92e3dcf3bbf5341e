//! The ledger: what cannot be read off the cluster again.
//!
//! It lives in ConfigMaps that the job owns, at most [`SHARD_SIZE`] devices in each, one key per device and one per open
//! permit. A permit is what the flash container's start depends on: no key, no start. A permit key is written at most
//! once in the life of a job, so a Pod that comes late finds none.
//!
//! The in-memory copy moves on only with acknowledged writes. This module turns it into ConfigMap data and back, and
//! says which keys differ between two states; it never talks to the API server.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::flashjob::ids::JobUid;
use crate::flashjob::names;

mod reader;
mod record;
mod stored;
pub use reader::{MOST_DEVICES, Reader};
pub use record::{DeviceProgress, Failed, Outcome, Pinned, Record, RecordedEnd};
use stored::Stored;

/// Devices per ConfigMap: well under the 1 MiB an object may have, with messages of 256 bytes.
pub const SHARD_SIZE: usize = 256;
/// How many earlier revisions are remembered.
pub const REMEMBERED: usize = 5;
/// The longest message that is kept.
pub const MESSAGE_BYTES: usize = 256;

const HEADER: &str = "header";
const SCHEMA: u32 = 1;

/// The whole ledger of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger {
    /// About the job.
    pub header: Header,
    /// About each device, in the order of the job.
    pub records: Vec<Record>,
}

/// What is kept about the job.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The form of what follows.
    pub schema: u32,
    /// The job this ledger belongs to.
    pub job_uid: JobUid,
    /// The revision under way.
    pub revision: String,
    /// Its firmware.
    #[serde(default)]
    pub firmware: String,
    /// Its version.
    #[serde(default)]
    pub version: String,
    /// The revisions before it, the newest last; at most [`REMEMBERED`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Past>,
    /// The generation of the spec whose devices are in the records.
    pub generation: i64,
    /// How many devices, so that a missing shard is noticed.
    pub devices: usize,
    /// When the job was taken up.
    pub started: Timestamp,
    /// When the revision began.
    pub revised: Timestamp,
    /// When the last device of this revision got its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<Timestamp>,
    /// How many devices there were when this revision began: what percentages are of.
    #[serde(default)]
    pub total: usize,
    /// Which batch is under way, from 1.
    #[serde(default)]
    pub batch: usize,
    /// The records before this place have had their turn.
    #[serde(default)]
    pub released: usize,
    /// When the batch under way began.
    pub released_at: Timestamp,
    /// When the last device of the batch under way got its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_ended: Option<Timestamp>,
    /// Since when the job is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Timestamp>,
    /// Everything before the header was written.
    pub sealed: bool,
}

/// What became of an earlier revision.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Past {
    pub firmware: String,
    pub version: String,
    /// When it began.
    pub began: Timestamp,
    /// When its last device got its result; absent if another revision came before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<Timestamp>,
    /// How many devices it was for.
    pub total: usize,
    /// How many of them were flashed or skipped.
    pub done: usize,
    /// How many were given up, or flashed by a newer job since.
    pub failed: usize,
}

impl Ledger {
    /// A ledger for a job that has none, sealed from the start.
    pub fn new(
        job_uid: &JobUid,
        generation: i64,
        (firmware, version): (&str, &str),
        records: Vec<Record>,
        now: Timestamp,
    ) -> Ledger {
        Ledger {
            header: Header {
                schema: SCHEMA,
                job_uid: job_uid.clone(),
                revision: names::revision(firmware, version),
                firmware: firmware.to_owned(),
                version: version.to_owned(),
                history: Vec::new(),
                generation,
                devices: records.len(),
                started: now,
                revised: now,
                completed: None,
                total: records.len(),
                batch: 0,
                released: 0,
                released_at: now,
                batch_ended: None,
                suspended: None,
                sealed: true,
            },
            records,
        }
    }

    /// How many ConfigMaps it takes.
    pub fn shards(&self) -> usize {
        self.records.len().div_ceil(SHARD_SIZE).max(1)
    }

    /// The data of one ConfigMap.
    pub fn shard_data(&self, shard: usize) -> BTreeMap<String, String> {
        let mut data = BTreeMap::new();
        if shard == 0 {
            data.insert(HEADER.to_owned(), json(&self.header));
        }
        let first = shard * SHARD_SIZE;
        for (index, record) in self.records.iter().enumerate().skip(first).take(SHARD_SIZE) {
            data.insert(record_key(index), json(&Stored::from(record)));
            if record.has_permit() {
                data.insert(names::permit(record.target, record.attempt), record.device.clone());
            }
        }
        data
    }

    /// Puts the data of all shards of a job's ledger together again, in the order of the shards.
    pub fn read<'a>(
        job_uid: &JobUid,
        shards: impl IntoIterator<Item = &'a BTreeMap<String, String>>,
    ) -> Result<Ledger, String> {
        let mut reader = Reader::new(job_uid);
        for data in shards {
            reader.add(data)?;
        }
        reader.finish()
    }

    /// The revision under way as it will be remembered, and those before it.
    pub fn remembered(&self) -> Vec<Past> {
        let header = &self.header;
        let results = self.records.iter().filter(|r| r.revision == header.revision);
        let (mut done, mut failed) = (0, 0);
        for record in results.filter(|r| r.outcome().is_some()) {
            if record.is_done() { done += 1 } else { failed += 1 }
        }
        let mut history = header.history.clone();
        history.push(Past {
            firmware: header.firmware.clone(),
            version: header.version.clone(),
            began: header.revised,
            completed: header.completed,
            total: header.total,
            done,
            failed,
        });
        history.drain(..history.len().saturating_sub(REMEMBERED));
        history
    }

    /// Whether any attempt is under way.
    pub fn has_open_attempts(&self) -> bool {
        self.records.iter().any(Record::is_open)
    }

    /// The keys a change puts into one ConfigMap, and with `None` those it takes out.
    pub fn patch(&self, shard: usize, change: &Change) -> BTreeMap<String, Option<String>> {
        let mut patch = BTreeMap::new();
        if let Some(header) = change.header.as_ref().filter(|_| shard == 0) {
            patch.insert(HEADER.to_owned(), Some(json(header)));
        }
        for (index, record) in change.of_shard(shard) {
            if let Some(old) = self.records.get(index).filter(|old| old.has_permit()) {
                patch.insert(names::permit(old.target, old.attempt), None);
            }
            if record.has_permit() {
                let key = names::permit(record.target, record.attempt);
                patch.insert(key, Some(record.device.clone()));
            }
            patch.insert(record_key(index), Some(json(&Stored::from(record))));
        }
        patch
    }

    /// Moves on: the part of a change that belongs to one shard has been acknowledged.
    pub fn apply(&mut self, shard: usize, change: &Change) {
        if let Some(header) = change.header.as_ref().filter(|_| shard == 0) {
            self.header = header.clone();
        }
        for (index, record) in change.of_shard(shard) {
            match self.records.get_mut(index) {
                Some(old) => *old = record.clone(),
                // Devices are only ever added one shard at a time, in order.
                None => self.records.push(record.clone()),
            }
        }
    }
}

/// What should be different in a ledger.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// The new header.
    pub header: Option<Header>,
    /// New and changed records by their place.
    pub records: BTreeMap<usize, Record>,
}

impl Change {
    /// Nothing should be different.
    pub fn is_empty(&self) -> bool {
        self.header.is_none() && self.records.is_empty()
    }

    /// The shards it touches, in order.
    pub fn shards(&self) -> BTreeSet<usize> {
        let header = self.header.iter().map(|_| 0);
        header.chain(self.records.keys().map(|index| shard_of(*index))).collect()
    }

    /// The part of it that belongs to one shard.
    pub fn part(&self, shard: usize) -> Change {
        let header = self.header.clone().filter(|_| shard == 0);
        let records = self.of_shard(shard).map(|(index, record)| (index, record.clone()));
        Change { header, records: records.collect() }
    }

    fn of_shard(&self, shard: usize) -> impl Iterator<Item = (usize, &Record)> {
        let first = shard * SHARD_SIZE;
        self.records.range(first..first + SHARD_SIZE).map(|(index, record)| (*index, record))
    }
}

/// The shard a device's record is in.
pub fn shard_of(index: usize) -> usize {
    index / SHARD_SIZE
}

/// A message as it is kept: one line, no control characters, at most [`MESSAGE_BYTES`].
pub fn message(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    cut(clean.trim().to_owned(), MESSAGE_BYTES)
}

/// At most so many bytes of a text, with a sign that there was more.
pub(crate) fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        let room = most - '…'.len_utf8();
        let end = (0..=room).rev().find(|i| text.is_char_boundary(*i));
        text.truncate(end.unwrap_or_default());
        text.push('…');
    }
    text
}

fn record_key(index: usize) -> String {
    format!("device-{index:05}")
}

fn json<T: Serialize>(value: &T) -> String {
    // Plain structs of strings and numbers: serialising them cannot fail.
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
