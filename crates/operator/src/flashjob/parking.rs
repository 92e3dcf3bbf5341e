//! Jobs that are not kept in memory.
//!
//! Finished jobs are kept on the cluster as a record, and held ones wait for a person, for months and with ten thousand
//! devices each. A job whose plan is idle is parked: what other jobs need to know of it is in `Locks`, 16 bytes a board, and
//! beyond that only its name and a fingerprint are kept. It is loaded again, job and ledger, past every cache, when it has another
//! fingerprint, when an object of it appears, and when its next reconcile is due.
//!
//! Every job that the first list shows begins as a parked one, so a start with a hundred finished jobs takes no more memory
//! than one with a few. Until all of them were loaded once, nothing is started: any of them may hold a board.

use std::collections::{HashMap, HashSet};
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Duration;

use flashjob_api::flashjob::Counts;
use flashjob_plan::flashjob::Plan;
use flashjob_plan::flashjob::children::Owner;
use flashjob_plan::flashjob::facts::Settings;
use flashjob_plan::flashjob::ids::JobUid;
use flashjob_plan::flashjob::locks::Seniority;
use kube::Api;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::controller::FlashJobController;
use super::input::Input;
use super::job::JobState;
use super::ledger_cache::{self, LargeLedgerSlot, LedgerCache};
use super::observe::{self, SeenJob};
use super::slim;
use crate::engine::fair_queue::{FairQueue, Flow};
use crate::engine::pool::Caller;
use crate::process::client::error_message;

/// So many jobs are loaded at once. (Of ledgers with more than one ConfigMap only one is, see [`LargeLedgerSlot`].)
const MOST_LOADING: usize = 8;
/// The longest pause before a job that could not be loaded is loaded again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The parked jobs, and which of them are to be loaded.
pub struct Parking {
    jobs: HashMap<JobUid, ParkedJob>,
    /// Those that are to be loaded: namespaces take turns.
    queue: FairQueue<JobUid>,
    loading: usize,
    /// Those of the first list that were not loaded yet.
    first: HashSet<JobUid>,
    large: Arc<Semaphore>,
    key: RandomState,
}

impl Default for Parking {
    fn default() -> Parking {
        Parking {
            jobs: HashMap::new(),
            queue: FairQueue::default(),
            loading: 0,
            first: HashSet::new(),
            large: Arc::new(Semaphore::new(1)),
            key: RandomState::new(),
        }
    }
}

/// What is kept of a parked job.
struct ParkedJob {
    owner: Owner,
    counts: Counts,
    foreign_reported: bool,
    /// Its newest resourceVersion, as a number.
    version: u64,
    /// What it was then; `None` if it was not reconciled yet.
    fingerprint: Option<u64>,
    /// It is being loaded, or will be.
    queued: bool,
    failures: u32,
}

/// A job with its ledger, just read.
pub struct Loaded {
    seen: SeenJob,
    ledger: LedgerCache,
    large_slot: Option<LargeLedgerSlot>,
}

impl Parking {
    /// The parked job of this uid.
    pub fn owner(&self, uid: &JobUid) -> Option<&Owner> {
        self.jobs.get(uid).map(|parked| &parked.owner)
    }

    /// All of them.
    pub fn uids(&self) -> impl Iterator<Item = &JobUid> {
        self.jobs.keys()
    }

    /// Whether every job of the first list was loaded once.
    pub fn knows_all(&self) -> bool {
        self.first.is_empty()
    }

    /// Makes room for the ledgers that are read.
    pub fn large(&self) -> Arc<Semaphore> {
        self.large.clone()
    }

    /// A foreign object names this job. Says whether that is to be told.
    pub fn report_foreign(&mut self, uid: &JobUid) -> bool {
        let parked = self.jobs.get_mut(uid).filter(|parked| !parked.foreign_reported);
        parked.map(|parked| parked.foreign_reported = true).is_some()
    }

    pub fn is_parked(&self, uid: &JobUid) -> bool {
        self.jobs.contains_key(uid)
    }
}

