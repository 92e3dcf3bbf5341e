//! Judges a run: at every look what the jobs say, and at the end what they said against what boards and node have seen.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use flashjob_api::flashjob::{Counts, FlashJobStatus};
use flashjob_sim::flashjob::Site;
use flashjob_sim::flashjob::field::Field;
use flashjob_sim::flashjob::site::NAMESPACE;
use jiff::Timestamp;

use super::trouble::Trouble;
use super::world::{Job, Kind, World};
use super::{NEW, RETRIES};
use crate::judge::{ill_said, number};

mod boards;
mod leftovers;

/// How long everything may stand still before something is wrong: longer than any wait in these worlds.
const STANDSTILL: Duration = Duration::from_secs(90);
/// Another job has flashed the device since.
const SUPERSEDED: &str = "Superseded";

/// What is known of a run so far.
pub struct Judge<'a> {
    world: &'a World,
    last: Vec<FlashJobStatus>,
    looks: usize,
    /// When something last moved, and how it stood since.
    moved: (Instant, Vec<Option<Counts>>, usize),
    /// How often which state was seen.
    states: BTreeMap<String, usize>,
}

impl<'a> Judge<'a> {
    pub fn new(world: &'a World) -> Self {
        let last = vec![FlashJobStatus::default(); world.jobs.len()];
        let moved = (Instant::now(), Vec::new(), 0);
        Self { world, last, looks: 0, moved, states: BTreeMap::new() }
    }

    /// Looks at every job; whether all are finished.
    pub async fn look(&mut self, site: &Site<Field>, flashed: usize) -> Result<bool> {
        self.looks += 1;
        for (number, job) in self.world.jobs.iter().enumerate() {
            let status =
                site.jobs_in(job.namespace).get(job.name).await?.status.unwrap_or_default();
            let wrong = wrong(&status, job);
            ensure!(
                wrong.is_empty(),
                "look {}: {}: {}\n{status:#?}",
                self.looks,
                job.name,
                wrong.join("; ")
            );
            for device in &status.in_flight {
                *self.states.entry(device.state.to_string()).or_default() += 1;
            }
            self.last[number] = status;
        }
        let counts: Vec<Option<Counts>> = self.last.iter().map(|status| status.counts).collect();
        if (&counts, flashed) != (&self.moved.1, self.moved.2) {
            self.moved = (Instant::now(), counts, flashed);
        }
        ensure!(
            self.moved.0.elapsed() < STANDSTILL,
            "nothing has moved for {STANDSTILL:?}: {}",
            self.words()
        );
        Ok(self.last.iter().all(|status| status.completion_time.is_some()))
    }

    /// What the jobs say of themselves.
    pub fn words(&self) -> String {
        let jobs = self.world.jobs.iter().zip(&self.last);
        let words = jobs.map(|(job, status)| {
            format!("{}: {}", job.name, status.message.clone().unwrap_or_default())
        });
        words.collect::<Vec<_>>().join(" | ")
    }

    /// Holds everything against everything, then deletes the jobs and looks for what is left. What there is to tell.
    pub async fn verdict(&self, site: &Site<Field>, trouble: &Trouble) -> Result<Vec<String>> {
        let mut wrong = boards::all(site, self.world);
        let mut failed: BTreeMap<String, usize> = BTreeMap::new();
        let mut unheard = 0;
        for (nth, (job, status)) in self.world.jobs.iter().zip(&self.last).enumerate() {
            let others = self.last.iter().enumerate().filter(|(other, _)| *other != nth);
            let by_others =
                others.flat_map(|(_, s)| s.completed_uuids.iter().map(String::as_str)).collect();
            unheard += account(site, self.world, job, (status, &by_others), &mut wrong);
            for failure in &status.failures {
                *failed.entry(failure.reason.clone()).or_default() += 1;
            }
        }
        wrong.extend(trouble.missed(site)?);
        wrong.extend(leftovers::after(site, self.world).await?);
        for operator in &trouble.operators {
            let log = operator.log();
            wrong.extend(log.lines().filter(|line| line.contains("panicked")).map(str::to_owned));
        }
        wrong.sort();
        let shown = wrong.iter().take(20).cloned().collect::<Vec<_>>().join("\n  ");
        ensure!(wrong.is_empty(), "{} things are wrong:\n  {shown}", wrong.len());
        let mut words = vec![format!("{} looks; states seen {}", self.looks, list(&self.states))];
        if !failed.is_empty() {
            words.push(format!("devices given up: {}", list(&failed)));
        }
        if unheard > 0 {
            words.push(format!("{unheard} of them run the new version and could not be heard"));
        }
        let refused = site.operators.refusals(NAMESPACE, "pods")?;
        if refused > 0 {
            words.push(format!("{refused} Pods refused by the quota"));
        }
        Ok(words)
    }
}

