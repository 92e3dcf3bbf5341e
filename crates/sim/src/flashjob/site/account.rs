//! Two accounts of one rollout, held against each other: the FlashJob's, and the boards' own.

use std::collections::{HashMap, HashSet};

use flashjob_api::flashjob::FlashJobStatus;

use super::{CONFIGURATION, Site};
use crate::flashjob::Flash;
use crate::flashjob::akri::instance_name;
use crate::flashjob::board::{self, Board};
use crate::flashjob::field::Field;
use crate::node::kubelet::Started;

/// What a FlashJob says of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It runs the new version.
    Succeeded,
    /// It does not, and why.
    Failed(String),
    /// Nothing final.
    Open,
}

/// One device in both accounts.
#[derive(Debug, Clone)]
pub struct Entry {
    /// `namespace/name` of its Instance.
    pub device: String,
    /// The board's address.
    pub endpoint: String,
    /// Its type.
    pub kind: String,
    /// What the job says.
    pub outcome: Outcome,
    /// The version the board runs, by its own word.
    pub runs: String,
    /// How many flash Pods have started for it.
    pub attempts: usize,
    /// From the first start of a flash Pod to the last end of one, in seconds.
    pub seconds: f64,
    /// What the two do not agree on.
    pub disagreements: Vec<String>,
}

/// All devices, in order of their names.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// The devices.
    pub entries: Vec<Entry>,
}

impl Account {
    /// Holds a finished job against the boards it was to bring to `version`.
    pub fn take(site: &Site<Field>, status: &FlashJobStatus, version: &str) -> Self {
        Self::of(&site.field.boards, &site.kubelet.starts(), &site.namespace, status, version)
    }

    /// The same for boards of another namespace. Where no start of a flash Pod is known, none is counted.
    pub fn of(
        boards: &[Board],
        starts: &[Started],
        namespace: &str,
        status: &FlashJobStatus,
        version: &str,
    ) -> Self {
        let completed: HashSet<&str> = status.completed_uuids.iter().map(String::as_str).collect();
        let failed: HashMap<&str, &str> =
            status.failures.iter().map(|f| (f.uuid.as_str(), f.reason.as_str())).collect();
        let mut entries = Vec::new();
        for board in boards {
            // By the name Akri gives it: right after a restart its Instance may not be there.
            let endpoint = board.endpoint();
            let name = instance_name(CONFIGURATION, &endpoint, None);
            let device = format!("{namespace}/{name}");
            let outcome = match failed.get(device.as_str()) {
                Some(reason) => Outcome::Failed((*reason).to_owned()),
                None if completed.contains(device.as_str()) => Outcome::Succeeded,
                None => Outcome::Open,
            };
            let mine: Vec<_> = starts.iter().filter(|s| s.endpoint() == endpoint).collect();
            let began = mine.iter().map(|s| s.at).min();
            let ended = mine.iter().filter_map(|s| s.ended_at).max();
            let seconds = began.zip(ended).map(|(b, e)| e.duration_since(b).as_secs_f64());
            entries.push(Entry {
                disagreements: disagreements(board, &outcome, version),
                kind: board.device().to_owned(),
                runs: board.version(),
                attempts: mine.len(),
                seconds: seconds.unwrap_or_default(),
                device,
                endpoint,
                outcome,
            });
        }
        entries.sort_by(|one, other| one.device.cmp(&other.device));
        Self { entries }
    }

    /// What the two accounts do not agree on, device by device.
    pub fn disagreements(&self) -> Vec<String> {
        let of = |entry: &Entry| {
            let device = entry.device.clone();
            entry.disagreements.clone().into_iter().map(move |what| format!("{device}: {what}"))
        };
        self.entries.iter().flat_map(of).collect()
    }
}

fn disagreements(board: &Board, outcome: &Outcome, version: &str) -> Vec<String> {
    let ledger = board.ledger();
    let mut all = Vec::new();
    let runs = board.version();
    match outcome {
        Outcome::Succeeded if runs != version => {
            all.push(format!("said to run {version}, and it runs {runs}"));
        }
        Outcome::Failed(reason) if runs == version => {
            all.push(format!("said to have failed with {reason}, and it runs {runs}"));
        }
        Outcome::Open => all.push("has no result".into()),
        _ => {}
    }
    let accepted = |update: &&board::Update| {
        update.end == Some(board::SessionEnd::Accepted)
            && update.version.as_deref() == Some(version)
    };
    // A board that took the image and started its old one again is right to be tried again.
    let started = ledger.boots.iter().filter(|boot| boot.version == version).count();
    let flashed = ledger.updates.iter().filter(accepted).count().min(started);
    if flashed > 1 {
        all.push(format!("was flashed {flashed} times"));
    }
    if ledger.overlaps > 0 {
        all.push(format!("had {} updates that ran into each other", ledger.overlaps));
    }
    all
}
