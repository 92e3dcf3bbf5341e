//! What the victim's boards and statuses hold against a run. Pure, and tested by itself in `tests/judges`: a judge that
//! cannot say no is worth nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use flashjob_api::flashjob::{DeviceState, FlashJobStatus, Phase};
use flashjob_sim::flashjob::Flash;
use flashjob_sim::node::Started;

/// The image that reaches a board. Whatever else a Pod runs, the board knows nothing of it.
pub const FLASHER: &str = "registry.example/flasher:1";
/// How many times as long as alone the victim may take.
pub const RATIO: f64 = 1.5;
/// What every Pod of a job has in its environment.
const PERMIT: &str = "PERMIT";
/// A small site gives the operator 128 MiB.
const MOST_MEMORY: f64 = 96.0;
/// What may be left in memory of an attack whose objects are all gone, and what more of each that follows; and how many
/// there are at most.
const MOST_KEPT: f64 = 16.0;
const MOST_GROWTH: f64 = 4.0;
const ATTACKS: usize = 4;

/// What kind of thing is wrong, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A device is said to be done, and its board was not flashed.
    SaidDone,
    /// The job says that its ledger is lost or broken, and it is not.
    LedgerLost,
    /// The job or a device of it failed, and nothing is wrong with its boards.
    Failed,
    /// A board had a session that its owner did not ask for.
    ForeignSession,
    /// A board was told to fetch its firmware from somebody else.
    ForeignAddress,
    /// A board had two sessions at once, or was flashed twice.
    TwoSessions,
    /// The rollout took much longer than alone.
    Late,
    /// The rollout did not end, or its job did not go.
    Stuck,
    /// The operator ended by itself.
    OperatorEnded,
    /// The operator did not answer the kubelet, which then ends it.
    Unhealthy,
    /// The operator took more memory than it may, or kept it.
    Grew,
    /// A status was not as every status has to be.
    IllSaid,
    /// The API server drew the line elsewhere, or the world did not work: says nothing of the operator.
    World,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    pub kind: Kind,
    pub words: String,
}

impl Problem {
    pub fn new(kind: Kind, words: impl Into<String>) -> Self {
        Self { kind, words: words.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.words)
    }
}

/// The kinds there are among these, in one line.
pub fn kinds(problems: &[Problem]) -> String {
    let kinds: BTreeSet<Kind> = problems.iter().map(|problem| problem.kind).collect();
    kinds.iter().map(|kind| format!("{kind:?}")).collect::<Vec<_>>().join(", ")
}

/// What the judge knows of the world.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The victim's namespace.
    pub victim: String,
    /// The victim's boards: as its jobs write them, and their addresses.
    pub boards: BTreeMap<String, String>,
    /// `--device-namespaces=own`: who flashes a board of another namespace breaks the rule. Else it is allowed, and said.
    pub own: bool,
    /// What the addresses that the victim's load balancer gives begin with.
    pub addresses: String,
}

impl Bench {
    /// What is wrong with a status of a job that is to bring boards to `version`, given what the boards know by then.
    pub fn status(
        &self,
        status: &FlashJobStatus,
        version: &str,
        sessions: &[Started],
    ) -> Vec<Problem> {
        let mut problems = Vec::new();
        let flashed = self.flashed(version, sessions);
        let is_done = |device: &String| {
            self.boards.get(device).is_some_and(|board| flashed.contains(board.as_str()))
        };
        let lies: Vec<&String> = status.completed_uuids.iter().filter(|d| !is_done(d)).collect();
        if !lies.is_empty() {
            let words = format!("{lies:?} are said to run {version}, and their boards do not");
            problems.push(Problem::new(Kind::SaidDone, words));
        }
        let counts = status.counts.unwrap_or_default();
        // What was skipped is done, unless it is said to be superseded.
        let superseded = status.failures.iter().filter(|f| f.reason == "Superseded").count();
        let counted = usize::try_from(counts.succeeded + counts.skipped).unwrap_or(usize::MAX);
        let counted = counted.saturating_sub(superseded);
        if counted > flashed.len() {
            let words = format!("{counted} are counted as done, and {} are", flashed.len());
            problems.push(Problem::new(Kind::SaidDone, words));
        }
        if status.phase == Some(Phase::Completed) && flashed.len() < self.boards.len() {
            let words = format!("Completed, and {} of {} are", flashed.len(), self.boards.len());
            problems.push(Problem::new(Kind::SaidDone, words));
        }
        if let Some(condition) = status.conditions.iter().find(|c| c.reason == "LedgerLost") {
            problems.push(Problem::new(Kind::LedgerLost, condition.message.clone()));
            return problems;
        }
        let taken = self.taken(sessions);
        for failure in &status.failures {
            let board = self.boards.get(&failure.uuid);
            let given_way = failure.reason == "Superseded"
                && board.is_some_and(|board| !self.own && taken.contains(board.as_str()));
            if !given_way {
                let words = format!("{}: {}: {}", failure.uuid, failure.reason, failure.message);
                problems.push(Problem::new(Kind::Failed, words));
            }
        }
        if status.phase == Some(Phase::Failed) && status.failures.is_empty() {
            let words = status.message.clone().unwrap_or_default();
            problems.push(Problem::new(Kind::Failed, words));
        }
        problems
    }

