//! The one task that owns all state: takes inputs, looks at the jobs they touch, hands out writes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use flashjob_plan::facts::{Pod, Service, Settings, View};
use flashjob_plan::instances::Instances;
use flashjob_plan::{Kind, decide};
use kube::Client;
use kube::runtime::events::Recorder;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::index::{Doubt, Index};
use super::job::JobState;
use super::ledger::{self, Memory, Shard};
use super::observe::{Child, SeenJob};
use super::pool::Pool;
use super::watch::{Seen, Sight, Watches};
use super::write::Created;
use crate::clock;
use crate::crds::{INSTANCES, Missing};
use crate::metrics::Metrics;

/// Inputs that may wait; more than this, and the watches wait.
const MOST_INPUTS: usize = 1024;
/// How long writes under way may take to end when the process stops.
const LAST_WRITES: Duration = Duration::from_secs(3);

/// What the controller needs from the process.
pub struct Context {
    pub client: Client,
    pub settings: Settings,
    pub namespace: Option<String>,
    pub max_writes: usize,
    pub missing: Missing,
    pub metrics: Metrics,
    pub recorder: Recorder,
}

/// Everything the engine takes in.
pub enum Input {
    /// A watch has seen something.
    Sight(Sight),
    /// A write for this job was answered.
    Answer(String, Answer),
    /// It is known now which CRDs are there.
    CrdsKnown,
    /// An object has to be read live once more.
    Recheck(Doubt),
}

/// What a write or a read came to.
pub enum Answer {
    PodCreated {
        target: String,
        attempt: u32,
        created: Created<Option<Child<Pod>>>,
    },
    ServiceCreated {
        target: String,
        created: Created<Option<Child<Service>>>,
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
        before: serde_json::Value,
    },
    EventsSent,
    LedgerCreated(Result<Vec<Shard>, String>),
    LedgerCleared(Result<(), String>),
    LedgerFlushed {
        shard: usize,
        took: Duration,
        result: Result<Shard, String>,
        ended: Vec<flashjob_plan::AttemptEnd>,
    },
    LedgerRead(kube::Result<Vec<Shard>>),
}

/// The state of the controller.
pub struct Engine {
    pub(super) context: Context,
    pub(super) inputs: mpsc::Sender<Input>,
    pub(super) pool: Pool<Input>,
    pub(super) jobs: HashMap<String, JobState>,
    pub(super) index: Index,
    pub(super) instances: Instances,
    due: BTreeSet<(Instant, String)>,
    ledgers: HashMap<String, Vec<Shard>>,
    synced: HashSet<&'static str>,
    listed_jobs: Option<HashSet<String>>,
    listed_instances: Option<HashSet<(String, String)>>,
}

