//! Bad weather between an operator and its API server, all of it from one seed: writes that get lost, or lose their
//! answer, or are refused; lists of the past; watches that lag, break off, or leave something out. Then it clears.
//!
//! What happens to a call or an event depends on the seed and on what it is (the third create of a Pod), not on when it
//! comes or on names that are new each time, so that a seed means nearly the same trouble whenever it is played.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use flashjob_sim::Luck;
use flashjob_sim::cluster::{Call, Cluster, Event, Fate, Gate, Verdict};
use serde_json::json;
use tokio::time::sleep;

const GONE: u16 = 410;

/// How often something happens, in a thousand, and how bad the rest is.
struct Climate {
    clears_after: Duration,
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

impl Climate {
    fn of(seed: u64) -> Self {
        let mut luck = Luck::new(seed);
        // Each trouble is absent in half of the seeds, so that single ones and mixes both come.
        let mut often = |most: usize| if luck.chance(1, 2) { luck.below(most) } else { 0 };
        let (lost_writes, lost_answers, refused_writes) = (often(150), often(150), often(150));
        let (late_writes, hangs) = (often(300), often(15));
        let (failed_reads, old_lists) = (often(200), often(700));
        let (lagging, lost_events, gone, cut) = (often(500), often(150), often(80), often(80));
        let kinds = ["flashjobs", "instances", "pods", "services"];
        let slow_kind = if luck.chance(1, 3) {
            kinds.get(luck.below(4)).map(|k| (*k, millis(100 + luck.below(700))))
        } else {
            None
        };
        let outage = if luck.chance(1, 3) {
            Some((millis(luck.below(3000)), millis(200 + luck.below(1500))))
        } else {
            None
        };
        let clears_after = millis(2000 + luck.below(3000));
        Self {
            clears_after,
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

/// Where the operator dies in the weather of this seed: nowhere in half of them.
pub fn deaths(seed: u64) -> Vec<String> {
    let mut luck = Luck::new(!seed);
    let side = if luck.chance(1, 2) { "before" } else { "after" };
    let death = format!("{side}:{}", 1 + luck.below(60));
    if luck.chance(1, 2) { vec![death] } else { Vec::new() }
}

fn millis(number: usize) -> Duration {
    Duration::from_millis(number as u64)
}

#[derive(Clone)]
pub struct Weather(Arc<State>);

struct State {
    seed: u64,
    climate: Climate,
    sky: Mutex<Sky>,
}

#[derive(Default)]
struct Sky {
    clear: bool,
    hung: bool,
    faults: usize,
    /// How often each thing has come by.
    came: HashMap<String, u64>,
}

impl Weather {
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(State { seed, climate: Climate::of(seed), sky: Mutex::default() }))
    }

    /// How many calls and events did not go as they should.
    pub fn faults(&self) -> usize {
        self.sky().faults
    }

    pub async fn gate(&self, cluster: &Cluster) -> Result<Gate> {
        let (writes, reads, events) = (self.clone(), self.clone(), self.clone());
        let gate = Gate::start(cluster, move |call| writes.write(call)).await?;
        gate.judge_reads(move |call| reads.read(call));
        gate.judge_events(move |event| events.event(event));
        Ok(gate)
    }

    /// From the storm to a clear sky. What was left out is not made up for here: the operator's own next list does that.
    pub async fn pass_over(&self, gate: &Gate) {
        let climate = &self.0.climate;
        let outage = async {
            if let Some((from, length)) = climate.outage {
                sleep(from).await;
                gate.cut();
                self.sky().faults += 1;
                sleep(length).await;
                gate.mend();
            }
        };
        tokio::join!(outage, sleep(climate.clears_after));
        self.sky().clear = true;
    }

    fn sky(&self) -> std::sync::MutexGuard<'_, Sky> {
        self.0.sky.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Luck for the nth time this comes by. None once it has cleared.
    fn luck(&self, what: &str) -> Option<Luck> {
        let mut sky = self.sky();
        if sky.clear {
            return None;
        }
        let nth = sky.came.entry(what.to_owned()).or_default();
        *nth += 1;
        let mut mixed = Luck::new(self.0.seed ^ *nth);
        for byte in what.bytes() {
            mixed = Luck::new(mixed.next() ^ u64::from(byte));
        }
        Some(mixed)
    }

    fn write(&self, call: &Call) -> Verdict {
        let Some(mut luck) = self.luck(&kind(&call.method, call)) else { return Verdict::Pass };
        let Climate { lost_writes, lost_answers, refused_writes, late_writes, hangs, .. } =
            self.0.climate;
        let verdict = if luck.chance(lost_writes, 1000) {
            Verdict::Drop
        } else if luck.chance(lost_answers, 1000) {
            Verdict::PassThenDrop
        } else if luck.chance(refused_writes, 1000) {
            refusal(&mut luck)
        } else if luck.chance(late_writes, 1000) {
            Verdict::Delay(millis(luck.below(4000)))
        } else if luck.chance(hangs, 1000) && !std::mem::replace(&mut self.sky().hung, true) {
            Verdict::PassThenHang
        } else {
            return Verdict::Pass;
        };
        self.sky().faults += 1;
        verdict
    }

    fn read(&self, call: &Call) -> Verdict {
        let watch = call.is_watch();
        let verb = if watch { "WATCH" } else { "GET" };
        let Some(mut luck) = self.luck(&kind(verb, call)) else { return Verdict::Pass };
        let Climate { failed_reads, old_lists, gone, .. } = self.0.climate;
        let verdict = if luck.chance(failed_reads, 1000) {
            refusal(&mut luck)
        } else if watch && luck.chance(gone, 1000) {
            Verdict::Answer(GONE, status(GONE, "Expired"))
        } else if luck.chance(old_lists, 1000) && is_a_watchs(call) {
            Verdict::Replay
        } else {
            return Verdict::Pass;
        };
        self.sky().faults += 1;
        verdict
    }

    fn event(&self, event: &Event) -> Fate {
        let Event { resource, change } = event;
        let Some(mut luck) = self.luck(&format!("{resource} {change}")) else { return Fate::Pass };
        let climate = &self.0.climate;
        let fate = if luck.chance(climate.lost_events, 1000) {
            Fate::Lose
        } else if luck.chance(climate.gone, 1000) {
            Fate::Gone
        } else if luck.chance(climate.cut, 1000) {
            Fate::Cut
        } else if luck.chance(climate.lagging, 1000) {
            Fate::Delay(millis(luck.below(800)))
        } else {
            match climate.slow_kind {
                Some((kind, delay)) if kind == resource => Fate::Delay(delay),
                _ => return Fate::Pass,
            }
        };
        self.sky().faults += 1;
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

fn refusal(luck: &mut Luck) -> Verdict {
    let refusals = [(429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable")];
    let (code, reason) = refusals[luck.below(3)];
    Verdict::Answer(code, status(code, reason))
}

fn status(code: u16, reason: &str) -> String {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "bad weather", "reason": reason, "code": code,
    })
    .to_string()
}
