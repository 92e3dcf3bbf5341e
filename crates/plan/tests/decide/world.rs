//! A world for `decide`: it does what a plan asks for, at once and without fault, unless a test says otherwise. What the
//! operator knows of its objects is in the same [`Index`] that it has in a cluster.

use std::collections::HashMap;

use flashjob_plan::flashjob::addresses::Addresses;
use flashjob_plan::flashjob::facts::Children;
use flashjob_plan::flashjob::ids::Target;
use flashjob_plan::flashjob::index::Index;
use flashjob_plan::flashjob::instances::{Instance, Instances};
use flashjob_plan::flashjob::ledger::{Ledger, Record};
use flashjob_plan::flashjob::locks::{Locks, Seniority};
use flashjob_plan::flashjob::spec::Spec;
use flashjob_plan::flashjob::{Job, Kind, LedgerPlan, LedgerState, Plan, Settings, View, decide};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::view::view;

mod objects;
pub use objects::{ended, is_running, started};

pub struct World {
    pub job: Job,
    pub ledger: Option<Ledger>,
    pub instances: Instances,
    pub index: Index,
    pub locks: Locks,
    pub settings: Settings,
    pub first_seen: Timestamp,
    pub recovered: bool,
    pub addresses: bool,
    pub waits: Addresses,
    /// A running Pod that is deleted stays until its container has ended.
    pub lingering: bool,
    pub now: Timestamp,
    version: u64,
}

impl World {
    /// A job for `devices`, which are all there, with `more` in its spec.
    pub fn new(devices: &[&str], more: Value) -> World {
        World::named("ns/job", 0, devices, more)
    }

    /// A job of this namespace and name, created so many seconds after the beginning. Boards are in the namespace `ns`.
    pub fn named(path: &str, created: i64, devices: &[&str], more: Value) -> World {
        let (namespace, name) = path.split_once('/').unwrap();
        let mut world = World {
            job: Job {
                namespace: namespace.into(),
                name: name.into(),
                uid: format!("{name}-uid").into(),
                created: Timestamp::from_second(created).unwrap(),
                generation: 1,
                deleting: false,
                finalizer: false,
                ledger: None,
                spec: Err(flashjob_plan::flashjob::spec::Invalid(String::new())),
            },
            ledger: None,
            instances: Instances::default(),
            index: Index::default(),
            locks: Locks::default(),
            settings: Settings::default(),
            first_seen: Timestamp::MAX,
            recovered: true,
            addresses: true,
            waits: Addresses::default(),
            lingering: false,
            now: Timestamp::UNIX_EPOCH,
            version: 0,
        };
        for device in devices {
            world.discover(device);
        }
        world.introduce(&world.job.uid.clone(), path, created);
        world.edit(devices, more);
        world.job.generation = 1;
        world
    }

    pub fn edit(&mut self, devices: &[&str], more: Value) {
        let mut spec = json!({
            "uuid": devices, "firmware": "f:1", "version": "1", "flashjobPodImage": "image",
        });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.job.spec = Spec::read(&spec, &Settings::default());
        self.job.generation += 1;
    }

    /// Akri finds a board of this name; its address is the name, too.
    pub fn discover(&mut self, name: &str) {
        self.instances.insert(Instance {
            uid: format!("uid-{name}"),
            namespace: "ns".into(),
            name: name.into(),
            endpoint: format!("at-{name}").into(),
            device: "esp32".into(),
            ..Instance::default()
        });
    }

    /// Another job, created so many seconds after the beginning.
    pub fn introduce(&mut self, uid: &str, path: &str, created: i64) {
        let created = Timestamp::from_second(created).unwrap();
        let (namespace, name) = path.split_once('/').unwrap();
        let seniority = Seniority { created, namespace: namespace.into(), name: name.into() };
        self.locks.introduce(&uid.into(), seniority);
    }

    pub fn after(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    /// What the operator knows of the job's objects.
    pub fn children(&self) -> &HashMap<Target, Children> {
        self.index.children(&self.job.uid)
    }

    /// What the operator knows.
    fn view(&self) -> View<'_> {
        let state = self.ledger.as_ref().map_or(LedgerState::Absent, LedgerState::Sealed);
        let view =
            view(&self.job, state, &self.instances, self.children(), &self.locks, self.recovered);
        let (addresses, settings, first_seen) = (&self.waits, &self.settings, self.first_seen);
        View { addresses, settings, first_seen, ..view }
    }

