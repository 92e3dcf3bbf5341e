//! A record as it is stored: one flat object, whose form must not change while there are ledgers.
//!
//! Much can be written in it that no operator writes, such as a result beside an attempt that is under way. Such a record is
//! read as what it says first: an open attempt, then a result. What does not belong to that is left out.

use std::borrow::Cow;
use std::num::NonZeroU32;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::record::{DeviceProgress, Failed, Outcome, Pinned, Record, RecordedEnd};
use crate::flashjob::ids::Target;

/// What is stored of one device; [`Record`] says what is what.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", expecting = "struct Record")]
pub(super) struct Stored<'a> {
    pub device: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Cow<'a, Pinned>>,
    pub revision: Cow<'a, str>,
    #[serde(default)]
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    open: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_seconds: Option<i64>,
    #[serde(default)]
    pub tries: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Cow<'a, str>>,
    pub turn: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    #[serde(rename = "twin", default, skip_serializing_if = "std::ops::Not::not")]
    duplicate: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    selected: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    dropped: bool,
}

impl<'a> From<&'a Record> for Stored<'a> {
    fn from(record: &'a Record) -> Stored<'a> {
        let retry_at = match &record.progress {
            DeviceProgress::Duplicate { retry_at, .. } => *retry_at,
            _ => record.failed().and_then(|failed| failed.retry_at),
        };
        let ended = record.ended();
        Stored {
            device: (&record.device).into(),
            pinned: record.pinned.as_ref().map(Cow::Borrowed),
            revision: (&record.revision).into(),
            attempt: record.attempt,
            open: record.is_open(),
            deadline_seconds: record.deadline_seconds,
            tries: record.tries(),
            previous: record.previous.as_ref().map(Cow::from),
            turn: record.turn,
            retry_at,
            outcome: record.outcome(),
            reason: record.reason().map(Cow::from),
            message: record.message().map(Cow::from),
            digest: ended.and_then(|ended| ended.digest.as_deref()).map(Cow::from),
            ended: ended.and_then(|ended| ended.at),
            duplicate: record.is_duplicate(),
            selected: record.selected,
            nonce: record.nonce.as_ref().map(Cow::from),
            dropped: record.dropped,
        }
    }
}

impl Stored<'_> {
    /// The device as it is known in memory. `permit`: the permit key of its attempt is there.
    pub fn into_record(self, target: Target, permit: bool) -> Record {
        let (tries, retry_at, outcome) = (self.tries, self.retry_at, self.outcome);
        let ended = RecordedEnd {
            at: self.ended,
            reason: self.reason.map(Cow::into_owned),
            message: self.message.map(Cow::into_owned),
            digest: self.digest.map(Cow::into_owned),
        };
        let failed = |ended| Some(Failed { tries: NonZeroU32::new(tries)?, ended, retry_at });
        let progress = match outcome {
            _ if self.open => DeviceProgress::Open { permit, failed: failed(ended) },
            None => DeviceProgress::Waiting(failed(ended)),
            Some(_) if self.duplicate => DeviceProgress::Duplicate { tries, retry_at, ended },
            Some(outcome) => DeviceProgress::Final { outcome, tries, ended },
        };
        Record {
            device: self.device.into_owned(),
            pinned: self.pinned.map(Cow::into_owned),
            revision: self.revision.into_owned(),
            target,
            attempt: self.attempt,
            deadline_seconds: self.deadline_seconds,
            previous: self.previous.map(Cow::into_owned),
            turn: self.turn,
            progress,
            selected: self.selected,
            nonce: self.nonce.map(Cow::into_owned),
            dropped: self.dropped,
        }
    }
}