impl FlashJobController {
    /// A job is seen for the first time. One that appears after the first list and has no annotation was not begun: its
    /// ledger, should somebody have put one there, is met when it is made.
    pub(super) fn add_job(&mut self, seen: SeenJob) {
        let (job, uid) = (&seen.job, seen.job.uid.clone());
        let (namespace, name) = (job.namespace.clone(), job.name.clone());
        self.locks.introduce(&uid, Seniority { created: job.created, namespace, name });
        let listed = self.synced.contains("flashjobs");
        if listed && job.ledger.is_none() {
            self.jobs.insert(uid.clone(), JobState::new(seen, LedgerCache::absent()));
            return self.enqueue(&uid);
        }
        if !listed {
            self.parking.first.insert(uid.clone());
        }
        let parked = ParkedJob {
            owner: Owner::of(job),
            counts: Counts::default(),
            foreign_reported: false,
            version: seen.version_number,
            fingerprint: None,
            queued: false,
            failures: 0,
        };
        self.park_as(&uid, parked);
        self.load(&uid);
    }

    /// A watch shows a parked job. What it shows is not kept: there may be hundreds that somebody has changed at once.
    pub(super) fn see_parked(&mut self, uid: &JobUid, seen: &SeenJob) {
        let fingerprint = Some(seen.fingerprint(&self.parking.key));
        let Some(parked) = self.parking.jobs.get_mut(uid) else { return };
        let newer = seen.version_number > parked.version;
        parked.version = parked.version.max(seen.version_number);
        if newer && parked.fingerprint != fingerprint {
            self.load(uid);
        }
    }

    /// Takes an idle job out of memory, unless something is still under way for it. Says whether it is parked now.
    pub(super) fn park(&mut self, uid: &JobUid, next: Option<Instant>) -> bool {
        if !self.jobs.get(uid).is_some_and(JobState::is_at_rest) {
            return false;
        }
        let Some(job) = self.drop_job(uid) else { return false };
        // Where the ledger cannot be read, what was known of it before stays.
        if let Some(ledger) = job.ledger.sealed() {
            self.locks.park(uid, &ledger.records);
        }
        let parked = ParkedJob {
            owner: Owner::of(&job.seen.job),
            counts: job.counts,
            foreign_reported: job.foreign_reported,
            version: job.seen.version_number,
            fingerprint: Some(job.seen.fingerprint(&self.parking.key)),
            queued: false,
            failures: 0,
        };
        self.park_as(uid, parked);
        if let Some(at) = next {
            self.queue.enqueue_at(uid, at);
        }
        true
    }

    fn park_as(&mut self, uid: &JobUid, parked: ParkedJob) {
        self.parking.jobs.insert(uid.clone(), parked);
        self.context.metrics.parked(self.parking.jobs.len());
    }

    /// Forgets a parked job: it is loaded, or gone.
    pub(super) fn unpark(&mut self, uid: &JobUid) -> Option<Counts> {
        let parked = self.parking.jobs.remove(uid)?;
        self.parking.first.remove(uid);
        self.queue.remove(uid);
        self.context.metrics.parked(self.parking.jobs.len());
        Some(parked.counts)
    }

    /// A parked job has to be reconciled.
    pub(super) fn load(&mut self, uid: &JobUid) {
        let Some(parked) = self.parking.jobs.get_mut(uid).filter(|parked| !parked.queued) else {
            return;
        };
        parked.queued = true;
        self.queue.cancel(uid);
        let flow = Flow { namespace: parked.owner.namespace.clone(), key: uid.to_string() };
        self.parking.queue.add(&flow, uid.clone());
        self.start_loads();
    }