fn list(counts: &BTreeMap<String, usize>) -> String {
    counts.iter().map(|(what, count)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

/// What a status must not be like at any moment.
fn wrong(status: &FlashJobStatus, job: &Job) -> Vec<String> {
    let mut wrong = ill_said(status);
    let Some(counts) = status.counts else { return wrong };
    if counts.total != number(job.boards.len()) {
        wrong.push("a device is not counted".to_owned());
    }
    let ended = counts.succeeded + counts.failed + counts.skipped;
    if status.completion_time.is_some() && ended != counts.total {
        wrong.push("finished, and devices are not".to_owned());
    }
    wrong
}

/// Holds a finished job's account, and what the other jobs say is done, against the boards; how many it has given up that run
/// the new version all the same.
fn account(
    site: &Site<Field>,
    world: &World,
    job: &Job,
    (status, by_others): (&FlashJobStatus, &HashSet<&str>),
    wrong: &mut Vec<String>,
) -> usize {
    let completed: HashSet<&str> = status.completed_uuids.iter().map(String::as_str).collect();
    let failures: HashMap<&str, &str> =
        status.failures.iter().map(|f| (f.uuid.as_str(), f.reason.as_str())).collect();
    let counts = status.counts.unwrap_or_default();
    let counted = (number(completed.len()), number(failures.len()));
    // Skipped, and not done: it is told with what was given up.
    let superseded = number(failures.values().filter(|reason| **reason == SUPERSEDED).count());
    let done = counts.succeeded + counts.skipped - superseded;
    if counted != (done, counts.failed + superseded) {
        wrong.push(format!("{}: {counts:?}, and it lists {counted:?}", job.name));
    }
    let mut unheard = 0;
    for place in &job.boards {
        let (board, kind) = (&site.field.boards[*place], world.boards[*place]);
        let device = site.device_name(board);
        let runs = board.version();
        let failed = failures.get(device.as_str()).copied();
        let done = completed.contains(device.as_str());
        let what = match (done, failed, kind) {
            (true, None, Kind::Silent) => "is silent, and is said to be done",
            (true, None, _) if runs == NEW => continue,
            (true, None, _) => "is said to be done",
            (false, Some(SUPERSEDED), _) if by_others.contains(device.as_str()) => continue,
            (false, Some(SUPERSEDED), _) => "was flashed by no other job",
            (false, Some(_), Kind::Healthy) => "is healthy, and was given up",
            // It took the image and was not seen again, as often as it was asked: then nobody can know.
            (false, Some(_), Kind::Flapping) => {
                unheard += usize::from(runs == NEW);
                continue;
            }
            (false, Some(_), Kind::Silent) if runs != NEW => continue,
            (false, Some(_), Kind::Silent) => "is said to have failed",
            _ => "has no result, or two",
        };
        let failed = failed.unwrap_or_default();
        wrong.push(format!(
            "{}: board {place} {what}: it runs {runs} {failed}\n{:#?}",
            job.name,
            board.ledger()
        ));
    }
    unheard
}

/// How often a board may be asked in all: by each job that has it, once and for each retry.
fn most_attempts(world: &World, board: usize) -> usize {
    world.jobs.iter().filter(|job| job.boards.contains(&board)).count() * (RETRIES + 1)
}

/// When the last healthy board started with the new version, by its own word.
pub fn last_healthy(site: &Site<Field>, world: &World) -> Option<Timestamp> {
    let first = |place: usize| {
        let boots = site.field.boards[place].ledger().boots;
        boots.iter().find(|boot| boot.version == NEW).map(|boot| boot.at)
    };
    world.healthy().filter_map(first).max()
}
