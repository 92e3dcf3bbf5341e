//! What must not have happened to a board, whichever job, namespace or leader it was.

use std::collections::HashMap;

use flashjob_sim::flashjob::Site;
use flashjob_sim::flashjob::board::{BoardLedger, SessionEnd};
use flashjob_sim::flashjob::field::Field;
use flashjob_sim::flashjob::{Flash, flashes};
use flashjob_sim::node::Started;

use super::super::world::{Kind, World};
use super::super::{NEW, RETRIES};
use super::most_attempts;

/// The flasher asks a board whose line broke again, so often in one attempt.
const SESSIONS: usize = 3;

/// What is wrong with any board.
pub fn all(site: &Site<Field>, world: &World) -> Vec<String> {
    let mut starts: HashMap<String, Vec<Started>> = HashMap::new();
    for start in flashes(&site.kubelet) {
        starts.entry(start.endpoint().to_owned()).or_default().push(start);
    }
    let mut wrong = Vec::new();
    for (place, board) in site.field.boards.iter().enumerate() {
        let mine = starts.remove(&board.endpoint()).unwrap_or_default();
        let ledger = board.ledger();
        let whats = of_board(world, place, &ledger, &mine);
        let whats =
            whats.into_iter().map(|what| format!("board {place} {what}: {ledger:#?} {mine:#?}"));
        wrong.extend(whats);
    }
    wrong
}

fn of_board(world: &World, place: usize, ledger: &BoardLedger, starts: &[Started]) -> Vec<String> {
    let mut wrong = Vec::new();
    if ledger.overlaps > 0 {
        wrong.push(format!("had {} updates that ran into each other", ledger.overlaps));
    }
    let most = most_attempts(world, place);
    if starts.len() > most {
        wrong.push(format!("had {} flash Pods, and {most} are its attempts", starts.len()));
    }
    for job in world.jobs.iter().filter(|job| job.boards.contains(&place)) {
        let prefix = format!("{}-", job.name);
        let of_job =
            starts.iter().filter(|s| s.namespace == job.namespace && s.pod.starts_with(&prefix));
        let count = of_job.count();
        if count > RETRIES + 1 {
            wrong.push(format!("had {count} flash Pods of {}", job.name));
        }
    }
    if at_once(starts) {
        wrong.push("had two flash Pods at once".to_owned());
    }
    let sessions = ledger.updates.iter().filter(|update| update.session.is_some()).count();
    if ledger.updates.len() > SESSIONS * starts.len() {
        wrong.push(format!(
            "was asked {} times in {} attempts",
            ledger.updates.len(),
            starts.len()
        ));
    }
    let accepted = ledger.updates.iter().filter(|update| {
        update.end == Some(SessionEnd::Accepted) && update.version.as_deref() == Some(NEW)
    });
    let accepted = accepted.count();
    let wanted = match world.boards[place] {
        Kind::Healthy => 1..=1,
        Kind::Silent => 0..=0,
        Kind::Flapping => 0..=1,
    };
    if !wanted.contains(&accepted) {
        wrong.push(format!("was flashed {accepted} times"));
    }
    if world.boards[place] == Kind::Silent && sessions > 0 {
        wrong.push("is silent, and had a session".to_owned());
    }
    wrong
}

/// Whether two containers for one board ran at the same time.
fn at_once(starts: &[Started]) -> bool {
    let mut spans: Vec<_> = starts.iter().map(|start| (start.at, start.ended_at)).collect();
    spans.sort();
    spans.windows(2).any(|pair| pair[0].1.is_none_or(|ended| ended > pair[1].0))
}