    pub fn decide(&self) -> Plan {
        let view = self.view();
        let plan = decide(&view, self.now);
        // A status that is not due may leave out who waits; what is done for the others is the same.
        let unheard = self.decide_unheard();
        let done = |plan: &Plan| {
            let Plan { creates, deletes, forget, held_locks, wanted_locks, waiting, .. } = plan;
            let mut lists = (deletes.clone(), forget.clone());
            // The index of children has no order.
            lists.0.sort_by(|a, b| a.name.cmp(&b.name));
            lists.1.sort_by_key(|place| format!("{place:?}"));
            format!(
                "{creates:?} {lists:?} {held_locks:?} {wanted_locks:?} {waiting:?} {}",
                plan.finished
            )
        };
        assert_eq!(done(&plan), done(&unheard));
        if plan.idle {
            // What may be parked has nothing to do with the world, and nothing to do in it.
            let (locks, addresses) = (Locks::default(), Addresses::default());
            let alone = View { instances: None, locks: &locks, addresses: &addresses, ..view };
            assert_eq!(format!("{plan:?}"), format!("{:?}", decide(&alone, self.now)));
            // A status that is not due lacks names, and nothing else.
            let mut named = plan.clone();
            if let Some(status) = &mut named.status {
                (status.completed_uuids, status.truncated) = (Vec::new(), false);
            }
            let unnamed = decide(&View { status_due: false, ..alone }, self.now);
            assert_eq!(format!("{named:?}"), format!("{unnamed:?}"));
            let Plan { ledger, creates, deletes, forget, waiting, .. } = &plan;
            let written = creates.len() + deletes.len() + forget.len() + plan.wanted_locks.len();
            assert!(*ledger == LedgerPlan::Keep && written == 0 && waiting.is_none(), "{plan:#?}");
            assert!(
                plan.held_locks.iter().all(Vec::is_empty) && plan.add_finalizer.is_none(),
                "{plan:#?}"
            );
            assert!(
                !plan.list_pods && !plan.remove_finalizer && plan.status.is_some(),
                "{plan:#?}"
            );
        }
        plan
    }

    /// A reconcile whose status nobody will see.
    pub fn decide_unheard(&self) -> Plan {
        decide(&View { status_due: false, ..self.view() }, self.now)
    }

    /// One reconcile, and everything it asks for is done.
    pub fn step(&mut self) -> Plan {
        let plan = self.decide();
        self.carry_out(&plan);
        plan
    }

    /// Everything a plan asks for is done.
    pub fn carry_out(&mut self, plan: &Plan) {
        self.write_ledger(plan);
        if let Some(name) = plan.add_finalizer.clone() {
            self.job.finalizer = true;
            self.job.ledger = Some(name);
        }
        self.job.finalizer &= !plan.remove_finalizer;
        if let Some(held) = plan.held_locks.clone() {
            self.locks.hold(&self.job.uid, held);
        }
        self.locks.want(&self.job.uid, plan.wanted_locks.clone());
        self.waits.wait(&self.job.uid, plan.waiting.clone(), self.now);
        self.recovered |= plan.list_pods;
        for object in plan.creates.clone() {
            self.create(object);
        }
        self.clean_up(plan);
    }

    /// Only the ledger is written: what comes after a crash in the middle.
    pub fn write_ledger(&mut self, plan: &Plan) {
        match plan.ledger.clone() {
            LedgerPlan::Keep | LedgerPlan::Clear(_) => {}
            LedgerPlan::Create(ledger) => self.ledger = Some(ledger),
            LedgerPlan::Update(change) => {
                let ledger = self.ledger.as_mut().unwrap();
                for shard in change.shards() {
                    ledger.apply(shard, &change);
                }
            }
        }
        for record in self.ledger.iter().flat_map(|ledger| &ledger.records) {
            self.locks.learn(&self.job.uid, record);
        }
    }

    /// What a plan wants gone is gone.
    pub fn clean_up(&mut self, plan: &Plan) {
        let uid = self.job.uid.clone();
        for deletion in plan.deletes.clone() {
            let (target, kind) = (deletion.target, deletion.kind);
            self.index.deleting(&uid, target, kind, &deletion.uid);
            self.index.set_busy(&uid, target, kind, false);
            self.index.delete_acknowledged(&uid, target, kind, &deletion.uid, self.now);
            match kind {
                Kind::Service => self.lose_service(target),
                Kind::Pod(attempt) => {
                    let pod = self.children()[&target].pods[&attempt].here().unwrap();
                    if !(self.lingering && is_running(pod)) {
                        self.lose_pod(target, attempt);
                    }
                }
            }
        }
        for (target, kind) in plan.forget.clone() {
            self.index.forget(&uid, target, kind);
        }
    }

    /// Reconciles until nothing changes any more.
    pub fn settle(&mut self) -> Plan {
        for _ in 0..20 {
            let plan = self.step();
            let quiet = plan.ledger == LedgerPlan::Keep
                && plan.creates.is_empty()
                && plan.deletes.is_empty()
                && plan.forget.is_empty()
                && plan.add_finalizer.is_none()
                && !plan.list_pods;
            if quiet {
                return plan;
            }
        }
        panic!("it does not come to rest: {:#?}", self.decide());
    }

    pub fn record(&self, device: &str) -> &Record {
        self.ledger.as_ref().unwrap().records.iter().find(|r| r.device == device).unwrap()
    }
}
