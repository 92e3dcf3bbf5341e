//! What the ledger keeps of one device.

use flashjob_api::flashjob::Reason;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::message;
use crate::flashjob::boards::Lock;
use crate::flashjob::endpoint::Endpoint;
use crate::flashjob::ids::{JobUid, Target};
use crate::flashjob::names;

/// What is kept about one device.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// As the user wrote it.
    pub device: String,
    /// The Instance it was resolved to, once it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Pinned>,
    /// The revision that all below speaks of.
    pub revision: String,
    /// The number of the last attempt. Never goes back, over all revisions.
    #[serde(default)]
    pub attempt: u32,
    /// That attempt is under way.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    /// Its permit key is in the ledger.
    #[serde(skip)]
    pub permit: bool,
    /// How long that attempt may take. Written with its permit: an edit changes nothing about what has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_seconds: Option<i64>,
    /// How many attempts of this revision have failed.
    #[serde(default)]
    pub tries: u32,
    /// What the device ran before the first attempt of this revision. Later Akri may have seen what an attempt did that was
    /// not heard of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// Since when it is the device's turn.
    pub turn: Timestamp,
    /// Not again before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// The final result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Why, for a failure or a skip; the last failure while it is retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The image that was flashed, where the flasher says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// When the result was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Timestamp>,
    /// It is the same device as another entry, and left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub twin: bool,
    /// It was chosen by the selector.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub selected: bool,
    /// The last `retry.nonce` it was tried for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    /// The user has taken the device out of the job. A result it has stays on record.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
    /// Device and revision in one word; worked out, not stored.
    #[serde(skip)]
    pub target: Target,
}

/// The Instance a device was resolved to.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Pinned {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The board's address.
    pub endpoint: Endpoint,
}

/// A device's final result.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It runs the firmware.
    Succeeded,
    /// It was given up.
    Failed,
    /// It was left out on purpose.
    Skipped,
}

impl Pinned {
    /// Whether that is the same device: the same Instance, or the same board however its address is written.
    pub fn is_same_device(&self, other: &Pinned) -> bool {
        (self.namespace == other.namespace && self.name == other.name)
            || self.endpoint.is_same_board(&other.endpoint)
    }
}

impl Record {
    /// A device that has just come into the job.
    pub fn new(job_uid: &JobUid, device: &str, revision: &str, now: Timestamp) -> Record {
        Record {
            device: device.to_owned(),
            pinned: None,
            revision: revision.to_owned(),
            attempt: 0,
            open: false,
            permit: false,
            deadline_seconds: None,
            tries: 0,
            previous: None,
            turn: now,
            retry_at: None,
            outcome: None,
            reason: None,
            message: None,
            digest: None,
            ended: None,
            twin: false,
            selected: false,
            nonce: None,
            dropped: false,
            target: names::target(job_uid, device, revision),
        }
    }

    /// The lock on its board, once that was found.
    pub fn lock(&self) -> Option<Lock<'static>> {
        self.pinned.as_ref().map(|pinned| Lock::board(&pinned.endpoint).into_owned())
    }

    /// Whether the device has this firmware, as far as its own word goes. One that a newer job has flashed since has not.
    pub fn is_done(&self) -> bool {
        match self.outcome {
            Some(Outcome::Succeeded) => true,
            Some(Outcome::Skipped) => !self.is_superseded(),
            Some(Outcome::Failed) | None => false,
        }
    }

    /// Whether it was left out because a newer job has flashed the board since.
    pub fn is_superseded(&self) -> bool {
        let reason = self.reason.as_deref();
        self.outcome == Some(Outcome::Skipped) && reason == Some(Reason::Superseded.as_str())
    }

    /// The same entry as the same device as `other`: it is flashed once.
    pub fn as_twin_of(&self, other: &str, now: Timestamp) -> Record {
        Record {
            twin: true,
            outcome: Some(Outcome::Skipped),
            message: Some(message(&format!("the same device as {other}"))),
            ended: Some(now),
            ..self.clone()
        }
    }

    /// The same device with another firmware: nothing done yet, but attempt numbers go on, so that going back to an
    /// earlier firmware meets no old permit.
    pub fn renewed(&self, job_uid: &JobUid, revision: &str, now: Timestamp) -> Record {
        if self.twin {
            let target = names::target(job_uid, &self.device, revision);
            return Record { revision: revision.to_owned(), target, ..self.clone() };
        }
        Record {
            pinned: self.pinned.clone(),
            attempt: self.attempt,
            selected: self.selected,
            previous: self.previous.clone().filter(|_| self.revision == revision),
            ..Record::new(job_uid, &self.device, revision, now)
        }
    }
}
