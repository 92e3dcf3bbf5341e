//! Faults of the network between an operator and its API server, all of them from one seed: writes that get lost, or lose
//! their answer, or are refused; lists of the past; watches that lag, break off, or leave something out. Then they are over.
//!
//! What happens to a call or an event depends on the seed and on what it is (the third create of a Pod), not on when it
//! comes or on names that are new each time, so that a seed means nearly the same trouble whenever it is played.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::Result;
use flashjob_sim::cluster::{Call, CallFate, Cluster, Event, EventFate, Gate};
use flashjob_sim::{SeededRng, lock};
use serde_json::json;
use tokio::time::sleep;

const GONE: u16 = 410;

/// How often something happens, in a thousand, and how bad the rest is.
struct Odds {
    over_after: Duration,
    lost_writes: usize,
    lost_answers: usize,
    refused_writes: usize,
    /// They arrive all the same, maybe when whoever sent them is dead.
    late_writes: usize,
    hangs: usize,
    failed_reads: usize,
    old_lists: usize,
    lagging: usize,
    lost_events: usize,
    gone: usize,
    cut: usize,
    /// The watch of this kind stands still for this long with each event.
    slow_kind: Option<(&'static str, Duration)>,
    /// The network is away from then, for so long.
    outage: Option<(Duration, Duration)>,
}

impl Odds {
    fn of(seed: u64) -> Self {
        let mut rng = SeededRng::new(seed);
        // Each trouble is absent in half of the seeds, so that single ones and mixes both come.
        let mut often = |most: usize| if rng.chance(1, 2) { rng.below(most) } else { 0 };
        let (lost_writes, lost_answers, refused_writes) = (often(150), often(150), often(150));
        let (late_writes, hangs) = (often(300), often(15));
        let (failed_reads, old_lists) = (often(200), often(700));
        let (lagging, lost_events, gone, cut) = (often(500), often(150), often(80), often(80));
        let kinds = ["flashjobs", "instances", "pods", "services"];
        let slow_kind = if rng.chance(1, 3) {
            kinds.get(rng.below(4)).map(|k| (*k, millis(100 + rng.below(700))))
        } else {
            None
        };
        let outage = if rng.chance(1, 3) {
            Some((millis(rng.below(3000)), millis(200 + rng.below(1500))))
        } else {
            None
        };
        let over_after = millis(2000 + rng.below(3000));
        Self {
            over_after,
            lost_writes,
            lost_answers,
            refused_writes,
            late_writes,
            hangs,
            failed_reads,
            old_lists,
            lagging,
            lost_events,
            gone,
            cut,
            slow_kind,
            outage,
        }
    }
}

/// Where the operator dies in the faults of this seed: nowhere in half of them.
pub fn deaths(seed: u64) -> Vec<String> {
    let mut rng = SeededRng::new(!seed);
    let side = if rng.chance(1, 2) { "before" } else { "after" };
    let death = format!("{side}:{}", 1 + rng.below(60));
    if rng.chance(1, 2) { vec![death] } else { Vec::new() }
}

fn millis(number: usize) -> Duration {
    Duration::from_millis(number as u64)
}

#[derive(Clone)]
pub struct NetworkFaults(Arc<Inner>);

struct Inner {
    seed: u64,
    odds: Odds,
    course: Mutex<Course>,
}

/// How far it has come.
#[derive(Default)]
struct Course {
    over: bool,
    hung: bool,
    faults: usize,
    /// How often each thing has come by.
    came: HashMap<String, u64>,
}

impl NetworkFaults {
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Inner { seed, odds: Odds::of(seed), course: Mutex::default() }))
    }

    /// How many calls and events did not go as they should.
    pub fn count(&self) -> usize {
        self.course().faults
    }

    pub async fn gate(&self, cluster: &Cluster) -> Result<Gate> {
        let (writes, reads, events) = (self.clone(), self.clone(), self.clone());
        let gate = Gate::start(cluster, move |call| writes.write(call)).await?;
        gate.judge_reads(move |call| reads.read(call));
        gate.judge_events(move |event| events.event(event));
        Ok(gate)
    }

    /// Until they are over. What was left out is not made up for here: the operator's own next list does that.
    pub async fn until_over(&self, gate: &Gate) {
        let odds = &self.0.odds;
        let outage = async {
            if let Some((from, length)) = odds.outage {
                sleep(from).await;
                gate.cut();
                self.course().faults += 1;
                sleep(length).await;
                gate.mend();
            }
        };
        tokio::join!(outage, sleep(odds.over_after));
        self.course().over = true;
    }

    fn course(&self) -> MutexGuard<'_, Course> {
        lock(&self.0.course)
    }

    /// For the nth time this comes by. None once it is over.
    fn rng(&self, what: &str) -> Option<SeededRng> {
        let mut course = self.course();
        if course.over {
            return None;
        }
        let nth = course.came.entry(what.to_owned()).or_default();
        *nth += 1;
        let mut mixed = SeededRng::new(self.0.seed ^ *nth);
        for byte in what.bytes() {
            mixed = SeededRng::new(mixed.next() ^ u64::from(byte));
        }
        Some(mixed)
    }

    fn write(&self, call: &Call) -> CallFate {
        let Some(mut rng) = self.rng(&kind(&call.method, call)) else { return CallFate::Pass };
        let Odds { lost_writes, lost_answers, refused_writes, late_writes, hangs, .. } =
            self.0.odds;
        let fate = if rng.chance(lost_writes, 1000) {
            CallFate::Drop
        } else if rng.chance(lost_answers, 1000) {
            CallFate::PassThenDrop
        } else if rng.chance(refused_writes, 1000) {
            refusal(&mut rng)
        } else if rng.chance(late_writes, 1000) {
            CallFate::Delay(millis(rng.below(4000)))
        } else if rng.chance(hangs, 1000) && !std::mem::replace(&mut self.course().hung, true) {
            CallFate::PassThenHang
        } else {
            return CallFate::Pass;
        };
        self.course().faults += 1;
        fate
    }

    fn read(&self, call: &Call) -> CallFate {
        let watch = call.is_watch();
        let verb = if watch { "WATCH" } else { "GET" };
        let Some(mut rng) = self.rng(&kind(verb, call)) else { return CallFate::Pass };
        let Odds { failed_reads, old_lists, gone, .. } = self.0.odds;
        let fate = if rng.chance(failed_reads, 1000) {
            refusal(&mut rng)
        } else if watch && rng.chance(gone, 1000) {
            CallFate::Answer(GONE, status(GONE, "Expired"))
        } else if rng.chance(old_lists, 1000) && is_a_watchs(call) {
            CallFate::Replay
        } else {
            return CallFate::Pass;
        };
        self.course().faults += 1;
        fate
    }

    fn event(&self, event: &Event) -> EventFate {
        let Event { resource, change } = event;
        let Some(mut rng) = self.rng(&format!("{resource} {change}")) else {
            return EventFate::Pass;
        };
        let odds = &self.0.odds;
        let fate = if rng.chance(odds.lost_events, 1000) {
            EventFate::Lose
        } else if rng.chance(odds.gone, 1000) {
            EventFate::Gone
        } else if rng.chance(odds.cut, 1000) {
            EventFate::Cut
        } else if rng.chance(odds.lagging, 1000) {
            EventFate::Delay(millis(rng.below(800)))
        } else {
            match odds.slow_kind {
                Some((kind, delay)) if kind == resource => EventFate::Delay(delay),
                _ => return EventFate::Pass,
            }
        };
        self.course().faults += 1;
        fate
    }
}

fn kind(verb: &str, call: &Call) -> String {
    format!("{verb} {} {}", call.resource(), call.subresource().unwrap_or_default())
}

/// A list that a watch begins with. Others are asked for because a watch may be old, and a real API server answers them
/// with what is there now.
fn is_a_watchs(call: &Call) -> bool {
    let query = call.query.as_deref().unwrap_or_default();
    call.is_list() && call.resource() != "configmaps" && !query.contains("job-uid%3D")
}

fn refusal(rng: &mut SeededRng) -> CallFate {
    let refusals = [(429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable")];
    let (code, reason) = refusals[rng.below(3)];
    CallFate::Answer(code, status(code, reason))
}

fn status(code: u16, reason: &str) -> String {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "a fault of the network", "reason": reason, "code": code,
    })
    .to_string()
}
