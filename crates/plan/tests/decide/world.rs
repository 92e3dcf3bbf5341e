//! A world for `decide`: it does what a plan asks for, at once and without fault, unless a test says otherwise.

use std::collections::HashMap;

use flashjob_plan::flashjob::addresses::Addresses;
use flashjob_plan::flashjob::boards::{Boards, Seniority};
use flashjob_plan::flashjob::facts::{Children, Container, Pod, PodPhase, Service, Slot};
use flashjob_plan::flashjob::ids::Target;
use flashjob_plan::flashjob::index;
use flashjob_plan::flashjob::instances::{Instance, Instances};
use flashjob_plan::flashjob::ledger::{Ledger, Record};
use flashjob_plan::flashjob::names;
use flashjob_plan::flashjob::spec::Spec;
use flashjob_plan::flashjob::{
    Job, Kind, LedgerPlan, LedgerState, NewObject, Plan, Settings, View, decide,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::view::view;

pub struct World {
    pub job: Job,
    pub ledger: Option<Ledger>,
    pub instances: Instances,
    pub children: HashMap<Target, Children>,
    pub boards: Boards,
    pub settings: Settings,
    pub first_seen: Timestamp,
    pub settled: bool,
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
            children: HashMap::new(),
            boards: Boards::default(),
            settings: Settings::default(),
            first_seen: Timestamp::MAX,
            settled: true,
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
        self.boards.introduce(&uid.into(), seniority);
    }

    pub fn after(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    /// What the operator knows.
    fn view(&self) -> View<'_> {
        let state = self.ledger.as_ref().map_or(LedgerState::Absent, LedgerState::Sealed);
        let view =
            view(&self.job, state, &self.instances, &self.children, &self.boards, self.settled);
        let (addresses, settings, first_seen) = (&self.waits, &self.settings, self.first_seen);
        View { addresses, settings, first_seen, ..view }
    }

    pub fn decide(&self) -> Plan {
        let view = self.view();
        let plan = decide(&view, self.now);
        // A status that is not due may leave out who waits; what is done for the others is the same.
        let unheard = self.decide_unheard();
        let done = |plan: &Plan| {
            let Plan { creates, deletes, forget, claims, wants, waiting, .. } = plan;
            let mut lists = (deletes.clone(), forget.clone());
            // The index of children has no order.
            lists.0.sort_by(|a, b| a.name.cmp(&b.name));
            lists.1.sort_by_key(|place| format!("{place:?}"));
            format!("{creates:?} {lists:?} {claims:?} {wants:?} {waiting:?} {}", plan.finished)
        };
        assert_eq!(done(&plan), done(&unheard));
        if plan.idle {
            // What may be parked has nothing to do with the world, and nothing to do in it.
            let (boards, addresses) = (Boards::default(), Addresses::default());
            let alone = View { instances: None, boards: &boards, addresses: &addresses, ..view };
            assert_eq!(format!("{plan:?}"), format!("{:?}", decide(&alone, self.now)));
            // A status that is not due lacks names, and nothing else.
            let mut named = plan.clone();
            if let Some(status) = &mut named.status {
                (status.completed_uuids, status.truncated) = (Vec::new(), false);
            }
            let unnamed = decide(&View { status_due: false, ..alone }, self.now);
            assert_eq!(format!("{named:?}"), format!("{unnamed:?}"));
            let Plan { ledger, creates, deletes, forget, claims, wants, waiting, .. } = &plan;
            let written = creates.len() + deletes.len() + forget.len() + wants.len();
            assert!(*ledger == LedgerPlan::Keep && written == 0 && waiting.is_none(), "{plan:#?}");
            assert!(claims.iter().all(Vec::is_empty) && plan.mark.is_none(), "{plan:#?}");
            assert!(!plan.list_pods && !plan.release && plan.status.is_some(), "{plan:#?}");
        }
        plan
    }

    /// A look whose status nobody will see.
    pub fn decide_unheard(&self) -> Plan {
        decide(&View { status_due: false, ..self.view() }, self.now)
    }

    /// One look, and everything it asks for is done.
    pub fn step(&mut self) -> Plan {
        let plan = self.decide();
        self.carry_out(&plan);
        plan
    }

    /// Everything a plan asks for is done.
    pub fn carry_out(&mut self, plan: &Plan) {
        self.write_ledger(plan);
        if let Some(name) = plan.mark.clone() {
            self.job.finalizer = true;
            self.job.ledger = Some(name);
        }
        self.job.finalizer &= !plan.release;
        if let Some(claims) = plan.claims.clone() {
            self.boards.hold(&self.job.uid, claims);
        }
        self.boards.want(&self.job.uid, plan.wants.clone());
        self.waits.wait(&self.job.uid, plan.waiting.clone(), self.now);
        self.settled |= plan.list_pods;
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
            self.boards.learn(&self.job.uid, record);
        }
    }

    /// What a plan wants gone is gone.
    pub fn clean_up(&mut self, plan: &Plan) {
        for deletion in plan.deletes.clone() {
            let children = self.children.get_mut(&deletion.target).unwrap();
            match deletion.kind {
                Kind::Service => {
                    children.service.gone = true;
                    let pool = &children.service.seen.as_ref().unwrap().pool;
                    self.waits.given_back(&self.job.namespace, pool, self.now);
                }
                Kind::Pod(attempt) => {
                    let slot = children.pods.get_mut(&attempt).unwrap();
                    let pod = slot.seen.as_mut().unwrap();
                    if self.lingering && matches!(pod.container, Container::Running(_)) {
                        pod.deleting = Some(self.now)
                    } else {
                        slot.gone = true
                    }
                }
            }
        }
        for (target, kind) in plan.forget.clone() {
            index::forget(&mut self.children, target, kind);
        }
    }

    /// Looks until nothing changes any more.
    pub fn settle(&mut self) -> Plan {
        for _ in 0..20 {
            let plan = self.step();
            let quiet = plan.ledger == LedgerPlan::Keep
                && plan.creates.is_empty()
                && plan.deletes.is_empty()
                && plan.forget.is_empty()
                && plan.mark.is_none()
                && !plan.list_pods;
            if quiet {
                return plan;
            }
        }
        panic!("it does not come to rest: {:#?}", self.decide());
    }

    /// An object is made, as a plan asks for it: never a Pod beside another that is at work.
    pub fn create(&mut self, object: NewObject) {
        if let NewObject::Pod { target, .. } = &object {
            let now = self.now;
            let pods = self.children.get(target).into_iter().flat_map(|c| c.pods.values());
            let mut at_work =
                pods.filter_map(|slot| slot.here()).filter(|p| p.started() && !p.over(now));
            assert!(at_work.next().is_none(), "two Pods for one target");
        }
        self.create_beside(object);
    }

    fn create_beside(&mut self, object: NewObject) {
        self.version += 1;
        let (version, created) = (self.version, self.now);
        match object {
            NewObject::Service { target, object } => {
                let name = object.metadata.name.unwrap();
                let address = self.addresses.then(|| format!("address-of-{name}"));
                let uid = format!("uid-{version}");
                let labels = object.metadata.labels.unwrap();
                let (shape, pool) = (labels[names::SHAPE].clone(), labels[names::POOL].clone());
                let node_port = object.spec.unwrap().type_.as_deref() == Some("NodePort");
                let address = address.filter(|_| !node_port);
                let facts = Service {
                    version,
                    name,
                    uid,
                    first_seen: created,
                    address,
                    shape,
                    pool,
                    node_port,
                    ..Service::default()
                };
                self.children.entry(target).or_default().service.see(facts);
            }
            NewObject::Pod { target, attempt, object, .. } => {
                let facts = Pod {
                    version,
                    name: object.metadata.name.clone().unwrap(),
                    uid: format!("uid-{version}"),
                    endpoint: env(&object, "HOST_ENDPOINT").into(),
                    first_seen: created,
                    deleting: None,
                    phase: PodPhase::Pending,
                    container: Container::Waiting(None),
                    reason: None,
                    note: None,
                    terminal_since: None,
                };
                let children = self.children.entry(target).or_default();
                children.pods.entry(attempt).or_default().see(facts);
            }
        }
    }

    /// The same, whatever else is there: a write that was on its way for long.
    pub fn arrive(&mut self, object: NewObject) {
        self.create_beside(object);
    }

    /// Whether something has this object's name already.
    pub fn is_there(&self, object: &NewObject) -> bool {
        let (NewObject::Service { target, .. } | NewObject::Pod { target, .. }) = object;
        self.children.get(target).is_some_and(|children| match object {
            NewObject::Service { .. } => children.service.here().is_some(),
            NewObject::Pod { attempt, .. } => children.pods.contains_key(attempt),
        })
    }

    /// Every Pod that is there, with its target and attempt.
    pub fn pods_mut(&mut self) -> impl Iterator<Item = (Target, u32, &mut Pod)> {
        self.children.iter_mut().flat_map(|(target, children)| {
            let there = children.pods.iter_mut().filter(|(_, slot)| !slot.gone);
            there.filter_map(move |(attempt, slot)| Some((*target, *attempt, slot.seen.as_mut()?)))
        })
    }

    /// Pods whose end was asked for are gone.
    pub fn let_go(&mut self) {
        let slots = self.children.values_mut().flat_map(|c| c.pods.values_mut());
        for slot in slots {
            slot.gone |= slot.seen.as_ref().is_some_and(|pod| pod.deleting.is_some());
        }
    }

    /// Somebody deletes a Pod.
    pub fn vanish(&mut self, which: usize) {
        let slots = self.children.values_mut().flat_map(|c| c.pods.values_mut());
        if let Some(slot) = slots.filter(|s| s.here().is_some()).nth(which) {
            slot.gone = true;
        }
    }

    pub fn record(&self, device: &str) -> &Record {
        self.ledger.as_ref().unwrap().records.iter().find(|r| r.device == device).unwrap()
    }

    /// The Pod of a device's open attempt.
    pub fn pod(&mut self, device: &str) -> &mut Slot<Pod> {
        let record = self.record(device);
        let (target, attempt) = (record.target, record.attempt);
        self.children.get_mut(&target).unwrap().pods.get_mut(&attempt).unwrap()
    }

    /// The load balancer gives a device's Service an address.
    pub fn gets_address(&mut self, device: &str) {
        let target = self.record(device).target;
        let service = self.children.get_mut(&target).unwrap().service.seen.as_mut().unwrap();
        service.address = Some(format!("address-of-{}", service.name));
        let pool = service.pool.clone();
        self.waits.given(&self.job.namespace, &pool, self.now);
    }

    /// The flash container of a device runs.
    pub fn runs(&mut self, device: &str) {
        let now = self.now;
        let pod = self.pod(device).seen.as_mut().unwrap();
        pod.phase = PodPhase::Running;
        pod.container = Container::Running(Some(now));
    }

    /// The flash container of a device ends.
    pub fn ends(&mut self, device: &str, exit_code: i32, message: &str) {
        let now = self.now;
        let pod = self.pod(device).seen.as_mut().unwrap();
        pod.phase = if exit_code == 0 { PodPhase::Succeeded } else { PodPhase::Failed };
        pod.terminal_since = Some(now);
        let message = Some(message.to_owned());
        pod.container = Container::Ended { exit_code, reason: None, message, at: Some(now) };
    }
}

fn env(pod: &k8s_openapi::api::core::v1::Pod, name: &str) -> String {
    let env = pod.spec.as_ref().unwrap().containers[0].env.as_ref().unwrap();
    env.iter().find(|e| e.name == name).unwrap().value.clone().unwrap()
}
