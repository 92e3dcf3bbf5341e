//! From a view to a plan: the job as a whole. What one device needs is in `round`.

use flashjob_api::flashjob::{FlashJobStatus, Reason};
use jiff::Timestamp;

use crate::flashjob::collect::is_quiet;
use crate::flashjob::deletion;
use crate::flashjob::duplicates::Places;
use crate::flashjob::edits::{Edits, chosen};
use crate::flashjob::facts::{Job, LedgerState, View};
use crate::flashjob::finding::{look_up, pin};
use crate::flashjob::in_use::locks_at_work;
use crate::flashjob::ledger::{self, DeviceProgress, Ledger, MOST_DEVICES, Record};
use crate::flashjob::locks::Lock;
use crate::flashjob::names;
use crate::flashjob::plan::{LedgerPlan, Plan};
use crate::flashjob::rollout::{self, Turn};
use crate::flashjob::round::Round;
use crate::flashjob::spec::Invalid;
use crate::flashjob::status::{self, Conclusion};
use crate::time::after;

/// Says what to do for one job now.
pub fn decide(view: &View<'_>, now: Timestamp) -> Plan {
    if view.job.deleting {
        return deletion::plan(view, now);
    }
    let ledger = match view.ledger {
        LedgerState::Unknown => return Plan::default(),
        LedgerState::Broken(error) => {
            return lost(view, &format!("the ledger cannot be read: {error}"), now);
        }
        LedgerState::Absent if view.job.ledger.is_some() => {
            return lost(view, "the ledger of this job is gone", now);
        }
        LedgerState::Partial(shards) if view.job.ledger.is_none() => {
            let ledger = LedgerPlan::Clear(shards.to_vec());
            return Plan { ledger, ..Plan::default() };
        }
        LedgerState::Partial(_) => {
            return lost(view, "a part of the ledger of this job is gone", now);
        }
        LedgerState::Absent => return begin(view, now),
        LedgerState::Sealed(ledger) => ledger,
    };
    if !view.job.finalizer || view.job.ledger.is_none() {
        let name = names::ledger(&view.job.name, &view.job.uid, 0);
        let wanted_locks = first_wanted(view, ledger);
        return Plan {
            add_finalizer: Some(name),
            status: troubled(view),
            wanted_locks,
            ..Plan::default()
        };
    }
    go_on(view, ledger, now)
}

/// A job without a ledger: write down its devices before anything else happens.
fn begin(view: &View<'_>, now: Timestamp) -> Plan {
    let job = view.job;
    let spec = match &job.spec {
        Ok(spec) => spec,
        Err(invalid) => return stuck(view, Reason::InvalidSpec, &invalid.0),
    };
    let Some(instances) = view.instances else {
        let message = "waiting for Akri: its CRD instances.akri.sh is not installed";
        let conclusion = Conclusion::Waiting { reason: "WaitingForAkri", message: message.into() };
        return Plan { status: Some(status::plain(job, conclusion)), ..Plan::default() };
    };
    if instances.listing {
        return Plan::default();
    }
    let mut places = Places::default();
    let record = |(index, device): (usize, &String)| {
        let mut record = Record::new(&job.uid, device, &spec.revision, now);
        record.nonce.clone_from(&spec.nonce);
        // Those that are there now are pinned with the first write; it saves one each.
        let found = look_up(view, instances, device).ok().filter(|i| !i.endpoint.is_empty());
        record.pinned = found.map(|instance| pin(spec, instance));
        if let Some(pinned) = record.pinned.clone() {
            let first = places.at(&pinned).next();
            match first.and_then(|first| spec.devices.get(first)) {
                Some(first) => record = record.as_duplicate_of(first, now),
                None => places.add(index, &pinned),
            }
        }
        record
    };
    let mut records: Vec<Record> = spec.devices.iter().enumerate().map(record).collect();
    let more = chosen(view, spec, &records, now);
    records.extend(more);
    if records.is_empty() {
        let message = "no device fits spec.deviceSelector yet".into();
        let conclusion = Conclusion::Waiting { reason: "NoDevices", message };
        return Plan { status: Some(status::plain(job, conclusion)), ..Plan::default() };
    }
    if records.len() > MOST_DEVICES {
        let plan = stuck(view, Reason::InvalidSpec, &too_many(records.len()));
        // A selector may find less another time.
        return Plan { idle: false, ..plan };
    }
    let mut ledger =
        Ledger::new(&job.uid, job.generation, (&spec.firmware, &spec.version), records, now);
    if job.generation == 1 {
        // The firmware was wished for when the job was made, however late it is seen: what a newer job has flashed since
        // then is not undone. (The API server keeps whole seconds. What was flashed in that second counts as before, unless
        // the job had been seen by then.)
        ledger.header.revised = after(job.created, 1).min(view.first_seen).min(now);
    }
    match rollout::turn(spec, &ledger, now) {
        _ if spec.suspend => ledger.header.suspended = Some(now),
        Turn::Next(header) => ledger.header = *header,
        Turn::Same | Turn::Wait(_) => {}
    }
    let (wanted_locks, status) = (first_wanted(view, &ledger), troubled(view));
    Plan { ledger: LedgerPlan::Create(ledger), status, wanted_locks, ..Plan::default() }
}

