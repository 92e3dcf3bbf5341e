//! Schedules, and playing many of them side by side.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Result;
use flashjob_sim::lock;

use crate::arena::Arena;
use crate::{edits, firmware, network_faults, scenario, tenants};

/// What is to go wrong in one run.
#[derive(Debug, Clone)]
pub enum Schedule {
    /// The operator dies at these writes, one life after the other: `before:17`, `after:3`.
    Deaths(Vec<String>),
    /// Faults of the network from this seed, which may kill the operator, too.
    NetworkFaults(u64),
    /// A careless user.
    Edits(u64),
    /// Firmware that no board takes.
    BadFirmware(u64),
    /// Another tenant, who means harm.
    Tenants(u64),
}

impl Schedule {
    /// How to play it again: the arguments of `make chaos ARGS=…`.
    pub fn replay(&self) -> String {
        match self {
            Schedule::Deaths(at) => format!("crashes --at {}", at.join(",")),
            Schedule::NetworkFaults(seed) => format!("stale --seed {seed}"),
            Schedule::Edits(seed) => format!("edits --seed {seed}"),
            Schedule::BadFirmware(seed) => format!("firmware --seed {seed}"),
            Schedule::Tenants(seed) => format!("tenants --seed {seed}"),
        }
    }

    /// How often the operator is to die.
    fn deaths(&self) -> usize {
        match self {
            Schedule::Deaths(at) => at.len(),
            Schedule::NetworkFaults(seed) => network_faults::deaths(*seed).len(),
            Schedule::Edits(_) | Schedule::BadFirmware(_) | Schedule::Tenants(_) => 0,
        }
    }

    async fn play(&self, arena: &Arena) -> Result<Played> {
        match self {
            Schedule::Deaths(at) => scenario::play(arena, at, None).await,
            Schedule::NetworkFaults(seed) => {
                scenario::play(arena, &network_faults::deaths(*seed), Some(*seed)).await
            }
            Schedule::Edits(seed) => edits::play(arena, *seed).await,
            Schedule::BadFirmware(seed) => firmware::play(arena, *seed).await,
            Schedule::Tenants(seed) => tenants::play(arena, *seed).await,
        }
    }

    /// What is to be said when each of these plays went well. `None`: one more has to tell, with the machine for itself.
    fn verdict(&self, plays: &[Played]) -> Option<Result<Played>> {
        match self {
            Schedule::Tenants(seed) => tenants::verdict(*seed, plays),
            _ => plays.last().map(|played| Ok(*played)),
        }
    }
}

/// What a schedule came to that went well.
#[derive(Debug, Clone, Copy, Default)]
pub struct Played {
    pub writes: usize,
    pub deaths: usize,
    pub faults: usize,
    pub statuses: usize,
    pub sessions: usize,
    /// How long a job took to say what had happened; of several the longest.
    pub late: Duration,
    /// How long a rollout took alone, and beside another tenant who means harm.
    pub alone: Duration,
    pub attacked: Duration,
    /// How often that was measured again.
    pub repeats: usize,
    /// Sessions of another tenant that are allowed, and writes of his that the API server refused.
    pub allowed: usize,
    pub refused: usize,
    /// The most memory an operator had, in MiB; of several the most.
    pub peak: f64,
}

/// What all schedules of a part came to.
#[derive(Debug, Default)]
pub struct Tally {
    pub schedules: usize,
    /// How many deaths were set; of those the sums have what came to pass.
    pub deaths_set: usize,
    pub sums: Played,
    pub failed: Vec<String>,
    /// What was wrong with those, in a line each.
    pub verdicts: Vec<String>,
    /// Each schedule that went well.
    pub well: Vec<(Schedule, Played)>,
    pub took: Duration,
}

