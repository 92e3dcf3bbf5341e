//! The operator in the small world: `decide` for one job, and what `act` makes of the plan.
//!
//! A plan depends on what the operator knows of one job and of the shared board, and on nothing else. So each is worked
//! out once, and millions of reconciles cost some tens of thousands of calls of `decide`.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use flashjob_plan::flashjob::ids::Target;
use flashjob_plan::flashjob::index::Index;
use flashjob_plan::flashjob::instances::{Instance, Instances};
use flashjob_plan::flashjob::ledger::{Ledger, Outcome, Record};
use flashjob_plan::flashjob::locks::{Lock, Locks, Seniority};
use flashjob_plan::flashjob::spec::Spec;
use flashjob_plan::flashjob::{
    Job, Kind, LedgerPlan, LedgerState, NewObject, Plan, Settings, decide,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::facts::Known;
use crate::state::{self, Id, SharedBoard, WorldState};
use crate::view::view;

/// The board that both jobs have.
pub const SHARED: &str = "at-b";
/// One who is older than every job and so sees who holds a board, whoever wants it.
const WITNESS: &str = "witness";

/// What one reconcile leads to.
#[derive(Clone, Default, PartialEq)]
pub struct Reconciled {
    /// The ledger it asks for.
    pub ledger: Option<Id>,
    pub make_services: Vec<u8>,
    pub make_pods: Vec<(u8, u8)>,
    pub end_services: Vec<u8>,
    pub end_pods: Vec<(u8, u8)>,
    pub forget_services: Vec<u8>,
    pub forget_pods: Vec<(u8, u8)>,
    pub list: bool,
    pub holds: bool,
    pub wants: bool,
    pub holder: Option<u8>,
    pub finished: bool,
    pub again: Option<u16>,
}

pub struct Operator {
    pub jobs: Vec<Job>,
    pub ledgers: Vec<Ledger>,
    ids: HashMap<BTreeMap<String, String>, Id>,
    instances: Instances,
    steps: HashMap<u64, Rc<Reconciled>>,
}

impl Operator {
    /// Jobs for these devices with this spec, the older first, each in a namespace of its own.
    pub fn new(jobs: &[(&[&str], Value)]) -> Operator {
        let mut operator = Operator {
            jobs: Vec::new(),
            ledgers: Vec::new(),
            ids: HashMap::new(),
            instances: Instances::default(),
            steps: HashMap::new(),
        };
        for (number, (devices, more)) in jobs.iter().enumerate() {
            let written: Vec<String> = devices.iter().map(|d| format!("ns/{d}")).collect();
            let mut spec = json!({
                "uuid": written, "firmware": "f:1", "version": "1", "flashjobPodImage": "image",
            });
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let name = ["old", "new"][number];
            operator.jobs.push(Job {
                namespace: format!("ns-{name}"),
                name: name.into(),
                uid: name.into(),
                created: at(number as u16),
                generation: 1,
                deleting: false,
                finalizer: true,
                ledger: Some("ledger".into()),
                spec: Spec::read(&spec, &Settings::default()),
            });
            for device in *devices {
                operator.instances.insert(Instance {
                    uid: format!("uid-{device}"),
                    namespace: "ns".into(),
                    name: (*device).into(),
                    endpoint: format!("at-{device}").into(),
                    ..Instance::default()
                });
            }
        }
        operator
    }

    /// The ledger a job begins with.
    pub fn begin(&mut self, job: usize) -> Id {
        let mut fresh = self.jobs[job].clone();
        fresh.ledger = None;
        let (children, locks) = (HashMap::new(), Locks::default());
        let view = view(&fresh, LedgerState::Absent, &self.instances, &children, &locks, true);
        match decide(&view, at(0)).ledger {
            LedgerPlan::Create(ledger) => self.id(ledger),
            other => panic!("a new job gets a ledger, not {other:?}"),
        }
    }

    /// Whether an open attempt in this ledger is for the shared board.
    pub fn locks_shared(&self, id: Id) -> bool {
        self.ledger(id).records.iter().any(|r| r.is_open() && is_shared(r))
    }

    pub fn ledger(&self, id: Id) -> &Ledger {
        &self.ledgers[id as usize]
    }

    fn id(&mut self, ledger: Ledger) -> Id {
        let data = ledger.shard_data(0);
        if let Some(id) = self.ids.get(&data) {
            return *id;
        }
        // What a new process reads is what this one knows.
        assert_eq!(Ledger::read(&ledger.header.job_uid, [&data]).as_ref(), Ok(&ledger));
        let id = Id::try_from(self.ledgers.len()).unwrap();
        self.ids.insert(data, id);
        self.ledgers.push(ledger);
        id
    }

    /// What a reconcile of this job leads to now.
    pub fn reconcile(&mut self, state: &WorldState, job: usize) -> Rc<Reconciled> {
        let board = self.board(state);
        self.reconcile_with(state, job, &board)
    }

    /// The same, were this known of the shared board.
    pub fn reconcile_with(
        &mut self,
        state: &WorldState,
        job: usize,
        board: &SharedBoard,
    ) -> Rc<Reconciled> {
        let key = key(state, job, board);
        if let Some(step) = self.steps.get(&key) {
            return step.clone();
        }
        let index = self.index(state, job);
        let mut locks = self.locks(state, job, board);
        let mine = &state.jobs[job];
        let ledger = LedgerState::Sealed(self.ledger(mine.known));
        let facts = &self.jobs[job];
        let children = index.children(&facts.uid);
        let view = view(facts, ledger, &self.instances, children, &locks, mine.recovered);
        let plan = decide(&view, at(state.now));
        let mut step = Reconciled { holds: mine.holds, wants: mine.wants, ..Reconciled::default() };
        if let Some(held) = plan.held_locks.clone() {
            step.holds = held.contains(&shared());
            locks.hold(&facts.uid, held);
        }
        step.wants = plan.wanted_locks.contains(&shared());
        locks.want(&facts.uid, plan.wanted_locks.clone());
        step.holder = self.holder(&locks);
        self.read(plan, mine.known, &mut step);
        let step = Rc::new(step);
        self.steps.insert(key, step.clone());
        step
    }

    fn read(&mut self, plan: Plan, known: Id, step: &mut Reconciled) {
        let ledger = self.ledger(known).clone();
        let device = |target: &Target| {
            let place = ledger.records.iter().position(|r| &r.target == target);
            u8::try_from(place.expect("a device of this job")).unwrap()
        };
        let number = |attempt: u32| u8::try_from(attempt).unwrap();
        for object in &plan.creates {
            match object {
                NewObject::Service { target, .. } => step.make_services.push(device(target)),
                NewObject::Pod { target, attempt, .. } => {
                    step.make_pods.push((device(target), number(*attempt)));
                }
            }
        }
        for deletion in &plan.deletes {
            match deletion.kind {
                Kind::Service => step.end_services.push(device(&deletion.target)),
                Kind::Pod(attempt) => {
                    step.end_pods.push((device(&deletion.target), number(attempt)));
                }
            }
        }
        for (target, kind) in &plan.forget {
            match kind {
                Kind::Service => step.forget_services.push(device(target)),
                Kind::Pod(attempt) => step.forget_pods.push((device(target), number(*attempt))),
            }
        }
        // The index of children has no order.
        step.end_services.sort_unstable();
        step.end_pods.sort_unstable();
        step.forget_services.sort_unstable();
        step.forget_pods.sort_unstable();
        step.list = plan.list_pods;
        step.finished = plan.finished;
        step.again = plan.next_reconcile.map(|t| u16::try_from(t.as_second()).unwrap());
        step.ledger = match plan.ledger {
            LedgerPlan::Keep => None,
            LedgerPlan::Update(change) => {
                let mut data = ledger.shard_data(0);
                for (key, value) in ledger.patch(0, &change) {
                    match value {
                        Some(value) => drop(data.insert(key, value)),
                        None => drop(data.remove(&key)),
                    }
                }
                let mut next = ledger.clone();
                next.apply(0, &change);
                assert_eq!(data, next.shard_data(0), "what is written is what is meant");
                Some(self.id(next))
            }
            other => panic!("a job under way keeps its ledger: {other:?}"),
        };
    }

    /// What is known of the shared board.
    pub fn board(&self, state: &WorldState) -> SharedBoard {
        let flashed = |job: &state::Job| {
            let records = &self.ledger(job.known).records;
            let shared = records.iter().find(|r| is_shared(r))?;
            let done = shared.outcome() == Some(Outcome::Succeeded);
            let at = shared.ended().and_then(|ended| ended.at).filter(|_| done);
            at.and_then(|at| u16::try_from(at.as_second()).ok())
        };
        SharedBoard {
            holder: state.holder,
            holds: state.jobs.iter().map(|job| job.holds).collect(),
            wants: state.jobs.iter().map(|job| job.wants).collect(),
            flashed: state.jobs.iter().map(flashed).collect(),
        }
    }

    fn locks(&self, state: &WorldState, mine: usize, board: &SharedBoard) -> Locks {
        let mut locks = Locks::default();
        let witness = Seniority { created: at(0), ..Seniority::default() };
        locks.introduce(&WITNESS.into(), witness);
        for (number, facts) in self.jobs.iter().enumerate() {
            let (namespace, name) = (facts.namespace.clone(), facts.name.clone());
            locks.introduce(&facts.uid, Seniority { created: facts.created, namespace, name });
            locks.know(&facts.uid, &SHARED.into());
            if let Some(second) = board.flashed[number] {
                locks.flashed(&facts.uid, &SHARED.into(), at(second));
            }
        }
        for record in &self.ledger(state.jobs[mine].known).records {
            locks.learn(&self.jobs[mine].uid, record);
        }
        if let Some(holder) = board.holder {
            locks.hold(&self.jobs[holder as usize].uid, vec![shared()]);
        }
        for (number, facts) in self.jobs.iter().enumerate() {
            if board.holds[number] && board.holder.is_some() {
                locks.hold(&facts.uid, vec![shared()]);
            }
            if board.wants[number] {
                locks.want(&facts.uid, vec![shared()]);
            }
        }
        locks
    }

    fn holder(&self, locks: &Locks) -> Option<u8> {
        let path = locks.in_the_way(&WITNESS.into(), &shared(), |_| true)?;
        let place = self.jobs.iter().position(|j| format!("{}/{}", j.namespace, j.name) == path);
        place.and_then(|place| u8::try_from(place).ok())
    }

    /// What the operator knows of a job's objects.
    fn index(&self, state: &WorldState, job: usize) -> Index {
        let (mut index, facts, mine) = (Index::default(), &self.jobs[job], &state.jobs[job]);
        let spec_hash = &facts.spec.as_ref().unwrap().access.spec_hash;
        for (device, record) in mine.devices.iter().zip(&self.ledger(mine.known).records) {
            Known::of(&mut index, facts, record).tell(device, spec_hash);
        }
        index
    }
}

/// The lock on it.
fn shared() -> Lock<'static> {
    Lock::board(&SHARED.into()).into_owned()
}

/// Whether this is the device that both jobs have.
pub fn is_shared(record: &Record) -> bool {
    record.pinned.as_ref().is_some_and(|pinned| pinned.endpoint.as_str() == SHARED)
}

/// Everything a reconcile of this job depends on.
fn key(state: &WorldState, job: usize, board: &SharedBoard) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mine = &state.jobs[job];
    (job, state.now, mine.known, mine.recovered, board).hash(&mut hasher);
    for device in &mine.devices {
        device.service.hash(&mut hasher);
        for pod in &device.pods {
            (pod.attempt, pod.seen, pod.gone, pod.busy()).hash(&mut hasher);
        }
        u8::MAX.hash(&mut hasher);
    }
    hasher.finish()
}

pub fn at(second: u16) -> Timestamp {
    Timestamp::from_second(second.into()).unwrap()
}
