//! What the ledger keeps of one device: what holds in every state, and how far it has come.
//!
//! A device waits, is being flashed, has its result, or is a second name for another. What belongs to one of these is not
//! there in the others, and the ways from one to the next are the functions here.

use std::num::NonZeroU32;

use flashjob_api::flashjob::Reason;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::message;
use crate::flashjob::endpoint::Endpoint;
use crate::flashjob::ids::{JobUid, Target};
use crate::flashjob::locks::Lock;
use crate::flashjob::names;

/// What is kept about one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// As the user wrote it.
    pub device: String,
    /// The Instance it was resolved to, once it was.
    pub pinned: Option<Pinned>,
    /// The revision that all below speaks of.
    pub revision: String,
    /// Device and revision in one word; worked out, not stored.
    pub target: Target,
    /// The number of the last attempt. Never goes back, over all revisions.
    pub attempt: u32,
    /// How long that attempt may take. Written with its permit: an edit changes nothing about what has begun.
    pub deadline_seconds: Option<i64>,
    /// What the device ran before the first attempt of this revision. Later Akri may have seen what an attempt did that was
    /// not heard of.
    pub previous: Option<String>,
    /// Since when it is the device's turn.
    pub turn: Timestamp,
    /// How far it has come.
    pub progress: DeviceProgress,
    /// It was chosen by the selector.
    pub selected: bool,
    /// The last `retry.nonce` it was tried for.
    pub nonce: Option<String>,
    /// The user has taken the device out of the job. A result it has stays on record.
    pub dropped: bool,
}

/// How far a device has come.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceProgress {
    /// Nothing is under way: it waits for its turn, or after a failure for its next attempt.
    Waiting(Option<Failed>),
    /// Its attempt is under way.
    Open {
        /// The attempt's permit key is in the ledger.
        permit: bool,
        /// How the attempt before it failed.
        failed: Option<Failed>,
    },
    /// It has its result.
    Final {
        /// The result.
        outcome: Outcome,
        /// How many attempts of this revision have failed.
        tries: u32,
        /// How it came to that.
        ended: RecordedEnd,
    },
    /// It is the same device as another entry, and left out.
    Duplicate {
        /// How many attempts had failed before that was known.
        tries: u32,
        /// When the next one was to be.
        retry_at: Option<Timestamp>,
        /// What is said of it.
        ended: RecordedEnd,
    },
}

/// An attempt that failed and is made again.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    /// How many attempts of this revision have failed.
    pub tries: NonZeroU32,
    /// How the last one did.
    pub ended: RecordedEnd,
    /// Not again before this.
    pub retry_at: Option<Timestamp>,
}

/// The end of an attempt, or of a device's whole way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedEnd {
    /// When it was seen.
    pub at: Option<Timestamp>,
    /// Why, for a failure or a skip.
    pub reason: Option<String>,
    /// In words.
    pub message: Option<String>,
    /// The image that was flashed, where the flasher says so.
    pub digest: Option<String>,
}

/// The Instance a device was resolved to.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Pinned {
    pub namespace: String,
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

