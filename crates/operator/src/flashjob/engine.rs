//! The one task that owns all state: takes inputs, looks at the jobs they touch, hands out writes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use flashjob_plan::addresses::Addresses;
use flashjob_plan::boards::Boards;
use flashjob_plan::children::{Foreign, Owner};
use flashjob_plan::facts::{Pod, Service, Settings, View};
use flashjob_plan::instances::Instances;
use flashjob_plan::{Kind, Plan, boards_held};
use kube::Client;
use kube::runtime::events::{Event, Recorder};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::fault;
use super::index::{Doubt, Index};
use super::job::JobState;
use super::ledger::{Memory, Shard};
use super::observe::{Child, SeenJob};
use super::parking::{Loaded, Parking};
use super::pool::Pool;
use super::turns::{Turns, Whose};
use super::watch::{Sight, Watches};
use super::write::Created;
use crate::clock;
use crate::crds::{INSTANCES, Missing};
use crate::metrics::Metrics;

/// Inputs that may wait; more than this, and the watches wait.
const MOST_INPUTS: usize = 1024;
/// How long jobs are looked at before what has come in meanwhile is taken in.
const LOOKING: Duration = Duration::from_millis(20);
/// How long writes under way may take to end when the process stops.
const LAST_WRITES: Duration = Duration::from_secs(3);

/// What the controller needs from the process.
pub struct Context {
    pub client: Client,
    pub settings: Settings,
    pub namespace: Option<String>,
    pub max_writes: usize,
    /// How long a watch is trusted to have left nothing out.
    pub list_anew: Duration,
    pub missing: Missing,
    pub metrics: Metrics,
    pub recorder: Recorder,
}

/// Everything the engine takes in.
pub enum Input {
    /// A watch has seen something.
    Sight(Sight),
    /// A write for this job was answered.
    Answer(String, Box<Answer>),
    /// A parked job has to be loaded.
    Load(String),
    /// A parked job was read; `None`: there is no such job any more.
    Loaded(String, kube::Result<Box<Option<Loaded>>>),
    /// It is known now which CRDs are there.
    CrdsKnown,
    /// An object has to be read live once more.
    Recheck(Doubt),
    /// The Pods of a job that is gone may be over by now.
    Orphans(String),
}

/// What a write or a read came to.
pub enum Answer {
    PodCreated {
        target: String,
        attempt: u32,
        created: Created<Result<Child<Pod>, Foreign>>,
    },
    ServiceCreated {
        target: String,
        created: Created<Result<Child<Service>, Foreign>>,
    },
    Deleted {
        target: String,
        kind: Kind,
        uid: String,
        result: kube::Result<()>,
    },
    PodChecked {
        doubt: Doubt,
        attempt: u32,
        found: Option<Pod>,
    },
    ServiceChecked {
        doubt: Doubt,
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
        ended: Vec<flashjob_plan::AttemptEnd>,
    },
    LedgerRead {
        result: kube::Result<Box<Memory>>,
        /// It was looked for by its labels.
        anything: bool,
    },
}

/// The state of the controller.
pub struct Engine {
    pub(super) context: Context,
    pub(super) inputs: mpsc::Sender<Input>,
    pub(super) watches: Watches,
    pub(super) pool: Pool,
    pub(super) jobs: HashMap<String, JobState>,
    /// The jobs that are not in memory.
    pub(super) parking: Parking,
    pub(super) index: Index,
    pub(super) instances: Instances,
    /// What the jobs have to do with which board.
    pub(super) boards: Boards,
    pub(super) addresses: Addresses,
    /// The kinds whose first list is complete.
    pub(super) synced: HashSet<&'static str>,
    /// The Pods of each namespace whose jobs were never seen here.
    pub(super) strays: HashMap<String, HashSet<String>>,
    pub(super) listed_jobs: Option<HashSet<String>>,
    pub(super) listed_instances: Option<HashSet<(String, String)>>,
    pub(super) due: BTreeSet<(Instant, String)>,
    /// The jobs whose time has come and that were not looked at yet.
    looks: Turns<String>,
    /// What earlier processes left is taken into account in `boards`.
    claimed: bool,
}

