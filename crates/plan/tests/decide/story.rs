//! Tells what happens in plain text: lines that begin with `»` are what the world does, those below what the operator
//! makes of it. The texts in `stories/` are read by people who want to know the rules, and compared by tests.

use std::fmt::Write as _;
use std::path::Path;

use flashjob_plan::flashjob::ids::Target;
use flashjob_plan::flashjob::ledger::{Header, Ledger, Outcome, Record};
use flashjob_plan::flashjob::locks::Locks;
use flashjob_plan::flashjob::{Kind, LedgerPlan, NewObject, Plan};
use jiff::Timestamp;

use crate::world::World;

pub struct Story {
    pub jobs: Vec<World>,
    locks: Locks,
    statuses: Vec<String>,
    told_at: Option<Timestamp>,
    text: String,
}

impl Story {
    /// A story of these jobs, the older first, with the rule it shows. Addresses come when the story says so.
    pub fn new(title: &str, rule: &str, jobs: Vec<World>) -> Story {
        let mut locks = Locks::default();
        let mut jobs = jobs;
        for world in &mut jobs {
            world.addresses = false;
            let Some(seniority) = world.locks.seniority(&world.job.uid) else { continue };
            locks.introduce(&world.job.uid, seniority.clone());
        }
        let statuses = vec![String::new(); jobs.len()];
        let text = format!("{title}\n{}\n{rule}\n", "=".repeat(title.len()));
        Story { jobs, locks, statuses, told_at: None, text }
    }

    /// Something happens, and the operator does what follows from it, until there is nothing more to do.
    pub fn then(&mut self, what: &str, change: impl FnOnce(&mut [World])) {
        let now = self.jobs[0].now;
        let clock = clock(now);
        let clock = if self.told_at == Some(now) { "" } else { clock.as_str() };
        write!(self.text, "\n{clock:>5}  » {what}\n").unwrap();
        self.told_at = Some(now);
        change(&mut self.jobs);
        self.rest();
    }

    /// Time passes.
    pub fn after(&mut self, seconds: i64, what: &str, change: impl FnOnce(&mut [World])) {
        self.jobs.iter_mut().for_each(|world| world.after(seconds));
        self.then(what, change);
    }

    fn rest(&mut self) {
        for _ in 0..40 {
            let mut quiet = true;
            for number in 0..self.jobs.len() {
                quiet &= self.reconcile(number);
            }
            if quiet {
                return;
            }
        }
        panic!("it does not come to rest:\n{}", self.text);
    }

    /// One reconcile of one job. Says whether there was nothing to do.
    fn reconcile(&mut self, number: usize) -> bool {
        let world = &mut self.jobs[number];
        std::mem::swap(&mut world.locks, &mut self.locks);
        let before = world.ledger.clone();
        let plan = world.step();
        std::mem::swap(&mut world.locks, &mut self.locks);
        let mut lines = Vec::new();
        describe(&plan, before.as_ref(), world, &mut lines);
        let quiet = lines.is_empty() && plan.forget.is_empty();
        if let Some(status) = status(&plan).filter(|_| quiet && plan.status.is_some())
            && status != self.statuses[number].as_str()
        {
            lines.push(("status", status.clone()));
            self.statuses[number] = status;
        }
        let name = world.job.name.clone();
        let whose = if self.jobs.len() > 1 { format!("{name:<5} ") } else { String::new() };
        for (what, words) in lines {
            let indent = " ".repeat(7 + whose.len() + 8);
            let words = words.replace('\n', &format!("\n{indent}"));
            writeln!(self.text, "       {whose}{what:<7} {words}").unwrap();
        }
        quiet
    }

    /// Compares with what is kept; `UPDATE_GOLDEN=1` keeps this instead.
    #[expect(clippy::disallowed_methods)] // a test has no arguments
    pub fn ends(self, file: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decide/stories").join(file);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &self.text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        let differs = kept.lines().zip(self.text.lines()).position(|(old, new)| old != new);
        let line = differs.map_or("at its end".into(), |line| format!("in line {}", line + 1));
        assert!(
            kept == self.text,
            "{} differs {line}; UPDATE_GOLDEN=1 keeps what is now:\n{}",
            path.display(),
            self.text
        );
    }
}