/// What it says.
impl Record {
    /// The lock on its board, once that was found.
    pub fn lock(&self) -> Option<Lock<'static>> {
        self.pinned.as_ref().map(|pinned| Lock::board(&pinned.endpoint).into_owned())
    }

    /// Whether an attempt is under way.
    pub fn is_open(&self) -> bool {
        matches!(self.progress, DeviceProgress::Open { .. })
    }

    /// Whether the permit key of its attempt is in the ledger.
    pub fn has_permit(&self) -> bool {
        matches!(self.progress, DeviceProgress::Open { permit: true, .. })
    }

    /// Whether it is the same device as another entry.
    pub fn is_duplicate(&self) -> bool {
        matches!(self.progress, DeviceProgress::Duplicate { .. })
    }

    /// Its final result.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.progress {
            DeviceProgress::Waiting(_) | DeviceProgress::Open { .. } => None,
            DeviceProgress::Final { outcome, .. } => Some(outcome),
            DeviceProgress::Duplicate { .. } => Some(Outcome::Skipped),
        }
    }

    /// The last failure of a device that is tried again.
    pub fn failed(&self) -> Option<&Failed> {
        match &self.progress {
            DeviceProgress::Waiting(failed) | DeviceProgress::Open { failed, .. } => {
                failed.as_ref()
            }
            DeviceProgress::Final { .. } | DeviceProgress::Duplicate { .. } => None,
        }
    }

    /// How many attempts of this revision have failed.
    pub fn tries(&self) -> u32 {
        match &self.progress {
            DeviceProgress::Waiting(failed) | DeviceProgress::Open { failed, .. } => {
                failed.as_ref().map_or(0, |failed| failed.tries.get())
            }
            DeviceProgress::Final { tries, .. } | DeviceProgress::Duplicate { tries, .. } => *tries,
        }
    }

    /// How its last attempt or its whole way ended.
    pub fn ended(&self) -> Option<&RecordedEnd> {
        match &self.progress {
            DeviceProgress::Waiting(failed) | DeviceProgress::Open { failed, .. } => {
                failed.as_ref().map(|failed| &failed.ended)
            }
            DeviceProgress::Final { ended, .. } | DeviceProgress::Duplicate { ended, .. } => {
                Some(ended)
            }
        }
    }

    /// Why it failed or was skipped; the last failure while it is tried again.
    pub fn reason(&self) -> Option<&str> {
        self.ended()?.reason.as_deref()
    }

    /// The same in words.
    pub fn message(&self) -> Option<&str> {
        self.ended()?.message.as_deref()
    }

    /// Whether the device has this firmware, as far as its own word goes. One that a newer job has flashed since has not.
    pub fn is_done(&self) -> bool {
        match self.outcome() {
            Some(Outcome::Succeeded) => true,
            Some(Outcome::Skipped) => !self.is_superseded(),
            Some(Outcome::Failed) | None => false,
        }
    }

    /// Whether it was left out because a newer job has flashed the board since.
    pub fn is_superseded(&self) -> bool {
        let superseded = self.reason() == Some(Reason::Superseded.as_str());
        self.outcome() == Some(Outcome::Skipped) && superseded
    }
}

/// From one state to the next.
impl Record {
    /// A device that has just come into the job.
    pub fn new(job_uid: &JobUid, device: &str, revision: &str, now: Timestamp) -> Record {
        Record {
            device: device.to_owned(),
            pinned: None,
            revision: revision.to_owned(),
            target: names::target(job_uid, device, revision),
            attempt: 0,
            deadline_seconds: None,
            previous: None,
            turn: now,
            progress: DeviceProgress::Waiting(None),
            selected: false,
            nonce: None,
            dropped: false,
        }
    }

    /// Its next attempt begins, with a permit.
    pub fn opened(&self, previous: Option<String>, deadline_seconds: Option<i64>) -> Record {
        let attempt = self.attempt.saturating_add(1);
        let progress = DeviceProgress::Open { permit: true, failed: self.failed().cloned() };
        Record { attempt, previous, deadline_seconds, progress, ..self.clone() }
    }

    /// Its attempt has no permit any more, and may have started before that.
    pub fn without_permit(&self) -> Record {
        let progress = DeviceProgress::Open { permit: false, failed: self.failed().cloned() };
        Record { progress, ..self.clone() }
    }

    /// Its attempt never reached the board, and counts for nothing.
    pub fn closed(&self) -> Record {
        let progress = DeviceProgress::Waiting(self.failed().cloned());
        Record { progress, ..self.clone() }
    }

    /// The same entry as the same device as `other`: it is flashed once.
    pub fn as_duplicate_of(&self, other: &str, now: Timestamp) -> Record {
        let ended = RecordedEnd {
            at: Some(now),
            reason: self.reason().map(str::to_owned),
            message: Some(message(&format!("the same device as {other}"))),
            digest: None,
        };
        let retry_at = self.failed().and_then(|failed| failed.retry_at);
        let progress = DeviceProgress::Duplicate { tries: self.tries(), retry_at, ended };
        Record { progress, ..self.clone() }
    }

    /// The same device with another firmware: nothing done yet, but attempt numbers go on, so that going back to an
    /// earlier firmware meets no old permit. A duplicate stays one.
    pub fn renewed(&self, job_uid: &JobUid, revision: &str, now: Timestamp) -> Record {
        if !self.is_duplicate() {
            return self.begun_anew(job_uid, revision, now);
        }
        let target = names::target(job_uid, &self.device, revision);
        Record { revision: revision.to_owned(), target, ..self.clone() }
    }

    /// The same, also for one that is no duplicate any more.
    pub fn begun_anew(&self, job_uid: &JobUid, revision: &str, now: Timestamp) -> Record {
        Record {
            pinned: self.pinned.clone(),
            attempt: self.attempt,
            selected: self.selected,
            previous: self.previous.clone().filter(|_| self.revision == revision),
            ..Record::new(job_uid, &self.device, revision, now)
        }
    }
}