/// The locks on the boards that a job will flash as soon as it has begun: a newer job must not slip in before it.
fn first_wanted(view: &View<'_>, ledger: &Ledger) -> Vec<Lock<'static>> {
    let Some(spec) = view.job.spec.as_ref().ok().filter(|s| !s.suspend && !s.abort) else {
        return Vec::new();
    };
    if view.trouble.is_some() {
        // It cannot begin and says so; others need not wait for that.
        return Vec::new();
    }
    let records = ledger.records.iter().take(rollout::bound(Some(spec), ledger));
    records.filter(|r| r.outcome().is_none()).filter_map(Record::lock).collect()
}

/// A job with a ledger.
fn go_on(view: &View<'_>, ledger: &Ledger, now: Timestamp) -> Plan {
    let edits = Edits::of(view, ledger, now);
    if edits.too_many > 0 {
        // As with any slip in the spec: what is under way goes on, nothing new starts until it is mended.
        let spec = Err(Invalid(too_many(edits.too_many)));
        let job = Job { spec, ..view.job.clone() };
        let plan = go_on(&View { job: &job, ..*view }, ledger, now);
        return Plan { idle: false, ..plan };
    }
    let mut round = Round::new(view, ledger, now);
    // Devices that failed before give way to those not tried yet: a board that never answers must not keep the places and
    // addresses of boards that would.
    let again = |record: &Record| matches!(record.progress, DeviceProgress::Waiting(Some(_)));
    for turn in [false, true] {
        for (index, record) in ledger.records.iter().enumerate() {
            if again(record) == turn {
                let leaves = edits.dropped.get(&index) == Some(&true);
                let step = round.step(index, record, leaves || record.dropped);
                round.take(index, record, step);
            }
        }
    }
    edits.merge(ledger, &mut round.change, now);
    round.take_turns();
    if !view.recovered && !ledger.records.iter().any(Record::has_permit) {
        // Every permit of an earlier process is withdrawn: what has not started by now never will.
        round.plan.list_pods = true;
    }
    round.clean_up();
    round.record_completion();
    round.into_plan()
}

/// The status of a job that cannot begin because the server does not take what it has to write first.
fn troubled(view: &View<'_>) -> Option<FlashJobStatus> {
    let trouble = view.trouble?;
    let message = format!("cannot begin, tried again: {trouble}");
    let conclusion = Conclusion::Waiting { reason: Reason::CreateRefused.as_str(), message };
    Some(status::plain(view.job, conclusion))
}

/// For a job whose reconcile has ended in a panic: `decide` or something it stands on has a fault. Nothing is done for it,
/// and the boards it holds stay its own, until a reconcile at `again` or with another spec goes well.
pub fn internal_error(job: &Job, fault: &str, again: Timestamp) -> Plan {
    let message = format!(
        "the operator has a fault that this job has met: {}. Nothing is started for it, other jobs go on. Report it with the \
         operator's log line \"the reconcile of a job panicked\". It is tried again at {}, when the spec changes, and when the \
         operator restarts",
        ledger::message(fault),
        again.strftime("%H:%M:%S UTC")
    );
    let conclusion = Conclusion::Stuck { reason: Reason::InternalError, message };
    let status = Some(status::plain(job, conclusion));
    Plan { status, finished: true, next_reconcile: Some(again), ..Plan::default() }
}

fn too_many(devices: usize) -> String {
    format!(
        "spec asks for {devices} devices, with those that were taken out; {MOST_DEVICES} is the most, make another job for the \
         rest"
    )
}

fn stuck(view: &View<'_>, reason: Reason, message: &str) -> Plan {
    let conclusion = Conclusion::Stuck { reason, message: message.to_owned() };
    let (status, idle) = (Some(status::plain(view.job, conclusion)), is_quiet(view));
    Plan { status, idle, finished: true, ..Plan::default() }
}

fn lost(view: &View<'_>, what: &str, now: Timestamp) -> Plan {
    let advice = "; what was flashed is not known any more, so nothing is started. Check the devices, then delete \
                  this FlashJob and create it anew for those that still need the firmware";
    let plan = stuck(view, Reason::LedgerLost, &format!("{what}{advice}"));
    Plan { held_locks: Some(locks_at_work(view, now)), ..plan }
}