    /// What the boards hold against a run, and how many sessions a stranger had with them that are allowed.
    pub fn boards(&self, sessions: &[Started]) -> (Vec<Problem>, usize) {
        let mut problems = Vec::new();
        let mut allowed = 0;
        for (device, board) in &self.boards {
            let mut mine: Vec<&Started> =
                sessions.iter().filter(|s| reaches(s) && address(s.endpoint()) == *board).collect();
            mine.sort_by_key(|session| session.at);
            for pair in mine.windows(2) {
                if pair[0].ended_at.is_none_or(|end| end > pair[1].at) {
                    let words = format!("{device}: {} and {}", name(pair[0]), name(pair[1]));
                    problems.push(Problem::new(Kind::TwoSessions, words));
                }
            }
            let (asked, foreign): (Vec<&Started>, Vec<&Started>) =
                mine.iter().copied().partition(|session| session.namespace == self.victim);
            for session in &foreign {
                if self.own {
                    let words = format!("{device}: {}", name(session));
                    problems.push(Problem::new(Kind::ForeignSession, words));
                } else {
                    allowed += 1
                }
            }
            let mut times: BTreeMap<&str, usize> = BTreeMap::new();
            for session in asked.iter().filter(|session| session.exit_code == Some(0)) {
                *times.entry(version(session)).or_default() += 1;
                let dials = session.env.get("EXTERNAL_IP").map_or("", String::as_str);
                if !dials.starts_with(&self.addresses) {
                    let words = format!("{device}: {} was told to dial {dials}", name(session));
                    problems.push(Problem::new(Kind::ForeignAddress, words));
                }
            }
            for (version, times) in times.into_iter().filter(|(_, times)| *times > 1) {
                let words = format!("{device} was flashed {times} times with {version}");
                problems.push(Problem::new(Kind::TwoSessions, words));
            }
        }
        (problems, allowed)
    }

    /// What is wrong with the end of a rollout: what the boards run, by their own word.
    pub fn end(&self, version_wanted: &str, sessions: &[Started]) -> Vec<Problem> {
        let mut problems = Vec::new();
        let taken = self.taken(sessions);
        for (device, board) in &self.boards {
            let at = sessions.iter().filter(|s| {
                reaches(s) && address(s.endpoint()) == *board && s.exit_code == Some(0)
            });
            let runs = at.max_by_key(|session| session.at).map(version);
            let excused = !self.own && taken.contains(board.as_str());
            if runs != Some(version_wanted) && !excused {
                let words = format!("{device} runs {runs:?} at the end, not {version_wanted}");
                problems.push(Problem::new(Kind::Failed, words));
            }
        }
        problems
    }

    /// The boards that run this version because the victim flashed them.
    fn flashed(&self, wanted: &str, sessions: &[Started]) -> BTreeSet<&str> {
        let by_victim = |board: &&String| {
            sessions.iter().any(|session| {
                reaches(session)
                    && session.namespace == self.victim
                    && address(session.endpoint()) == **board
                    && session.exit_code == Some(0)
                    && version(session) == wanted
            })
        };
        self.boards.values().filter(by_victim).map(String::as_str).collect()
    }

