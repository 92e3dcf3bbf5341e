//! What a job would do, before it is made: each device's batch, or why it would not be flashed.
//!
//! Nothing is worked out a second time here. The job's first reconcile makes the ledger, `rollout::turn` is asked for one
//! batch after the other as if each went well, and one `Round` with room for all says what would become of each device.

use std::collections::HashMap;

use flashjob_api::flashjob::{DeviceState, VersionPolicy};
use jiff::Timestamp;

use crate::flashjob::addresses::Addresses;
use crate::flashjob::decide::decide;
use crate::flashjob::endpoint::Endpoint;
use crate::flashjob::facts::{Job, LedgerState, Settings, View};
use crate::flashjob::instances::Instances;
use crate::flashjob::ledger::{self, DeviceProgress, Ledger, Outcome, Pinned, Record, RecordedEnd};
use crate::flashjob::locks::{Lock, Locks, Seniority};
use crate::flashjob::plan::LedgerPlan;
use crate::flashjob::rollout::{self, Turn};
use crate::flashjob::round::Round;
use crate::flashjob::spec::Spec;
use crate::flashjob::step::{Step, Wait};

/// What would become of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is flashed.
    Flash,
    /// It is left out on purpose.
    Skip,
    /// It is refused, and counts as failed.
    Refuse,
    /// It waits for another job.
    Blocked,
    /// It is not there now: it is waited for.
    Offline,
}

/// One device of the job.
#[derive(Clone, Debug, PartialEq)]
pub struct Foreseen {
    /// As the job names it.
    pub device: String,
    /// The Instance it is now.
    pub instance: Option<Pinned>,
    /// Its batch, from 1; `None` for one that takes no place.
    pub batch: Option<usize>,
    /// What would become of it.
    pub fate: Fate,
    /// Why, where that needs saying.
    pub why: String,
}

/// Says what the job would do if it began now. `Err`: why it would not begin.
pub fn preview(
    job: &Job,
    settings: &Settings,
    instances: &Instances,
    locks: &Locks,
    now: Timestamp,
) -> Result<Vec<Foreseen>, String> {
    let spec = job.spec.as_ref().map_err(|invalid| invalid.0.clone())?;
    let (children, addresses) = (HashMap::new(), Addresses::default());
    let view = |job, ledger| View {
        job,
        first_seen: now,
        settings,
        ledger,
        instances: Some(instances),
        children: &children,
        recovered: true,
        trouble: None,
        locks,
        addresses: &addresses,
        status_due: true,
    };
    // Held or not: what would it do once it goes?
    let free = Spec { suspend: false, abort: false, ..spec.clone() };
    let begun = Job { spec: Ok(free.clone()), ledger: None, ..job.clone() };
    let first = decide(&view(&begun, LedgerState::Absent), now);
    let LedgerPlan::Create(ledger) = first.ledger else {
        let why = first.status.and_then(|status| status.message);
        return Err(why.unwrap_or_else(|| "the job would not begin".to_owned()));
    };
    let batches = batches(&free, &ledger, now);
    let all_at_once = Spec { batch_size: None, max_parallel: usize::MAX, ..free };
    let job = Job { spec: Ok(all_at_once), ..begun.clone() };
    let view = view(&job, LedgerState::Sealed(&ledger));
    let mut round = Round::new(&view, &ledger, now);
    let devices = ledger.records.iter().enumerate().map(|(index, record)| {
        let (fate, why) = match record.outcome() {
            Some(_) => (Fate::Skip, record.message().unwrap_or_default().to_owned()),
            None => {
                let step = round.step(index, record, false);
                let foreseen = foresee(&round, record, spec, &step);
                round.take(index, record, step);
                foreseen
            }
        };
        let batch = batches[index];
        let (device, instance) = (record.device.clone(), record.pinned.clone());
        Foreseen { device, instance, batch, fate, why }
    });
    Ok(devices.collect())
}

/// Another job that is under way, as far as it is known.
pub struct Other<'a> {
    pub job: Job,
    /// Its ledger, if that may be read.
    pub ledger: Option<&'a Ledger>,
    /// The boards that its status says it is at.
    pub at_work: Vec<Endpoint>,
}

