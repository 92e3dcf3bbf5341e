//! The one door: everything that the controller takes in.

use std::time::Duration;

use flashjob_plan::flashjob::children::{Child, Foreign};
use flashjob_plan::flashjob::facts::{Pod, Service};
use flashjob_plan::flashjob::ids::{JobUid, Target};
use flashjob_plan::flashjob::index::Unconfirmed;
use flashjob_plan::flashjob::{AttemptEnd, Kind};
use kube::runtime::events::Event;

use super::ledger::{Memory, Shard};
use super::observe::SeenJob;
use super::parking::Loaded;
use super::watches::Watched;
use crate::engine::write::Created;

/// Everything the controller takes in.
pub enum Input {
    /// A watch has seen something.
    Watched(Watched),
    /// A write for this job was answered.
    Answer(JobUid, Box<Answer>),
    /// A parked job has to be loaded.
    Load(JobUid),
    /// A parked job was read; `None`: there is no such job any more.
    Loaded(JobUid, kube::Result<Box<Option<Loaded>>>),
    /// It is known now which CRDs are there.
    CrdsKnown,
    /// An object has to be read live once more.
    Recheck(Unconfirmed),
    /// The Pods of a job that is gone may be over by now.
    Orphans(JobUid),
}

/// What a write or a read came to.
pub enum Answer {
    PodCreated {
        target: Target,
        attempt: u32,
        created: Created<Result<Child<Pod>, Foreign>>,
    },
    ServiceCreated {
        target: Target,
        created: Created<Result<Child<Service>, Foreign>>,
    },
    Deleted {
        target: Target,
        kind: Kind,
        uid: String,
        result: kube::Result<()>,
    },
    PodChecked {
        doubt: Unconfirmed,
        attempt: u32,
        found: Option<Pod>,
    },
    ServiceChecked {
        doubt: Unconfirmed,
        found: Option<Service>,
    },
    PodsListed(kube::Result<Vec<Child<Pod>>>),
    Marked(kube::Result<Box<SeenJob>>),
    StatusWritten {
        result: kube::Result<Box<SeenJob>>,
        /// What is told when it went well.
        events: Vec<Event>,
    },
    Expired(kube::Result<()>),
    EventsSent,
    LedgerCreated(Result<Vec<Shard>, String>),
    LedgerCleared(Result<(), String>),
    LedgerFlushed {
        shard: usize,
        took: Duration,
        result: Result<Shard, String>,
        ended: Vec<AttemptEnd>,
    },
    LedgerRead {
        result: kube::Result<Box<Memory>>,
        /// It was looked for by its labels.
        anything: bool,
    },
}