/// Runs the controller until `stop` says so. The lease must be held.
pub async fn run(context: Context, mut stop: watch::Receiver<bool>) -> anyhow::Result<()> {
    let (inputs, mut arriving) = mpsc::channel(MOST_INPUTS);
    let ledgers = read_ledgers(&context, &mut stop).await;
    let Some(ledgers) = ledgers else { return Ok(()) };
    Watches {
        client: context.client.clone(),
        namespace: context.namespace.clone(),
        settings: context.settings.clone(),
        missing: context.missing.clone(),
        metrics: context.metrics.clone(),
        inputs: inputs.clone(),
    }
    .start();
    let (missing, known) = (context.missing.clone(), inputs.clone());
    tokio::spawn(async move {
        missing.known().await;
        let _ = known.send(Input::CrdsKnown).await;
    });
    let mut engine = Engine {
        pool: Pool::new(context.max_writes),
        context,
        inputs,
        jobs: HashMap::new(),
        index: Index::default(),
        instances: Instances::default(),
        due: BTreeSet::new(),
        ledgers,
        synced: HashSet::new(),
        listed_jobs: None,
        listed_instances: None,
    };
    loop {
        let next = engine.due.first().map(|(at, _)| *at);
        let sleep = async {
            match next {
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
        engine.send();
    }
    // Decides no more; what is on its way may arrive.
    let deadline = Instant::now() + LAST_WRITES;
    while engine.pool.running() > 0 {
        match tokio::time::timeout_at(deadline, arriving.recv()).await {
            Ok(Some(Input::Answer(..))) => engine.pool.done(),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => break,
        }
    }
    Ok(())
}

/// The ledgers of all jobs, read once, after the lease was won. `None` if the process stops meanwhile.
async fn read_ledgers(
    context: &Context,
    stop: &mut watch::Receiver<bool>,
) -> Option<HashMap<String, Vec<Shard>>> {
    let mut pause = Duration::from_millis(500);
    loop {
        let read = ledger::read(&context.client, context.namespace.as_deref(), None);
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return None,
            read = read => match read {
                Ok(ledgers) => return Some(ledgers),
                Err(error) => tracing::warn!(%error, "the ledgers could not be read"),
            },
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return None,
            () = tokio::time::sleep(pause) => pause = (pause * 2).min(Duration::from_secs(10)),
        }
    }
}

impl Engine {
    fn take(&mut self, input: Input) {
        match input {
            Input::Sight(Sight::Job(seen)) => self.see_job(seen),
            Input::Sight(Sight::Instance(seen)) => self.see_instance(seen),
            Input::Sight(Sight::Pod(seen)) => {
                let now = clock::now();
                match seen {
                    Seen::Listing => self.index.listing("pods"),
                    Seen::There(child) => {
                        self.wake(&child.job.clone());
                        self.index.see_pod(*child, now);
                    }
                    Seen::Left(child) => {
                        self.wake(&child.job.clone());
                        let doubt = self.index.pod_left(&child, now);
                        self.check(doubt);
                    }
                    Seen::Synced => {
                        let doubts = self.index.pods_listed();
                        self.check(doubts);
                        self.synced("pods");
                    }
                }
            }
            Input::Sight(Sight::Service(seen)) => {
                let now = clock::now();
                match seen {
                    Seen::Listing => self.index.listing("services"),
                    Seen::There(child) => {
                        self.wake(&child.job.clone());
                        self.index.see_service(*child, now);
                    }
                    Seen::Left(child) => {
                        self.wake(&child.job.clone());
                        let doubt = self.index.service_left(&child, now);
                        self.check(doubt);
                    }
                    Seen::Synced => {
                        let doubts = self.index.services_listed();
                        self.check(doubts);
                        self.synced("services");
                    }
                }
            }
            Input::Answer(job, answer) => {
                self.pool.done();
                self.answered(&job, answer);
                self.wake(&job);
            }
            Input::CrdsKnown => self.wake_all(),
            Input::Recheck(doubt) => self.check(Some(doubt)),
        }
    }

    fn see_job(&mut self, seen: Seen<Box<SeenJob>>) {
        match seen {
            Seen::Listing => self.listed_jobs = Some(HashSet::new()),
            Seen::There(seen) => {
                if let Some(listed) = &mut self.listed_jobs {
                    listed.insert(seen.job.uid.clone());
                }
                self.update_job(*seen);
            }
            Seen::Left(seen) => self.forget_job(&seen.job.uid),
            Seen::Synced => {
                let listed = self.listed_jobs.take().unwrap_or_default();
                let gone: Vec<String> =
                    self.jobs.keys().filter(|uid| !listed.contains(*uid)).cloned().collect();
                for uid in gone {
                    self.forget_job(&uid);
                }
                self.synced("flashjobs");
            }
        }
    }

    /// Takes in a job as a watch or an answer showed it, unless something newer is known.
    pub(super) fn update_job(&mut self, seen: SeenJob) {
        let uid = seen.job.uid.clone();
        match self.jobs.get_mut(&uid) {
            Some(known) if known.seen.version_number > seen.version_number => return,
            Some(known) => known.seen = seen,
            None => {
                let ledger = Memory::read(self.ledgers.remove(&uid).unwrap_or_default());
                self.jobs.insert(uid.clone(), JobState::new(seen, ledger));
            }
        }
        self.wake(&uid);
    }

    fn forget_job(&mut self, uid: &str) {
        let Some(job) = self.jobs.remove(uid) else { return };
        self.index.forget_job(uid);
        self.context.metrics.devices_moved(&job.counts, &Default::default());
        self.context.metrics.waiting(uid, None);
        // Boards it held are free now.
        self.wake_all();
    }

    fn see_instance(&mut self, seen: Seen<flashjob_plan::instances::Instance>) {
        match seen {
            Seen::Listing => self.listed_instances = Some(HashSet::new()),
            Seen::There(instance) => {
                if let Some(listed) = &mut self.listed_instances {
                    listed.insert((instance.namespace.clone(), instance.name.clone()));
                }
                self.instances.insert(instance);
            }
            Seen::Left(instance) => self.instances.remove(&instance.namespace, &instance.name),
            Seen::Synced => {
                let listed = self.listed_instances.take().unwrap_or_default();
                let known: Vec<(String, String)> =
                    self.instances.iter().map(|i| (i.namespace.clone(), i.name.clone())).collect();
                for (namespace, name) in known.iter().filter(|key| !listed.contains(*key)) {
                    self.instances.remove(namespace, name);
                }
                self.synced("instances");
            }
        }
        if self.synced.contains("instances") {
            self.wake_all();
        }
    }

    fn synced(&mut self, kind: &'static str) {
        if self.synced.insert(kind) {
            tracing::info!(kind, "the first list is complete");
        }
        self.wake_all();
    }

    /// Whether enough is known to decide. Akri may come later; jobs then say that they wait for it.
    fn ready(&self) -> bool {
        let akri = self.synced.contains("instances") || self.context.missing.lacks(INSTANCES);
        akri && ["flashjobs", "pods", "services"].iter().all(|kind| self.synced.contains(kind))
    }

    pub(super) fn wake(&mut self, uid: &str) {
        self.wake_at(uid, Instant::now());
    }

    pub(super) fn wake_at(&mut self, uid: &str, at: Instant) {
        if let Some(job) = self.jobs.get_mut(uid) {
            let at = job.look_at(at);
            self.due.insert((at, uid.to_owned()));
        }
    }

    /// Something changed that any unfinished job may wait for.
    fn wake_all(&mut self) {
        let now = Instant::now();
        let all: Vec<String> = self.jobs.keys().cloned().collect();
        for uid in all {
            self.wake_at(&uid, now);
        }
    }

    fn look_at_due(&mut self) {
        if !self.ready() {
            self.due.clear();
            return;
        }
        let now = Instant::now();
        while let Some((at, uid)) = self.due.first().cloned() {
            if at > now {
                break;
            }
            self.due.pop_first();
            if self.jobs.get_mut(&uid).is_some_and(|job| job.take_look(now)) {
                self.look(&uid);
            }
        }
    }

    /// observe → decide → act, for one job.
    fn look(&mut self, uid: &str) {
        let began = Instant::now();
        let Some(job) = self.jobs.get(uid) else { return };
        let claims: HashMap<String, String> = self
            .jobs
            .iter()
            .filter(|(other, _)| *other != uid)
            .flat_map(|(_, other)| {
                let name = format!("{}/{}", other.seen.job.namespace, other.seen.job.name);
                other.claims.iter().map(move |endpoint| (endpoint.clone(), name.clone()))
            })
            .collect();
        let view = View {
            job: &job.seen.job,
            settings: &self.context.settings,
            ledger: job.ledger.state(),
            instances: self.synced.contains("instances").then_some(&self.instances),
            children: self.index.children(uid),
            settled: job.settled,
            claims: &claims,
            addresses_moved: self.index.addresses_moved,
        };
        let plan = decide(&view, clock::now());
        self.act(uid, plan);
        self.context.metrics.reconciled(began.elapsed());
    }

    /// Sends as many of the waiting writes as may be under way.
    fn send(&mut self) {
        while let Some(work) = self.pool.next() {
            let inputs = self.inputs.clone();
            tokio::spawn(async move {
                // A closed channel means that the process is stopping.
                let _ = inputs.send(work.await).await;
            });
        }
    }
}
