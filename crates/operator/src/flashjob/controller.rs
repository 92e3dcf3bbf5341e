//! The FlashJob controller: its state, and the way of one job from what is known to what is done.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use flashjob_plan::flashjob::addresses::Addresses;
use flashjob_plan::flashjob::children::Owner;
use flashjob_plan::flashjob::facts::{Settings, View};
use flashjob_plan::flashjob::ids::JobUid;
use flashjob_plan::flashjob::index::Index;
use flashjob_plan::flashjob::instances::Instances;
use flashjob_plan::flashjob::locks::Locks;
use flashjob_plan::flashjob::{Plan, decide, internal_error, locks_held};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::crds::INSTANCES;
use super::input::Input;
use super::job::JobState;
use super::metrics::FlashJobMetrics;
use super::parking::Parking;
use super::watches;
use crate::engine::fair_queue::Flow;
use crate::engine::panics::{self, Fault};
use crate::engine::pool::Pool;
use crate::engine::queue::Queue;
use crate::engine::watch::{Resync, Watches};
use crate::engine::{self, Controller};
use crate::process::{self, clock};

/// A job is reconciled not more often than this times the number of its devices.
const PAUSE_PER_DEVICE: Duration = Duration::from_micros(50);
/// The longest that comes to.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// What the controller works with.
pub struct FlashJobContext {
    pub process: process::Context,
    pub settings: Settings,
    pub metrics: FlashJobMetrics,
}

/// What is known, and what is under way.
pub struct FlashJobController {
    pub(super) context: FlashJobContext,
    pub(super) inputs: mpsc::Sender<Input>,
    pub(super) watches: Watches<Input>,
    pub(super) queue: Queue,
    pub(super) pool: Pool,
    pub(super) jobs: HashMap<JobUid, JobState>,
    /// The jobs that are not in memory.
    pub(super) parking: Parking,
    pub(super) index: Index,
    pub(super) instances: Instances,
    /// What the jobs have to do with which board.
    pub(super) locks: Locks,
    pub(super) addresses: Addresses,
    /// The kinds whose first list is complete.
    pub(super) synced: HashSet<&'static str>,
    /// The Pods of each namespace whose jobs were never seen here.
    pub(super) strays: HashMap<String, HashSet<JobUid>>,
    pub(super) listed_jobs: Option<HashSet<JobUid>>,
    pub(super) listed_instances: Option<HashSet<(String, String)>>,
}

/// Runs the controller until `stop` says so. The lease must be held.
pub async fn run(context: FlashJobContext, stop: watch::Receiver<bool>) -> anyhow::Result<()> {
    let (inputs, arriving) = mpsc::channel(engine::MOST_INPUTS);
    let watches = Watches {
        client: context.process.client.clone(),
        namespace: context.process.namespace.clone(),
        missing: context.process.missing.clone(),
        metrics: context.process.metrics.clone(),
        resync: Resync::every(context.process.resync),
        inputs: inputs.clone(),
    };
    watches::start_instances(&watches);
    watches::start_jobs(&watches);
    let pool = Pool::new(context.process.client.clone(), context.process.max_writes);
    let (missing, known) = (context.process.missing.clone(), inputs.clone());
    tokio::spawn(async move {
        missing.known().await;
        let _ = known.send(Input::CrdsKnown).await;
    });
    let controller = FlashJobController {
        pool,
        context,
        inputs,
        watches,
        queue: Queue::default(),
        jobs: HashMap::new(),
        parking: Parking::default(),
        index: Index::default(),
        instances: Instances::default(),
        locks: Locks::default(),
        addresses: Addresses::default(),
        synced: HashSet::new(),
        strays: HashMap::new(),
        listed_jobs: None,
        listed_instances: None,
    };
    engine::run(controller, arriving, stop).await;
    Ok(())
}

impl Controller for FlashJobController {
    type Input = Input;

    fn take(&mut self, input: Input) {
        match input {
            Input::Watched(event) => self.take_watched(event),
            Input::Answer(job, answer) => {
                self.answered(&job, *answer);
                self.reconcile_idle(&job);
                self.enqueue_at(&job, Instant::now());
            }
            Input::Load(job) => self.load(&job),
            Input::Loaded(job, loaded) => self.loaded(&job, loaded),
            Input::CrdsKnown => self.enqueue_unfinished(),
            Input::Recheck(unconfirmed) => self.check(Some(unconfirmed)),
            Input::Orphans(job) => self.update_orphan_locks(&job),
        }
    }

    /// Akri may come later; jobs then say that they wait for it. Its Instances may be many and are not waited for: a device
    /// that was listed can go on.
    fn is_ready(&self) -> bool {
        let akri = self.knows_instances() || self.context.process.missing.lacks(INSTANCES);
        let listed =
            ["flashjobs", "pods", "services"].iter().all(|kind| self.synced.contains(kind));
        akri && listed && self.parking.knows_all()
    }

    /// What jobs have Services and Pods for, they hold, before the first of them is reconciled. Open attempts come before
    /// that: they hold their boards since their jobs were seen.
    fn begin(&mut self) {
        for (uid, job) in &self.jobs {
            let held = locks_held(job.ledger.sealed(), self.index.children(uid), clock::now());
            self.locks.hold(uid, held);
        }
    }

    /// Older jobs first: what they want is known when the newer ones are reconciled.
    fn order(&self, one: &str, other: &str) -> Ordering {
        self.locks.seniority(&one.into()).cmp(&self.locks.seniority(&other.into()))
    }

