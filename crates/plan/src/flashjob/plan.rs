//! What is to be done, as data. `act` carries it out and has no choices left.

use flashjob_api::flashjob::FlashJobStatus;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};

use crate::flashjob::addresses::Waiting;
use crate::flashjob::endpoint::Endpoint;
use crate::flashjob::facts;
use crate::flashjob::ids::Target;
use crate::flashjob::ledger::{Change, Ledger};
use crate::flashjob::locks::Lock;

/// Everything that follows from one reconcile of one job.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// What the ledger should become.
    pub ledger: LedgerPlan,
    /// Put our finalizer and the ledger's name on the job.
    pub add_finalizer: Option<String>,
    /// Take our finalizer off: everything is cleaned up.
    pub remove_finalizer: bool,
    /// Objects to make.
    pub creates: Vec<NewObject>,
    /// Objects to end.
    pub deletes: Vec<Deletion>,
    /// Places that hold nothing of interest any more.
    pub forget: Vec<(Target, Kind)>,
    /// Read the job's Pods anew, past every cache: permits were withdrawn.
    pub list_pods: bool,
    /// The whole new status; `None` while the job is being deleted or nothing is known yet.
    pub status: Option<FlashJobStatus>,
    /// Nothing more will happen by itself.
    pub finished: bool,
    /// Nothing happens to the job until somebody changes it, one of its objects appears, or `next_reconcile` comes: its
    /// ledger need not be kept in memory.
    pub idle: bool,
    /// The job has been kept long enough: delete it.
    pub expire: bool,
    /// What this job holds; `None` while that cannot be told, and then it stays as it was.
    pub held_locks: Option<Vec<Lock<'static>>>,
    /// What other jobs may have too and this one would take now, were it free.
    pub wanted_locks: Vec<Lock<'static>>,
    /// The Service of this job that has waited longest for an address.
    pub waiting: Option<Waiting>,
    /// Ends that this plan records, for the log and the metrics.
    pub ended: Vec<AttemptEnd>,
    /// When to reconcile again although nothing may have happened.
    pub next_reconcile: Option<Timestamp>,
}

/// What the ledger should become.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LedgerPlan {
    /// What it is.
    #[default]
    Keep,
    /// Remove the remains of a creation that was cut short: names and uids.
    Clear(Vec<(String, String)>),
    /// Make it.
    Create(Ledger),
    /// Change this much of it.
    Update(Change),
}

/// Which of a target's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Service,
    /// The Pod of this attempt.
    Pod(u32),
}

/// An object to make.
#[derive(Clone, Debug)]
pub enum NewObject {
    /// A device's Service.
    Service {
        /// Whose.
        target: Target,
        object: Box<Service>,
    },
    /// The Pod of one attempt.
    Pod {
        /// Whose.
        target: Target,
        /// Which attempt.
        attempt: u32,
        /// Where the board is.
        board: Endpoint,
        object: Box<Pod>,
    },
}

/// An object to end.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    /// Whose.
    pub target: Target,
    /// Which.
    pub kind: Kind,
    pub name: String,
    /// Its uid: nothing else under this name is touched.
    pub uid: String,
}

/// The end of one attempt, or of a device that was given up without one.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptEnd {
    /// The place of its record.
    pub index: usize,
    /// The device as written.
    pub device: String,
    /// Its board's address.
    pub endpoint: Endpoint,
    /// Which attempt; 0 if no Pod was made.
    pub attempt: u32,
    /// Succeeded, Skipped, or the reason of the failure.
    pub result: String,
    /// In words.
    pub message: String,
    /// How long it took, where that is known.
    pub seconds: Option<i64>,
}

impl Deletion {
    /// The Service of a target.
    pub fn of_service(target: Target, service: &facts::Service) -> Deletion {
        let kind = Kind::Service;
        Deletion { target, kind, name: service.name.clone(), uid: service.uid.clone() }
    }

    /// The Pod of one attempt at a target.
    pub fn of_pod(target: Target, attempt: u32, pod: &facts::Pod) -> Deletion {
        let kind = Kind::Pod(attempt);
        Deletion { target, kind, name: pod.name.clone(), uid: pod.uid.clone() }
    }
}

impl Plan {
    /// Reconcile again at `at`, or earlier if something else asks for it.
    pub fn reconcile_at(&mut self, at: Timestamp) {
        self.next_reconcile = Some(self.next_reconcile.map_or(at, |before| before.min(at)));
    }
}