    /// The boards a Pod of a stranger's job was made for, whatever it did there. One without a permit was made by no job.
    pub fn taken(&self, sessions: &[Started]) -> BTreeSet<&str> {
        let foreign: BTreeSet<String> = sessions
            .iter()
            .filter(|session| session.namespace != self.victim && session.env.contains_key(PERMIT))
            .map(|session| address(session.endpoint()))
            .collect();
        self.boards.values().map(String::as_str).filter(|board| foreign.contains(*board)).collect()
    }
}

/// How many times as long as alone a rollout took.
pub fn ratio(alone: Duration, attacked: Duration) -> f64 {
    attacked.as_secs_f64() / alone.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// Whether a rollout was held up, by how many times as long as alone it took in each play of the same seed. `None`: one
/// more play has to tell. Others use the machine, too, and hit either of the two times; so one play that is over
/// proves nothing, but two of three do.
pub fn held_up(ratios: &[f64]) -> Option<bool> {
    let over = ratios.iter().filter(|ratio| **ratio > RATIO).count();
    match (over, ratios.len() - over) {
        (0, 1..) | (_, 2..) => Some(false),
        (2.., _) => Some(true),
        _ => None,
    }
}

/// After how long a rollout is not slow any more, but stuck.
pub fn patience(alone: Duration) -> Duration {
    alone.mul_f64(2.0 * RATIO) + Duration::from_secs(20)
}

/// Whether a status says that a job of this namespace has a board.
pub fn names_holder(status: &FlashJobStatus, namespace: &str) -> bool {
    let theirs = format!("{namespace}/");
    let blocked = status.in_flight.iter().filter(|device| device.state == DeviceState::Blocked);
    blocked.filter_map(|device| device.message.as_ref()).any(|words| words.starts_with(&theirs))
}

/// What is wrong with how long a rollout beside the attack took, where it came to an end; and whether its time is to be held
/// against that alone. Where the attacker may flash the victim's boards he may hold them, too, and then that is said.
pub fn lateness(
    own: bool,
    held: bool,
    alone: Duration,
    attacked: Duration,
) -> (Option<Problem>, bool) {
    let stuck = |words: String| Some(Problem::new(Kind::Stuck, words));
    match (own, held) {
        (true, true) => (stuck("a job of another namespace was said to hold a board".into()), true),
        (false, true) => (None, false),
        (_, false) if attacked > patience(alone) => {
            (stuck(format!("{attacked:.1?}, and nobody was said to be in the way")), true)
        }
        (_, false) => (None, true),
    }
}

/// Holds the operator's memory, in MiB, against what it may have: before the attack, after each time that all of it was
/// gone, and the most. `None`: the attack has to come once more to tell. Allocators give back late, so what is kept after
/// one attack may be room for the next; what grows with each is not.
pub fn memory(before: f64, kept: &[f64], peak: f64) -> Option<Option<Problem>> {
    let words = || format!("{before:.0} MiB before, {kept:.0?} after, {peak:.0} at most");
    let grew = || Some(Some(Problem::new(Kind::Grew, words())));
    if peak > MOST_MEMORY {
        return grew();
    }
    let (last, earlier) = kept.split_last()?;
    let room = earlier.iter().copied().reduce(f64::max).unwrap_or(before);
    let more = if earlier.is_empty() { MOST_KEPT } else { MOST_GROWTH };
    if *last <= room + more {
        Some(None)
    } else if kept.len() < ATTACKS {
        None
    } else {
        grew()
    }
}

/// A board's address, however it is written.
pub fn address(written: &str) -> String {
    let written = written.trim().to_ascii_lowercase();
    let bare = written.strip_prefix("http://").unwrap_or(&written);
    let bare = bare.split('/').next().unwrap_or_default();
    bare.strip_suffix(":80").unwrap_or(bare).to_owned()
}

fn reaches(session: &Started) -> bool {
    session.image == FLASHER
}

fn version(session: &Started) -> &str {
    session.env.get("VERSION").map_or("", String::as_str)
}

fn name(session: &Started) -> String {
    format!("{}/{}", session.namespace, session.pod)
}