/// What other jobs have to do with which board: each is reconciled as the operator does, the oldest first.
pub fn locks(
    new: &Job,
    mut others: Vec<Other<'_>>,
    instances: &Instances,
    settings: &Settings,
    now: Timestamp,
) -> Locks {
    let place = |job: &Job| Seniority {
        created: job.created,
        namespace: job.namespace.clone(),
        name: job.name.clone(),
    };
    let mut locks = Locks::default();
    locks.introduce(&new.uid, place(new));
    for instance in instances.iter() {
        locks.know(&new.uid, &instance.endpoint);
    }
    others.retain(|other| other.job.name != new.name || other.job.namespace != new.namespace);
    others.sort_by_key(|other| place(&other.job));
    for Other { job, ledger, .. } in &others {
        locks.introduce(&job.uid, place(job));
        for record in ledger.iter().flat_map(|ledger| &ledger.records) {
            locks.learn(&job.uid, record);
        }
    }
    let (children, addresses) = (HashMap::new(), Addresses::default());
    for Other { job, ledger, at_work } in others {
        let at_work = at_work.iter().map(|endpoint| Lock::board(endpoint).into_owned());
        let mut held: Vec<_> = at_work.collect();
        if let Some(ledger) = ledger {
            let view = View {
                job: &job,
                first_seen: now,
                settings,
                ledger: LedgerState::Sealed(ledger),
                instances: Some(instances),
                children: &children,
                recovered: true,
                trouble: None,
                locks: &locks,
                addresses: &addresses,
                status_due: true,
            };
            let plan = decide(&view, now);
            held.extend(plan.held_locks.into_iter().flatten());
            locks.want(&job.uid, plan.wanted_locks);
        }
        held.sort();
        held.dedup();
        locks.hold(&job.uid, held);
    }
    locks
}

/// The batch of each device, from the first on, if every batch goes well. Duplicates and what has left the job have none.
pub fn batches(spec: &Spec, ledger: &Ledger, now: Timestamp) -> Vec<Option<usize>> {
    let takes_a_place = |record: &Record| !record.is_duplicate() && !record.dropped;
    if spec.batch_size.is_none() {
        return ledger.records.iter().map(|r| takes_a_place(r).then_some(1)).collect();
    }
    let spec = Spec { delay_seconds: 0, ..spec.clone() };
    let mut ledger = ledger.clone();
    for record in ledger.records.iter_mut().filter(|r| takes_a_place(r)) {
        record.progress = DeviceProgress::Waiting(None);
    }
    (ledger.header.batch, ledger.header.released, ledger.header.batch_ended) = (0, 0, None);
    let mut batches = vec![None; ledger.records.len()];
    while let Turn::Next(header) = rollout::turn(&spec, &ledger, now) {
        let places = ledger.header.released..header.released.min(batches.len());
        for (record, batch) in ledger.records[places.clone()].iter_mut().zip(&mut batches[places]) {
            if record.outcome().is_none() {
                *batch = Some(header.batch);
                let (outcome, ended) = (Outcome::Succeeded, RecordedEnd::default());
                record.progress = DeviceProgress::Final { outcome, tries: 0, ended };
            }
        }
        ledger.header = *header;
    }
    batches
}

/// What a device's first step says of it.
fn foresee(round: &Round<'_>, record: &Record, spec: &Spec, step: &Step) -> (Fate, String) {
    if let Some(next) = step.record().filter(|next| next.outcome().is_some()) {
        let message = next.message().unwrap_or_default().to_owned();
        let why = match next.reason() {
            Some(reason) => format!("{reason}: {message}"),
            None => message,
        };
        let failed = next.outcome() == Some(Outcome::Failed);
        return (if failed { Fate::Refuse } else { Fate::Skip }, why);
    }
    match step.wait() {
        Some(Wait { state: DeviceState::Offline, why, .. }) => {
            return (Fate::Offline, ledger::message(why));
        }
        Some(Wait { state: DeviceState::Blocked, why, .. }) => {
            return (Fate::Blocked, ledger::message(why));
        }
        _ => {}
    }
    let runs = round.find(record).map(|instance| instance.version.as_str()).unwrap_or_default();
    if spec.version_policy == VersionPolicy::IfDifferent && runs == spec.version {
        return (Fate::Skip, format!("it reports {runs} already"));
    }
    (Fate::Flash, String::new())
}
