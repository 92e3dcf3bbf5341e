//! What holds for two jobs in two namespaces that share boards, whatever happens.

use flashjob_plan::flashjob::facts::Container;
use flashjob_plan::flashjob::ledger::{Outcome, Record};
use flashjob_plan::flashjob::locks::Locks;
use flashjob_plan::flashjob::{NewObject, Plan, locks_held};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::reasons;
use crate::world::{World, ended, is_running, started};

/// The boards of the older job and of the newer one.
const DEVICES: [[&str; 2]; 2] = [["ns/a", "ns/b"], ["ns/b", "ns/c"]];

/// Something that happens, to one of the jobs where it has a number.
#[derive(Clone, Debug)]
enum Event {
    Reconcile(usize),
    /// The operator is killed after it wrote this job's ledger; what it wanted to make is still on its way.
    Crash(usize),
    /// What was on its way arrives after all.
    Late(usize),
    /// Kubelets start what they may.
    Start,
    End(usize, bool),
    /// Pods whose end was asked for are gone.
    LetGo,
    Vanish(usize, usize),
    Wait(i64),
    Suspend(usize, bool),
}

fn event() -> impl Strategy<Value = Event> {
    let job = 0..2usize;
    prop_oneof![
        12 => job.clone().prop_map(Event::Reconcile),
        2 => job.clone().prop_map(Event::Crash),
        1 => job.clone().prop_map(Event::Late),
        5 => Just(Event::Start),
        5 => (job.clone(), any::<bool>()).prop_map(|(job, well)| Event::End(job, well)),
        2 => Just(Event::LetGo),
        1 => (job.clone(), 0..2usize).prop_map(|(job, which)| Event::Vanish(job, which)),
        2 => (1..400i64).prop_map(Event::Wait),
        1 => (job, any::<bool>()).prop_map(|(job, held)| Event::Suspend(job, held)),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    parallel: usize,
    batch: usize,
    budget: usize,
}

impl Shape {
    fn spec(self, suspend: bool) -> Value {
        json!({
            "rollout": {
                "maxParallel": self.parallel, "batchSize": self.batch, "maxFailures": self.budget,
            },
            "retry": { "limit": 1 },
            "suspend": suspend,
        })
    }
}

struct Pair {
    jobs: [World; 2],
    locks: Locks,
    shape: Shape,
    on_their_way: [Vec<NewObject>; 2],
}

impl Pair {
    fn new(shape: Shape) -> Pair {
        let job = |path, number: usize| {
            let mut world = World::named(path, number as i64, &DEVICES[number], shape.spec(false));
            world.lingering = true;
            for device in DEVICES.as_flattened() {
                world.discover(device.trim_start_matches("ns/"));
            }
            world
        };
        let jobs = [job("site/old", 0), job("lab/new", 1)];
        let mut pair =
            Pair { jobs, locks: Locks::default(), shape, on_their_way: [vec![], vec![]] };
        pair.restart();
        pair
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Reconcile(job) => {
                let plan = self.decide(*job);
                self.lend(*job, |world| world.carry_out(&plan));
            }
            Event::Crash(job) => {
                let plan = self.decide(*job);
                self.lend(*job, |world| world.write_ledger(&plan));
                self.on_their_way[*job].extend(plan.creates);
                self.restart();
            }
            Event::Late(job) => {
                for object in std::mem::take(&mut self.on_their_way[*job]) {
                    if !self.jobs[*job].is_there(&object) {
                        self.jobs[*job].arrive(object);
                    }
                }
            }
            Event::Start => self.jobs.iter_mut().for_each(start),
            Event::End(job, well) => {
                let world = &mut self.jobs[*job];
                let running = world.pods().into_iter().find(|(.., pod)| is_running(pod));
                if let Some((target, attempt, pod)) = running {
                    world.see_pod(target, attempt, ended(pod, i32::from(!well), ""));
                }
            }
            Event::LetGo => self.jobs.iter_mut().for_each(World::let_go),
            Event::Vanish(job, which) => self.jobs[*job].vanish(*which),
            Event::Wait(seconds) => self.jobs.iter_mut().for_each(|world| world.after(*seconds)),
            Event::Suspend(job, held) => {
                self.jobs[*job].edit(&DEVICES[*job], self.shape.spec(*held));
            }
        }
        self.no_board_has_two_pods();
    }

    /// A new process: open attempts hold their boards and have to be recovered, then what has objects; all else is
    /// forgotten.
    fn restart(&mut self) {
        self.locks = Locks::default();
        for world in &mut self.jobs {
            let uid = world.job.uid.clone();
            let seniority = world.locks.seniority(&uid).cloned();
            self.locks.introduce(&uid, seniority.unwrap_or_default());
            let records = world.ledger.iter().flat_map(|ledger| &ledger.records);
            let open = records.clone().filter(|r| r.is_open()).filter_map(Record::lock);
            self.locks.hold(&uid, open.collect());
            records.clone().for_each(|record| self.locks.learn(&uid, record));
            world.recovered = !records.clone().any(|r| r.is_open());
        }
        for world in &self.jobs {
            let held = locks_held(world.ledger.as_ref(), world.children(), world.now);
            self.locks.hold(&world.job.uid, held);
        }
    }

    /// The locks are the same for all jobs.
    fn lend<T>(&mut self, job: usize, act: impl FnOnce(&mut World) -> T) -> T {
        let own = std::mem::replace(&mut self.jobs[job].locks, self.locks.clone());
        let done = act(&mut self.jobs[job]);
        self.locks = std::mem::replace(&mut self.jobs[job].locks, own);
        done
    }

    fn decide(&mut self, job: usize) -> Plan {
        let plan = self.lend(job, |world| world.decide());
        reasons(&plan);
        self.the_budget_is_kept(job, &plan);
        plan
    }

    /// Final failures and devices that are tried again leave room for every first attempt that begins.
    fn the_budget_is_kept(&self, job: usize, plan: &Plan) {
        let world = &self.jobs[job];
        let records = world.ledger.iter().flat_map(|ledger| &ledger.records);
        let failed = records.clone().filter(|r| r.outcome() == Some(Outcome::Failed)).count();
        let again = records.clone().filter(|r| r.outcome().is_none() && r.tries() > 0).count();
        let seen = records.clone().filter(|r| r.tries() == 0 && has_failed(world, r)).count();
        for object in &plan.creates {
            let NewObject::Pod { target, .. } = object else { continue };
            let first = records.clone().any(|r| &r.target == target && r.tries() == 0);
            assert!(failed <= self.shape.budget, "a Pod although {failed} failed");
            assert!(
                !first || failed + again + seen <= self.shape.budget,
                "a first attempt beside {failed} failed, {again} tried again, {seen} seen to fail"
            );
        }
    }

    fn no_board_has_two_pods(&self) {
        let mut boards: Vec<String> = Vec::new();
        for world in &self.jobs {
            let at_work = world.pods().into_iter().filter(|(.., pod)| is_running(pod));
            let at_work: Vec<String> = at_work.map(|(.., pod)| pod.endpoint.to_string()).collect();
            assert!(at_work.len() <= self.shape.parallel, "{at_work:?} at once");
            boards.extend(at_work);
        }
        boards.sort();
        assert!(boards.windows(2).all(|two| two[0] != two[1]), "two Pods for one of {boards:?}");
    }

    /// The world answers from now on: both jobs end.
    fn end(&mut self) {
        for job in [0, 1] {
            self.happen(&Event::Suspend(job, false));
        }
        for _ in 0..300 {
            for event in [
                Event::Reconcile(0),
                Event::Reconcile(1),
                Event::Start,
                Event::End(0, true),
                Event::End(1, true),
                Event::LetGo,
                Event::Wait(7),
            ] {
                self.happen(&event);
            }
            if [0, 1].iter().all(|job| self.decide(*job).finished) {
                return;
            }
        }
        panic!("they do not end: {:#?}", [self.decide(0).status, self.decide(1).status]);
    }
}

/// A kubelet starts a container exactly if its permit is in the ledger.
fn start(world: &mut World) {
    let Some(ledger) = world.ledger.clone() else { return };
    for (target, attempt, pod) in world.pods() {
        let permitted = ledger
            .records
            .iter()
            .any(|r| r.target == target && r.has_permit() && r.attempt == attempt);
        if permitted && !pod.started() && pod.deleting.is_none() {
            world.see_pod(target, attempt, started(pod));
        }
    }
}

fn has_failed(world: &World, record: &Record) -> bool {
    let pod = world.children().get(&record.target).and_then(|c| c.pods.get(&record.attempt));
    let ended = pod.and_then(|slot| slot.here()).map(|pod| &pod.container);
    record.is_open() && matches!(ended, Some(Container::Ended { exit_code: 1, .. }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn whatever_happens_two_jobs_share_a_board_in_turn_and_both_end(
        parallel in 1..3usize,
        batch in 1..3usize,
        budget in 0..3usize,
        events in prop::collection::vec(event(), 0..120),
    ) {
        let mut pair = Pair::new(Shape { parallel, batch, budget });
        for event in &events {
            pair.happen(event);
        }
        pair.end();
    }
}