    fn reconcile(&mut self, uid: &str) -> Duration {
        let uid = &JobUid::from(uid);
        if self.parking.is_parked(uid) {
            self.load(uid);
        } else if !self.reconcile_idle(uid)
            && let Some(plan) = self.decide(uid)
        {
            self.act(uid, plan);
        }
        // A reconcile goes over all devices.
        let ledger = self.jobs.get(uid).and_then(|job| job.ledger.sealed());
        let devices = ledger.map_or(0, |ledger| ledger.records.len());
        let devices = u32::try_from(devices).unwrap_or(u32::MAX);
        PAUSE_PER_DEVICE.saturating_mul(devices).min(LONGEST_PAUSE)
    }

    fn flow(&self, uid: &str) -> Option<Flow> {
        let namespace = self.owner(&uid.into())?.namespace;
        Some(Flow { namespace, key: uid.to_owned() })
    }

    fn queue(&mut self) -> &mut Queue {
        &mut self.queue
    }

    fn pool(&self) -> &Pool {
        &self.pool
    }
}

impl FlashJobController {
    /// Whether Akri's Instances are being listed or have been.
    fn knows_instances(&self) -> bool {
        self.instances.listing || self.synced.contains("instances")
    }

    /// Something happened to a job: it is reconciled, and loaded before that if it is parked.
    pub(super) fn enqueue(&mut self, uid: &JobUid) {
        self.load(uid);
        self.enqueue_at(uid, Instant::now());
    }

    /// A job that is in memory is reconciled at `at`.
    pub(super) fn enqueue_at(&mut self, uid: &JobUid, at: Instant) {
        if self.jobs.contains_key(uid) {
            self.queue.enqueue_at(uid, at);
        }
    }

    /// Takes a job out of memory.
    pub(super) fn drop_job(&mut self, uid: &JobUid) -> Option<JobState> {
        let job = self.jobs.remove(uid)?;
        self.queue.remove(uid);
        Some(job)
    }

    /// Something changed that every job has to be reconciled for.
    pub(super) fn enqueue_all(&mut self) {
        self.enqueue_if(|_| true);
    }

    /// Something changed that a job may wait for: a device, a free board.
    pub(super) fn enqueue_unfinished(&mut self) {
        self.enqueue_if(|job| !job.finished);
    }

    /// Addresses of these pools have become scarce, or are so no more.
    pub(super) fn enqueue_users_of(&mut self, pools: &[String]) {
        if !pools.is_empty() {
            self.enqueue_if(|job| {
                let spec = job.seen.job.spec.as_ref();
                !job.finished && spec.is_ok_and(|spec| pools.contains(&spec.access.pool))
            });
        }
    }

    pub(super) fn enqueue_if(&mut self, concerned: impl Fn(&JobState) -> bool) {
        let now = Instant::now();
        let jobs = self.jobs.iter().filter(|(_, job)| concerned(job));
        let uids: Vec<JobUid> = jobs.map(|(uid, _)| uid.clone()).collect();
        for uid in uids {
            self.enqueue_at(&uid, now);
        }
    }

    /// Who a job is that is there, in memory or parked.
    pub(super) fn owner(&self, uid: &JobUid) -> Option<Owner> {
        let job = self.jobs.get(uid).map(|job| Owner::of(&job.seen.job));
        job.or_else(|| self.parking.owner(uid).cloned())
    }

    /// observe → decide.
    pub(super) fn decide(&mut self, uid: &JobUid) -> Option<Plan> {
        let began = Instant::now();
        self.queue.begin(uid);
        let job = self.jobs.get_mut(uid)?;
        let status_due = job.throttle.ask(job.finished, began);
        let job = self.jobs.get(uid)?;
        let view = View {
            job: &job.seen.job,
            first_seen: job.first_seen,
            settings: &self.context.settings,
            ledger: job.ledger.state(),
            instances: self.knows_instances().then_some(&self.instances),
            children: self.index.children(uid),
            recovered: job.recovered,
            trouble: job.trouble.as_deref(),
            locks: &self.locks,
            addresses: &self.addresses,
            status_due,
        };
        let now = clock::now();
        let decided = panics::guarded(job.fault.as_ref(), view.job.generation, now, || {
            #[cfg(feature = "crash")]
            panic_at(view.job);
            decide(&view, now)
        });
        let plan = self.decided(uid, decided);
        self.context.process.metrics.reconciled(began.elapsed());
        Some(plan)
    }

    /// The plan of a reconcile. One that has panicked is counted and told, the first time in the log.
    fn decided(&mut self, uid: &JobUid, decided: Result<Plan, Fault>) -> Plan {
        let Some(job) = self.jobs.get_mut(uid) else { return Plan::default() };
        let before = std::mem::replace(&mut job.fault, decided.as_ref().err().cloned());
        let fault = match decided {
            Ok(plan) => return plan,
            Err(fault) => fault,
        };
        let facts = &job.seen.job;
        if before.as_ref() != Some(&fault) {
            self.context.process.metrics.panicked();
            let (job, message) = (format!("{}/{}", facts.namespace, facts.name), &fault.message);
            if before.is_some_and(|before| before.message == fault.message) {
                tracing::debug!(%job, panic = %message, "the reconcile of a job panicked again");
            } else {
                tracing::error!(%job, panic = %message, "the reconcile of a job panicked");
            }
        }
        internal_error(facts, &fault.message, fault.again)
    }
}

/// Reconciles of jobs of this version panic.
#[cfg(feature = "crash")]
pub static PANIC_AT_VERSION: std::sync::OnceLock<String> = std::sync::OnceLock::new();

/// Panics, if this is such a job.
#[cfg(feature = "crash")]
fn panic_at(job: &flashjob_plan::flashjob::Job) {
    let version = job.spec.as_ref().ok().map(|spec| &spec.version);
    assert!(version.is_none() || version != PANIC_AT_VERSION.get(), "told to panic");
}
