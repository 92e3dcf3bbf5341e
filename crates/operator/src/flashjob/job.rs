//! One job as the controller holds it.

use flashjob_api::flashjob::Counts;
use flashjob_plan::flashjob::concerns::Concerns;
use jiff::Timestamp;
use tokio::time::Instant;

use super::ledger_cache::{LargeLedgerSlot, LedgerCache};
use super::observe::SeenJob;
use super::refusal::Refusals;
use crate::engine::backoff::Backoff;
use crate::engine::panics::Fault;
use crate::engine::status::Throttle;
use crate::process::clock;

/// What is known of one job, and what is under way for it.
pub struct JobState {
    /// As last seen.
    pub seen: SeenJob,
    /// When it was first seen.
    pub first_seen: Timestamp,
    /// Its ledger.
    pub ledger: LedgerCache,
    /// No attempt is open that another process began.
    pub recovered: bool,
    /// A list of its Pods is under way.
    pub listing_pods: bool,
    /// A write to its metadata is under way.
    pub writing_metadata: bool,
    /// Writes to its metadata or its ledger are not tried again before this.
    pub backoff: Backoff,
    /// Why its ledger, finalizer or annotation could not be written the last time.
    pub trouble: Option<String>,
    /// When its status may be written.
    pub throttle: Throttle,
    /// The statuses of it that the server will not take.
    pub refusals: Refusals,
    /// The devices by state, as the metrics have them.
    pub counts: Counts,
    /// Nothing more will happen by itself.
    pub finished: bool,
    /// Its last reconcile has panicked.
    pub fault: Option<Fault>,
    /// A foreign object that names this job was told.
    pub foreign_reported: bool,
    /// The Instances its ledger speaks of.
    pub concerns: Concerns,
    /// Its status is what is to be said.
    pub status_current: bool,
    /// It was just loaded and may be parked at once: others do not know yet what it has to do with boards.
    pub just_loaded: bool,
    /// Its ledger was just loaded and may be parked at once.
    pub large_slot: Option<LargeLedgerSlot>,
}

impl JobState {
    /// A job seen for the first time, with the ledger that was read for it.
    pub fn new(seen: SeenJob, ledger: LedgerCache) -> JobState {
        let recovered = ledger.sealed().is_none_or(|l| !l.has_open_attempts());
        JobState {
            seen,
            first_seen: clock::now(),
            ledger,
            recovered,
            listing_pods: false,
            writing_metadata: false,
            backoff: Backoff::default(),
            trouble: None,
            throttle: Throttle::default(),
            refusals: Refusals::default(),
            counts: Counts::default(),
            finished: false,
            fault: None,
            foreign_reported: false,
            concerns: Concerns::default(),
            status_current: false,
            just_loaded: false,
            large_slot: None,
        }
    }

    /// Whether nothing is under way for it, and its status says what is to be said.
    pub fn is_at_rest(&self) -> bool {
        let writing =
            self.writing_metadata || self.throttle.busy || !self.ledger.flushing.is_empty();
        let reading = self.listing_pods || self.ledger.reading;
        self.status_current
            && !writing
            && !reading
            && self.backoff.until().is_none()
            && self.fault.is_none()
    }

    /// A write to its ledger or metadata failed: not again for a while.
    pub fn write_failed(&mut self, why: &str) -> Instant {
        self.trouble = Some(why.to_owned());
        self.backoff.failed()
    }

    /// A write to its ledger or metadata was acknowledged.
    pub fn write_succeeded(&mut self) {
        self.trouble = None;
        self.backoff.succeeded();
    }
}