type Lines = Vec<(&'static str, String)>;

fn describe(plan: &Plan, before: Option<&Ledger>, world: &World, lines: &mut Lines) {
    let names = |target: &Target| {
        let records = world.ledger.iter().flat_map(|ledger| &ledger.records);
        records.clone().find(|r| &r.target == target).map_or("?".into(), |r| r.device.clone())
    };
    match &plan.ledger {
        LedgerPlan::Create(ledger) => {
            let devices: Vec<&str> = ledger.records.iter().map(|r| r.device.as_str()).collect();
            lines.push(("ledger", format!("begins, with {}", devices.join(", "))));
        }
        LedgerPlan::Update(change) => {
            let before = before.unwrap();
            for (index, record) in &change.records {
                if let Some(words) = entry(before.records.get(*index), record) {
                    lines.push(("ledger", format!("{}: {words}", record.device)));
                }
            }
            if let Some(words) = change.header.as_ref().and_then(|h| header(&before.header, h)) {
                lines.push(("ledger", words));
            }
        }
        LedgerPlan::Keep | LedgerPlan::Clear(_) => {}
    }
    if plan.add_finalizer.is_some() {
        lines.push(("job", "gets our finalizer and the name of its ledger".into()));
    }
    for object in &plan.creates {
        lines.push(match object {
            NewObject::Service { target, .. } => ("make", format!("Service of {}", names(target))),
            NewObject::Pod { target, attempt, .. } => {
                ("make", format!("Pod {attempt} of {}", names(target)))
            }
        });
    }
    if plan.list_pods {
        lines.push(("list", "the job's Pods, past every cache".into()));
    }
    let mut ends: Vec<String> = Vec::new();
    for deletion in &plan.deletes {
        let device = names(&deletion.target);
        ends.push(match deletion.kind {
            Kind::Service => format!("Service of {device}"),
            Kind::Pod(attempt) => format!("Pod {attempt} of {device}"),
        });
    }
    ends.sort();
    lines.extend(ends.into_iter().map(|what| ("delete", what)));
}

/// What is new in the record of a device.
fn entry(old: Option<&Record>, new: &Record) -> Option<String> {
    let Some(old) = old else { return Some("added".into()) };
    let reason = new.reason().unwrap_or_default();
    let message = new.message().map(|m| format!(" ({m})")).unwrap_or_default();
    if let Some(outcome) = new.outcome().filter(|_| old.outcome().is_none()) {
        return Some(match outcome {
            Outcome::Succeeded => "Succeeded".into(),
            Outcome::Failed => format!("Failed, {reason}{message}"),
            Outcome::Skipped => format!("Skipped, {reason}{message}"),
        });
    }
    let attempt = new.attempt;
    match (old.is_open(), new.is_open()) {
        (false, true) => Some(format!("a permit for attempt {attempt}")),
        (true, true) if old.has_permit() && !new.has_permit() => {
            Some(format!("the permit for attempt {attempt} is withdrawn"))
        }
        (true, false) if new.tries() > old.tries() => {
            let again = new.failed().and_then(|failed| failed.retry_at);
            let again = again.map(clock).unwrap_or_default();
            Some(format!("attempt {attempt} failed, {reason}{message}; again at {again}"))
        }
        (true, false) => Some(format!("attempt {attempt} never began and is not counted")),
        _ if old.revision != new.revision => Some("due again".into()),
        _ if old.pinned != new.pinned => {
            let pinned = new.pinned.as_ref()?;
            Some(format!("is {}/{} at {}", pinned.namespace, pinned.name, pinned.endpoint))
        }
        _ => None,
    }
}

/// What is new in the header.
fn header(old: &Header, new: &Header) -> Option<String> {
    let mut words = Vec::new();
    match (old.suspended, new.suspended) {
        (None, Some(_)) => words.push("held; clocks stand still".to_owned()),
        (Some(_), None) => words.push("goes on; clocks go on where they were".to_owned()),
        _ => {}
    }
    if new.revision != old.revision {
        words.push("another firmware".into());
    }
    if new.batch != old.batch {
        words.push(format!("batch {} begins", new.batch));
    }
    if new.batch_ended.is_some() && old.batch_ended.is_none() {
        words.push(format!("batch {} is over", new.batch));
    }
    if new.completed.is_some() && old.completed.is_none() {
        words.push("nothing is left to do".into());
    }
    if words.is_empty() && new.generation != old.generation {
        words.push("the edit is taken in".into());
    }
    (!words.is_empty()).then(|| words.join("; "))
}

fn status(plan: &Plan) -> Option<String> {
    let status = plan.status.as_ref()?;
    let mut text = format!("{:?}: {}", status.phase?, status.message.as_ref()?);
    for device in &status.in_flight {
        let message = device.message.clone().unwrap_or_default();
        write!(text, "\n{}: {}, {message}", device.uuid, device.state).unwrap();
    }
    Some(text)
}

fn clock(at: Timestamp) -> String {
    let seconds = at.as_second();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