    /// Loads those whose turn it is. Their objects are known by now: whether a job is idle can be told at once.
    pub(super) fn start_loads(&mut self) {
        if !["pods", "services"].iter().all(|kind| self.synced.contains(kind)) {
            return;
        }
        while self.parking.loading < MOST_LOADING {
            let Some(uid) = self.parking.queue.next() else { return };
            let Some(owner) = self.parking.owner(&uid).cloned() else { continue };
            let flow = Flow { namespace: owner.namespace.clone(), key: uid.to_string() };
            let caller = self.pool.caller(flow, false);
            let (inputs, settings) = (self.inputs.clone(), self.context.settings.clone());
            let large = self.parking.large();
            self.parking.loading += 1;
            tokio::spawn(async move {
                let loaded = load(&caller, &owner, &settings, large).await.map(Box::new);
                // A closed channel means that the process is stopping.
                let _ = inputs.send(Input::Loaded(uid, loaded)).await;
            });
        }
    }

    /// A parked job was read.
    pub(super) fn loaded(&mut self, uid: &JobUid, loaded: kube::Result<Box<Option<Loaded>>>) {
        self.parking.loading -= 1;
        if let Some(parked) = self.parking.jobs.get_mut(uid) {
            parked.queued = false;
            match loaded.map(|loaded| *loaded) {
                Ok(Some(loaded)) if loaded.seen.version_number < parked.version => self.load(uid),
                Ok(Some(loaded)) => self.take_in(uid, loaded),
                // Gone: the watch will say so, and nobody waits for that.
                Ok(None) => _ = self.parking.first.remove(uid),
                Err(error) => {
                    let pause = Duration::from_millis(500 << parked.failures.min(6));
                    parked.failures += 1;
                    let job = format!("{}/{}", parked.owner.namespace, parked.owner.name);
                    tracing::warn!(%job, error = error_message(&error), "a job's ledger could not be read and is tried again");
                    let (inputs, uid) = (self.inputs.clone(), uid.clone());
                    tokio::spawn(async move {
                        tokio::time::sleep(pause.min(LONGEST_PAUSE)).await;
                        let _ = inputs.send(Input::Load(uid)).await;
                    });
                }
            }
        }
        self.start_loads();
    }

    fn take_in(&mut self, uid: &JobUid, loaded: Loaded) {
        let Loaded { seen, ledger, large_slot } = loaded;
        let foreign_reported =
            self.parking.jobs.get(uid).is_some_and(|parked| parked.foreign_reported);
        let counts = self.unpark(uid).unwrap_or_default();
        // What is open holds its board from the first moment, before the job itself is reconciled.
        self.locks.hold(uid, ledger.open_endpoints());
        let mut job = JobState::new(seen, ledger);
        (job.counts, job.foreign_reported) = (counts, foreign_reported);
        (job.just_loaded, job.large_slot) = (true, large_slot);
        self.jobs.insert(uid.clone(), job);
        self.reconcile_idle(uid);
        self.enqueue_at(uid, Instant::now());
    }

    /// Reconciles a job that was just loaded. Only what has nothing to do with others is decided, because these may not be known
    /// yet: an idle job gets its status and is parked. Of any other it is taken in what it has to do with boards. Says
    /// whether that is all there is to do.
    pub(super) fn reconcile_idle(&mut self, uid: &JobUid) -> bool {
        if !self.jobs.get(uid).is_some_and(|job| job.just_loaded) {
            return false;
        }
        match self.decide(uid) {
            Some(plan @ Plan { idle: true, expire: false, .. }) => {
                self.act(uid, plan);
                true
            }
            _ => {
                self.learn_ledger(uid);
                false
            }
        }
    }
}

/// Reads a job and its ledger; `None` if there is no such job any more.
async fn load(
    caller: &Caller,
    owner: &Owner,
    settings: &Settings,
    large: Arc<Semaphore>,
) -> kube::Result<Option<Loaded>> {
    // The ledger first: whoever waits for room does not have a large job in memory meanwhile.
    let (ledger, large_slot) = ledger_cache::read(caller, owner, large).await?;
    let jobs: Api<slim::FlashJob> = Api::namespaced(caller.client.clone(), &owner.namespace);
    let Some(object) = caller.call(jobs.get_opt(&owner.name)).await? else { return Ok(None) };
    let seen = observe::job(object, settings, None);
    Ok(owner.is(&seen.job).then_some(Loaded { seen, ledger, large_slot }))
}