/// Runs the controller until `stop` says so. The lease must be held.
pub async fn run(context: Context, mut stop: watch::Receiver<bool>) -> anyhow::Result<()> {
    let (inputs, mut arriving) = mpsc::channel(MOST_INPUTS);
    let watches = Watches {
        client: context.client.clone(),
        namespace: context.namespace.clone(),
        missing: context.missing.clone(),
        metrics: context.metrics.clone(),
        list_anew: context.list_anew,
        inputs: inputs.clone(),
    };
    watches.start_instances();
    watches.start_jobs();
    let pool = Pool::new(context.client.clone(), context.max_writes);
    let (missing, known) = (context.missing.clone(), inputs.clone());
    tokio::spawn(async move {
        missing.known().await;
        let _ = known.send(Input::CrdsKnown).await;
    });
    let mut engine = Engine {
        pool,
        context,
        inputs,
        watches,
        jobs: HashMap::new(),
        parking: Parking::default(),
        index: Index::default(),
        instances: Instances::default(),
        boards: Boards::default(),
        addresses: Addresses::default(),
        due: BTreeSet::new(),
        looks: Turns::default(),
        claimed: false,
        synced: HashSet::new(),
        strays: HashMap::new(),
        listed_jobs: None,
        listed_instances: None,
    };
    loop {
        let next = engine.next_look();
        let sleep = async {
            match next {
                // Calls and watches are on the same thread, and go on between two looks.
                Some(at) if at <= Instant::now() => tokio::task::yield_now().await,
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            Some(input) = arriving.recv() => {
                engine.take(input);
                // Whatever has come in by now is looked at together.
                for _ in 0..MOST_INPUTS {
                    let Ok(input) = arriving.try_recv() else { break };
                    engine.take(input);
                }
            }
            () = sleep => {}
        }
        engine.look_at_due();
    }
    // Decides no more; what is on its way may arrive.
    if tokio::time::timeout(LAST_WRITES, engine.pool.finish()).await.is_err() {
        tracing::warn!("some calls were not answered in time");
    }
    Ok(())
}

impl Engine {
    fn take(&mut self, input: Input) {
        match input {
            Input::Sight(sight) => self.see(sight),
            Input::Answer(job, answer) => {
                self.answered(&job, *answer);
                self.look_idle(&job);
                self.wake_at(&job, Instant::now());
            }
            Input::Load(job) => self.load(&job),
            Input::Loaded(job, loaded) => self.loaded(&job, loaded),
            Input::CrdsKnown => self.wake_unfinished(),
            Input::Recheck(doubt) => self.check(Some(doubt)),
            Input::Orphans(job) => self.mind_orphans(&job),
        }
    }

    /// Whether Akri's Instances are being listed or have been.
    fn knows_instances(&self) -> bool {
        self.instances.listing || self.synced.contains("instances")
    }

    /// Whether enough is known to decide. Akri may come later; jobs then say that they wait for it. Its Instances may be
    /// many and are not waited for: a device that was listed can go on.
    pub(super) fn is_ready(&self) -> bool {
        let akri = self.knows_instances() || self.context.missing.lacks(INSTANCES);
        let listed =
            ["flashjobs", "pods", "services"].iter().all(|kind| self.synced.contains(kind));
        akri && listed && self.parking.knows_all()
    }

    /// Something happened to a job: it is looked at, and loaded before that if it is parked.
    pub(super) fn wake(&mut self, uid: &str) {
        self.load(uid);
        self.wake_at(uid, Instant::now());
    }

    pub(super) fn wake_at(&mut self, uid: &str, at: Instant) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        // One time for each job: those that are not waited for any more would stay for hours.
        let before = job.next_look();
        job.look_at(at);
        let next = job.next_look();
        if before != next {
            self.expect(uid, before, next);
        }
    }

    /// A job is expected to be looked at at another time than before.
    fn expect(&mut self, uid: &str, before: Option<Instant>, next: Option<Instant>) {
        if let Some(before) = before {
            self.due.remove(&(before, uid.to_owned()));
        }
        self.due.extend(next.map(|at| (at, uid.to_owned())));
    }

    /// Takes a job out of memory.
    pub(super) fn drop_job(&mut self, uid: &str) -> Option<JobState> {
        let job = self.jobs.remove(uid)?;
        self.expect(uid, job.next_look(), None);
        Some(job)
    }

    /// Something changed that every job has to be looked at for.
    pub(super) fn wake_all(&mut self) {
        self.wake_if(|_| true);
    }

    /// Something changed that a job may wait for: a device, a free board.
    pub(super) fn wake_unfinished(&mut self) {
        self.wake_if(|job| !job.finished);
    }

    /// Addresses of these pools have become scarce, or are so no more.
    pub(super) fn wake_users_of(&mut self, pools: &[String]) {
        if !pools.is_empty() {
            self.wake_if(|job| {
                let spec = job.seen.job.spec.as_ref();
                !job.finished && spec.is_ok_and(|spec| pools.contains(&spec.access.pool))
            });
        }
    }

    pub(super) fn wake_if(&mut self, concerned: impl Fn(&JobState) -> bool) {
        let now = Instant::now();
        let jobs = self.jobs.iter().filter(|(_, job)| concerned(job));
        let uids: Vec<String> = jobs.map(|(uid, _)| uid.clone()).collect();
        for uid in uids {
            self.wake_at(&uid, now);
        }
    }

    pub(super) fn whose(&self, uid: &str) -> Option<Whose> {
        let namespace = self.owner(uid)?.namespace;
        Some(Whose { namespace, job: uid.to_owned() })
    }

    /// Who a job is that is there, in memory or parked.
    pub(super) fn owner(&self, uid: &str) -> Option<Owner> {
        let job = self.jobs.get(uid).map(|job| Owner::of(&job.seen.job));
        job.or_else(|| self.parking.owner(uid).cloned())
    }

    /// When a job has to be looked at next.
    fn next_look(&self) -> Option<Instant> {
        match self.looks.is_empty() {
            _ if !self.is_ready() => None,
            true => self.due.first().map(|(at, _)| *at),
            false => Some(Instant::now()),
        }
    }

    /// Looks at the jobs whose time has come, for a while. Whoever is left over then has its turn among its neighbours,
    /// so that large jobs of one namespace do not keep a small one of another waiting.
    fn look_at_due(&mut self) {
        if !self.is_ready() {
            return;
        }
        let began = Instant::now();
        let mut due = Vec::new();
        while let Some((at, uid)) = self.due.first().cloned() {
            if at > began {
                break;
            }
            self.due.pop_first();
            if self.parking.is_due(&uid, began) {
                self.load(&uid);
            } else if self.jobs.get_mut(&uid).is_some_and(|job| job.queue_look(began)) {
                due.push(uid);
            }
        }
        // Older jobs first: what they want is known when the newer ones are looked at.
        due.sort_by(|a, b| self.boards.seniority(a).cmp(&self.boards.seniority(b)));
        let mut due = due.into_iter();
        if !self.claimed {
            self.claimed = true;
            self.claim_boards();
            // All of them, before anything is taken in that could let a newer one go first.
            due.by_ref().for_each(|uid| self.look(&uid));
        }
        while self.looks.is_empty() && began.elapsed() < LOOKING {
            let Some(uid) = due.next() else { break };
            self.look(&uid);
        }
        for uid in due {
            let Some(whose) = self.whose(&uid) else { continue };
            self.looks.add(&whose, uid);
        }
        while began.elapsed() < LOOKING {
            let Some(uid) = self.looks.next() else { break };
            self.look(&uid);
        }
    }

    /// What jobs have Services and Pods for, they hold, before the first of them is looked at. Open attempts come before
    /// that: they hold their boards since their jobs were seen.
    fn claim_boards(&mut self) {
        for (uid, job) in &self.jobs {
            let held = boards_held(job.ledger.sealed(), self.index.children(uid), clock::now());
            self.boards.hold(uid, held);
        }
    }

    /// observe → decide → act, for one job.
    fn look(&mut self, uid: &str) {
        if self.look_idle(uid) {
            return;
        }
        if let Some(plan) = self.decide(uid) {
            self.act(uid, plan);
        }
        if let Some(job) = self.jobs.get_mut(uid) {
            job.look_over(Instant::now());
        }
    }

    /// observe → decide.
    pub(super) fn decide(&mut self, uid: &str) -> Option<Plan> {
        let began = Instant::now();
        let job = self.jobs.get_mut(uid)?;
        let expected = job.next_look();
        job.looked_at(began);
        let status_due = job.pace.ask(job.finished, began);
        self.expect(uid, expected, None);
        let job = self.jobs.get(uid)?;
        let view = View {
            job: &job.seen.job,
            first_seen: job.first_seen,
            settings: &self.context.settings,
            ledger: job.ledger.state(),
            instances: self.knows_instances().then_some(&self.instances),
            children: self.index.children(uid),
            settled: job.settled,
            trouble: job.trouble.as_deref(),
            boards: &self.boards,
            addresses: &self.addresses,
            status_due,
        };
        let looked = fault::look(job.fault.as_ref(), &view, clock::now());
        let plan = self.looked(uid, looked);
        self.context.metrics.reconciled(began.elapsed());
        Some(plan)
    }
}