/// Plays schedules on all arenas side by side, and says how far it is. Those that are to be played again come at the end, one
/// after the other; there are none where times are `judged` by nobody.
pub async fn play_all(
    title: &str,
    arenas: &mut [Arena],
    schedules: Vec<Schedule>,
    judged: bool,
) -> Tally {
    let began = Instant::now();
    let all = schedules.len();
    let queue = Mutex::new(VecDeque::from(schedules));
    let tally = Mutex::new(Tally::default());
    let again = Mutex::new(Vec::new());
    let (queue, again_ref) = (&queue, &again);
    let settle = |schedule: Schedule, outcome: Result<Played>| {
        let mut tally = lock(&tally);
        tally.settle(title, schedule, outcome);
        let done = tally.schedules;
        if done % 50 == 0 || done == all {
            let seconds = began.elapsed().as_secs();
            let failed = tally.failed.len();
            say(&format!("{title}: {done} of {all} in {seconds} s, {failed} failed"));
        }
    };
    let settle = &settle;
    let workers = arenas.iter_mut().map(|arena| async move {
        loop {
            let Some(schedule) = lock(queue).pop_front() else { return };
            match play(&schedule, arena).await {
                Ok(played) => match schedule.verdict(&[played]) {
                    Some(outcome) => settle(schedule, outcome),
                    None if !judged => settle(schedule, Ok(played)),
                    None => lock(again_ref).push((schedule, played)),
                },
                Err(error) => settle(schedule, Err(error)),
            }
        }
    });
    futures::future::join_all(workers).await;
    let again = std::mem::take(&mut *lock(&again));
    if let Some(arena) = arenas.first_mut() {
        for (schedule, first) in again {
            let outcome = play_again(&schedule, first, arena).await;
            settle(schedule, outcome);
        }
    }
    let mut tally = std::mem::take(&mut *lock(&tally));
    tally.took = began.elapsed();
    tally
}

async fn play(schedule: &Schedule, arena: &mut Arena) -> Result<Played> {
    let played = schedule.play(arena).await;
    // A world that went wrong leaves its jobs behind: the next one gets another arena.
    if played.is_err()
        && let Ok(fresh) = Arena::start(&arena.operators.program).await
    {
        *arena = fresh;
    }
    played
}

async fn play_again(schedule: &Schedule, first: Played, arena: &mut Arena) -> Result<Played> {
    let mut plays = vec![first];
    loop {
        plays.push(play(schedule, arena).await?);
        if let Some(outcome) = schedule.verdict(&plays) {
            return outcome;
        }
    }
}

impl Tally {
    fn settle(&mut self, title: &str, schedule: Schedule, outcome: Result<Played>) {
        self.schedules += 1;
        self.deaths_set += schedule.deaths();
        match outcome {
            Ok(played) => {
                self.sums.add(played);
                self.well.push((schedule, played));
            }
            Err(error) => {
                let replay = schedule.replay();
                let log = keep(&replay, &format!("{error:#}"));
                let what = error.to_string();
                let what = what.lines().next().unwrap_or_default();
                say(&format!(
                    "{title}: FAILED: {what}\n  again: make chaos ARGS='{replay}'\n  log: {log}"
                ));
                self.verdicts.push(what.to_owned());
                self.failed.push(replay);
            }
        }
    }
}

impl Played {
    fn add(&mut self, other: Played) {
        self.writes += other.writes;
        self.deaths += other.deaths;
        self.faults += other.faults;
        self.statuses += other.statuses;
        self.sessions += other.sessions;
        self.late = self.late.max(other.late);
        self.repeats += other.repeats;
        self.allowed += other.allowed;
        self.refused += other.refused;
        self.peak = self.peak.max(other.peak);
    }
}

/// Where reports and the logs of failed schedules go.
pub fn folder() -> PathBuf {
    let target = PathBuf::from(env!("CARGO_BIN_EXE_flashjob-operator"));
    let target = target.ancestors().nth(2).map(PathBuf::from).unwrap_or_default();
    target.join("chaos")
}

/// Keeps what there is to look into; says where.
pub fn keep(replay: &str, text: &str) -> String {
    let name: String = replay.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    let path = folder().join(format!("{name}.log"));
    let kept = std::fs::create_dir_all(folder()).and_then(|()| std::fs::write(&path, text));
    kept.map_or_else(|error| format!("not kept: {error}"), |()| path.display().to_string())
}

#[expect(clippy::print_stdout, reason = "progress for people; libtest is not at work here")]
pub fn say(text: &str) {
    println!("{text}");
}
