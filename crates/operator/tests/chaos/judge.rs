//! The last word: the boards' ledgers, whatever jobs, namespaces and operators were at work.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use flashjob_api::flashjob::{DeviceState, Failure, FlashJobStatus, InFlight, Phase};
use flashjob_sim::Operator;
use flashjob_sim::flashjob::{Flash, flashes};
use flashjob_sim::node::Started;

use crate::world::World;

/// How many devices a status lists.
const LISTED: usize = 100;

/// What was looked at in a run that went well.
pub struct Judged {
    pub sessions: usize,
    pub statuses: usize,
}

/// Everything that is held against a run: how it ended, what its jobs said on the way, what its operators said, and what
/// the boards know.
pub fn verdict(
    world: &World,
    outcome: Result<()>,
    lives: &[Operator],
    tries: usize,
) -> Result<Judged> {
    let mut problems = world.record.problems();
    let logs: Vec<String> = lives.iter().map(Operator::log).collect();
    let logs = logs.join("\n--- the next life\n");
    if logs.contains("panicked") {
        problems.push("an operator panicked".into());
    }
    if let Err(error) = outcome {
        problems.push(format!("{error:#}"));
    }
    let sessions = flashes(&world.kubelet);
    problems.extend(boards_say(&sessions, tries));
    let said = world.record.said();
    if problems.is_empty() {
        return Ok(Judged { sessions: sessions.len(), statuses: said.len() });
    }
    let sessions: Vec<String> = sessions.iter().map(line).collect();
    let said: Vec<String> =
        said.iter().map(|said| format!("{} {}", said.at, said.message)).collect();
    let jobs = serde_json::to_string_pretty(&world.record.jobs().values().collect::<Vec<_>>())?;
    let (problems, sessions, said) = (problems.join("\n"), sessions.join("\n"), said.join("\n"));
    bail!(
        "{problems}\n--- the boards\n{sessions}\n--- the operators\n{logs}\n--- the jobs\n{said}\n{jobs}"
    )
}

/// A session in one line.
pub fn line(session: &Started) -> String {
    let Started { namespace, pod, at, ended_at, exit_code, env, .. } = session;
    let endpoint = session.endpoint();
    let ended = ended_at.map(|at| at.to_string()).unwrap_or_default();
    let version = env.get("VERSION").map(String::as_str).unwrap_or_default();
    format!("{endpoint} {namespace}/{pod} {version} {at} .. {ended} exit {exit_code:?}")
}

/// What the boards hold against a run in which a device had `tries` attempts per revision.
pub fn boards_say(sessions: &[Started], tries: usize) -> Vec<String> {
    let mut problems = Vec::new();
    let mut by_board: BTreeMap<&str, Vec<&Started>> = BTreeMap::new();
    // A Pod is named after job, device and revision, and then its attempt.
    let mut by_target: BTreeMap<(&str, &str), Vec<&Started>> = BTreeMap::new();
    for session in sessions {
        by_board.entry(session.endpoint()).or_default().push(session);
        let target = session.pod.rsplit_once('-').map_or(session.pod.as_str(), |(t, _)| t);
        by_target.entry((&session.namespace, target)).or_default().push(session);
    }
    for (board, mut all) in by_board {
        all.sort_by_key(|session| session.at);
        for pair in all.windows(2) {
            if pair[0].ended_at.is_none_or(|end| end > pair[1].at) {
                let (one, other) = (&pair[0].pod, &pair[1].pod);
                problems.push(format!("{board} had two sessions at once: {one} and {other}"));
            }
        }
    }
    for ((_, target), all) in by_target {
        let pods: Vec<&str> = all.iter().map(|session| session.pod.as_str()).collect();
        if all.len() > tries {
            problems.push(format!("{target} had more sessions than its {tries} tries: {pods:?}"));
        }
        // A session that went well and whose board was flashed again all the same.
        let well = all.iter().filter(|session| session.exit_code == Some(0)).count();
        if well > 1 {
            problems.push(format!("{target} was flashed {well} times: {pods:?}"));
        }
    }
    problems
}

/// The firmware version a board runs: that of its last session that went well.
pub fn runs<'a>(sessions: &'a [Started], endpoint: &str) -> Option<&'a str> {
    let mut mine: Vec<&Started> = sessions
        .iter()
        .filter(|session| session.endpoint() == endpoint && session.exit_code == Some(0))
        .collect();
    mine.sort_by_key(|session| session.at);
    mine.last().and_then(|session| session.env.get("VERSION")).map(String::as_str)
}

/// What no status may be like at any moment: a device that is not counted, or one that is not final and of which nobody
/// says why, or when it is looked at again.
pub fn ill_said(status: &FlashJobStatus) -> Vec<String> {
    let mut problems = Vec::new();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            problems.push(format!("{what}: {}", serde_json::to_string(status).unwrap_or_default()));
        }
    };
    // Nobody has looked at the job yet.
    let Some(phase) = status.phase else { return problems };
    let over = matches!(phase, Phase::Completed | Phase::Failed);
    must(status.message.as_ref().is_some_and(|m| !m.is_empty()), "not a word of the job");
    let reasons = !status.conditions.is_empty();
    let reasons = reasons && status.conditions.iter().all(|c| !c.reason.is_empty());
    must(reasons, "a condition without a reason");
    // A spec that makes no sense is Failed and has not ended: it can be mended.
    must(over || status.completion_time.is_none(), "a time of its end, and it goes on");
    let told = |device: &InFlight| {
        !device.state.as_str().is_empty() && device.message.as_ref().is_some_and(|m| !m.is_empty())
    };
    must(status.in_flight.iter().all(told), "a device without a reason");
    // A write that is under way has its answer soon; a job that comes first with the board is judged itself; and nothing
    // begins while a job is held.
    let looked_at = |device: &InFlight| {
        let ours = device.since.is_none() || device.state == DeviceState::Recording;
        device.until.is_some() || ours || device.state == DeviceState::Blocked
    };
    let goes_on =
        matches!(phase, Phase::Pending | Phase::InProgress) && status.completion_time.is_none();
    must(!goes_on || status.in_flight.iter().all(looked_at), "a device without a next look");
    let told = |failure: &Failure| !failure.reason.is_empty() && !failure.message.is_empty();
    must(status.failures.iter().all(told), "a failure without a reason");
    let Some(counts) = status.counts else { return problems };
    let open = counts.offline + counts.waiting + counts.blocked + counts.flashing;
    let ended = counts.succeeded + counts.failed + counts.skipped;
    must(open + ended + counts.pending == counts.total, "the counts do not add up");
    let listed = number(status.in_flight.len());
    let enough = listed >= open.min(number(LISTED)) && listed <= open + counts.pending;
    must(enough, "not the devices at work are listed");
    if phase == Phase::Completed {
        must(status.completion_time.is_some(), "completed, and no time of it");
        must(counts.succeeded + counts.skipped == counts.total, "completed, and not all are done");
    }
    problems
}

pub fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
