//! The last word: the boards' ledgers, whatever jobs, namespaces and operators were at work.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use flashjob_sim::Started;

use crate::arena::Life;
use crate::world::World;

/// What was looked at in a run that went well.
pub struct Verdict {
    pub sessions: usize,
    pub statuses: usize,
}

/// Everything that is held against a run: how it ended, what its jobs said on the way, what its operators said, and what
/// the boards know.
pub fn verdict(
    world: &World,
    outcome: Result<()>,
    lives: &[Life],
    tries: usize,
) -> Result<Verdict> {
    let mut problems = world.record.problems();
    let logs: Vec<String> = lives.iter().map(Life::log).collect();
    let logs = logs.join("\n--- the next life\n");
    if logs.contains("panicked") {
        problems.push("an operator panicked".into());
    }
    if let Err(error) = outcome {
        problems.push(format!("{error:#}"));
    }
    let sessions = world.kubelet.starts();
    problems.extend(boards_say(&sessions, tries));
    let said = world.record.said();
    if problems.is_empty() {
        return Ok(Verdict { sessions: sessions.len(), statuses: said.len() });
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

fn line(session: &Started) -> String {
    let Started { endpoint, namespace, pod, at, ended_at, exit_code, env, .. } = session;
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
        by_board.entry(&session.endpoint).or_default().push(session);
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
        .filter(|session| session.endpoint == endpoint && session.exit_code == Some(0))
        .collect();
    mine.sort_by_key(|session| session.at);
    mine.last().and_then(|session| session.env.get("VERSION")).map(String::as_str)
}
