//! What holds whatever happens: random worlds with crashes, lost and late writes, boards that come and go.

use flashjob_plan::flashjob::{Job, NewObject};
use proptest::prelude::*;
use serde_json::json;

use crate::reasons;
use crate::world::{World, ended, is_running, started};

const DEVICES: [&str; 4] = ["a", "b", "c", "d"];

/// Something that happens.
#[derive(Clone, Debug)]
enum Event {
    /// The operator reconciles, and everything is done.
    Reconcile,
    /// It is killed after the ledger was written; what it wanted to make is still on its way.
    CrashAfterLedger,
    /// It is killed after everything but the ledger was written.
    CrashBeforeLedger,
    /// It is killed before anything was written.
    Crash,
    /// What was on its way arrives after all.
    Late,
    /// A kubelet starts what it may.
    Start,
    /// A container ends.
    End { which: usize, well: bool },
    /// Pods whose end was asked for are gone.
    LetGo,
    /// Somebody deletes a Pod.
    Vanish(usize),
    /// Akri loses a board.
    Lose(usize),
    /// Akri finds all boards.
    Find,
    /// Time passes.
    Wait(i64),
    /// A person holds the job, or lets it go on.
    Suspend(bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => Just(Event::Reconcile),
        1 => Just(Event::CrashAfterLedger),
        1 => Just(Event::CrashBeforeLedger),
        1 => Just(Event::Crash),
        2 => Just(Event::LetGo),
        1 => Just(Event::Late),
        4 => Just(Event::Start),
        4 => (0..4usize, any::<bool>()).prop_map(|(which, well)| Event::End { which, well }),
        1 => (0..4usize).prop_map(Event::Vanish),
        1 => (0..4usize).prop_map(Event::Lose),
        2 => Just(Event::Find),
        2 => (1..400i64).prop_map(Event::Wait),
        1 => any::<bool>().prop_map(Event::Suspend),
    ]
}

struct Run {
    world: World,
    parallel: usize,
    on_their_way: Vec<NewObject>,
    /// Container starts by device, and how many there were when success was written down.
    starts: [usize; 4],
    done_at: [Option<usize>; 4],
}

impl Run {
    fn new(parallel: usize, batch: usize) -> Run {
        let mut world = World::new(&DEVICES, spec(parallel, batch, false));
        world.lingering = true;
        Run { world, parallel, on_their_way: Vec::new(), starts: [0; 4], done_at: [None; 4] }
    }

    fn happen(&mut self, event: &Event, batch: usize) {
        let world = &mut self.world;
        match event {
            Event::Reconcile => drop(world.step()),
            Event::CrashAfterLedger => {
                let plan = world.decide();
                world.write_ledger(&plan);
                self.on_their_way.extend(plan.creates);
                self.restart();
            }
            Event::CrashBeforeLedger => {
                let plan = world.decide();
                world.clean_up(&plan);
                self.on_their_way.extend(plan.creates);
                self.restart();
            }
            Event::Crash => self.restart(),
            Event::LetGo => world.let_go(),
            Event::Late => {
                for object in std::mem::take(&mut self.on_their_way) {
                    if !self.world.is_there(&object) {
                        self.world.arrive(object);
                    }
                }
            }
            Event::Start => self.start(),
            Event::End { which, well } => {
                let mut running = world.pods().into_iter().filter(|(.., pod)| is_running(pod));
                if let Some((target, attempt, pod)) = running.nth(*which) {
                    world.see_pod(target, attempt, ended(pod, i32::from(!well), ""));
                }
            }
            Event::Vanish(which) => world.vanish(*which),
            Event::Lose(which) => world.instances.remove("ns", DEVICES[*which]),
            Event::Find => DEVICES.iter().for_each(|d| world.discover(d)),
            Event::Wait(seconds) => world.after(*seconds),
            Event::Suspend(held) => world.edit(&DEVICES, spec(self.parallel, batch, *held)),
        }
        self.check();
    }

    /// A new process: what the old one knew of writes under way is gone, and open attempts have to be recovered.
    fn restart(&mut self) {
        let open = self.world.ledger.as_ref().is_some_and(|l| l.has_open_attempts());
        self.world.recovered = !open;
    }

    /// A kubelet starts a container exactly if its permit is in the ledger.
    fn start(&mut self) {
        let Some(ledger) = self.world.ledger.clone() else { return };
        for (target, attempt, pod) in self.world.pods() {
            let device = ledger
                .records
                .iter()
                .position(|r| r.target == target && r.has_permit() && r.attempt == attempt);
            let Some(device) = device.filter(|_| !pod.started()) else { continue };
            self.world.see_pod(target, attempt, started(pod));
            self.starts[device] += 1;
        }
    }

    fn check(&mut self) {
        let running: Vec<String> = self
            .world
            .pods()
            .iter()
            .filter(|(.., pod)| is_running(pod))
            .map(|(target, ..)| target.to_string())
            .collect();
        assert!(running.len() <= self.parallel, "{running:?} at once");
        let mut once = running.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), running.len(), "two containers at work on one board");
        let Some(ledger) = &self.world.ledger else { return };
        for (device, record) in ledger.records.iter().enumerate() {
            if record.outcome().is_some() {
                let starts = *self.done_at[device].get_or_insert(self.starts[device]);
                assert_eq!(starts, self.starts[device], "{} was flashed again", record.device);
            }
        }
        reasons(&self.world.decide());
    }

    /// The world answers from now on: the job ends.
    fn end_well(&mut self, batch: usize) {
        self.happen(&Event::Suspend(false), batch);
        for _ in 0..200 {
            self.happen(&Event::Find, batch);
            self.happen(&Event::Reconcile, batch);
            self.happen(&Event::Start, batch);
            for _ in 0..4 {
                self.happen(&Event::End { which: 0, well: true }, batch);
            }
            self.happen(&Event::LetGo, batch);
            if self.world.decide().finished {
                return;
            }
            self.happen(&Event::Wait(7), batch);
        }
        panic!("the job does not end: {:#?}", self.world.decide());
    }
}

fn spec(parallel: usize, batch: usize, suspend: bool) -> serde_json::Value {
    json!({ "rollout": { "maxParallel": parallel, "batchSize": batch }, "suspend": suspend })
}

/// The same plan whatever the status says: `decide` cannot read it. A [`Job`] is everything that is known of the object,
/// and these are all its parts; a [`flashjob_plan::flashjob::View`] adds the operator's own knowledge, and `view` names its parts. A
/// field that brings the status in does not compile here, and whoever adds one reads this.
#[test]
fn a_plan_cannot_depend_on_the_status() {
    let job = World::new(&["a"], json!({})).job;
    let Job { namespace, name, uid, created, generation, deleting, finalizer, ledger, spec } = job;
    let _ = (namespace, name, uid, created, generation, deleting, finalizer, ledger, spec);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn whatever_happens_no_board_is_flashed_twice_and_the_job_ends(
        parallel in 1..4usize,
        batch in 1..5usize,
        events in prop::collection::vec(event(), 0..120),
    ) {
        let mut run = Run::new(parallel, batch);
        for event in &events {
            run.happen(event, batch);
        }
        run.end_well(batch);
    }
}
