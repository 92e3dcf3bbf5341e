//! From a view to a plan: the job as a whole. What one device needs is in `round`.

use std::collections::{HashMap, HashSet};

use flashjob_api::{FlashJobStatus, Reason};
use jiff::Timestamp;

use crate::deletion;
use crate::facts::{LedgerState, View};
use crate::ledger::{Change, Ledger, Record, SHARD_SIZE};
use crate::names;
use crate::plan::{Deletion, Kind, LedgerPlan, Plan};
use crate::prepare::{look_up, pin};
use crate::round::Round;
use crate::spec::Spec;
use crate::status::{self, Verdict};

/// Looks at one job and says what to do.
pub fn decide(view: &View<'_>, now: Timestamp) -> Plan {
    if view.job.deleting {
        return deletion::plan(view, now);
    }
    let ledger = match view.ledger {
        LedgerState::Unknown => return Plan::default(),
        LedgerState::Broken(error) => {
            return lost(view, &format!("the ledger cannot be read: {error}"));
        }
        LedgerState::Absent if view.job.ledger.is_some() => {
            return lost(view, "the ledger of this job is gone");
        }
        LedgerState::Partial(shards) if view.job.ledger.is_none() => {
            let ledger = LedgerPlan::Clear(shards.to_vec());
            return Plan { ledger, ..Plan::default() };
        }
        LedgerState::Partial(_) => return lost(view, "a part of the ledger of this job is gone"),
        LedgerState::Absent => return begin(view, now),
        LedgerState::Sealed(ledger) => ledger,
    };
    if !view.job.finalizer || view.job.ledger.is_none() {
        let name = names::ledger(&view.job.name, &view.job.uid, 0);
        return Plan { mark: Some(name), status: troubled(view), ..Plan::default() };
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
        let verdict = Verdict::Waiting { reason: "WaitingForAkri", message: message.into() };
        return Plan { status: Some(status::plain(job, verdict)), ..Plan::default() };
    };
    let record = |device: &String| {
        let mut record = Record::new(&job.uid, device, &spec.revision, now);
        // Those that are there now are pinned with the first write; it saves one each.
        let found = look_up(view, instances, device).ok().filter(|i| !i.endpoint.is_empty());
        record.pinned = found.map(|instance| pin(spec, instance));
        record
    };
    let records = spec.devices.iter().map(record).collect();
    let ledger = Ledger::new(&job.uid, job.generation, &spec.revision, records, now);
    Plan { ledger: LedgerPlan::Create(ledger), status: troubled(view), ..Plan::default() }
}

/// A job with a ledger.
fn go_on(view: &View<'_>, ledger: &Ledger, now: Timestamp) -> Plan {
    let mut round = Round::new(view, ledger, now);
    if let Ok(spec) = &view.job.spec {
        follow_edits(view, ledger, spec, &mut round.change, now);
    }
    for (index, record) in ledger.records.iter().enumerate() {
        round.step(index, record);
    }
    if !view.settled && !ledger.records.iter().any(|r| r.open && r.permit) {
        // Every permit of an earlier process is withdrawn: what has not started by now never will.
        round.plan.list_pods = true;
    }
    clean_up(view, ledger, &mut round.plan);
    round.record_completion();
    round.into_plan()
}

/// Brings the records in line with an edited spec: another firmware, devices added, devices taken out.
fn follow_edits(
    view: &View<'_>,
    ledger: &Ledger,
    spec: &Spec,
    change: &mut Change,
    now: Timestamp,
) {
    let job = view.job;
    let current =
        ledger.header.generation == job.generation && ledger.header.devices == ledger.records.len();
    if current {
        return;
    }
    let wanted: HashSet<&str> = spec.devices.iter().map(String::as_str).collect();
    let mut known: HashSet<&str> = HashSet::new();
    for (index, record) in ledger.records.iter().enumerate() {
        known.insert(&record.device);
        let dropped = !wanted.contains(record.device.as_str());
        if dropped && record.attempt == 0 && !record.dropped {
            change.records.insert(index, Record { dropped, ..record.clone() });
        } else if !dropped && record.dropped {
            change.records.insert(index, record.renewed(&job.uid, &spec.revision, now));
        }
    }
    // New devices go to the end, one shard at a time, so that records are acknowledged in order.
    let next = ledger.records.len();
    let room = SHARD_SIZE - next % SHARD_SIZE;
    let added: Vec<&String> = spec.devices.iter().filter(|d| !known.contains(d.as_str())).collect();
    for (place, device) in added.iter().take(room).enumerate() {
        change.records.insert(next + place, Record::new(&job.uid, device, &spec.revision, now));
    }
    if added.is_empty() {
        let mut header = ledger.header.clone();
        if header.revision != spec.revision {
            header.completed = None;
        }
        header.revision.clone_from(&spec.revision);
        header.generation = job.generation;
        header.devices = next;
        change.header = Some(header);
    }
}

/// Ends every object that no open attempt needs. An attempt stays open until its result is acknowledged, so nothing
/// here is ended before its result is safe.
fn clean_up(view: &View<'_>, ledger: &Ledger, plan: &mut Plan) {
    let suspended = view.job.spec.as_ref().is_ok_and(|spec| spec.suspend);
    let revision = &ledger.header.revision;
    let records: HashMap<&str, &Record> = ledger
        .records
        .iter()
        .filter(|r| view.children.contains_key(&r.target))
        .map(|r| (r.target.as_str(), r))
        .collect();
    for (target, children) in view.children {
        let record = records.get(target.as_str());
        for (attempt, slot) in &children.pods {
            let wanted = record.is_some_and(|r| r.open && r.attempt == *attempt);
            if wanted || slot.busy {
                continue;
            }
            match slot.here() {
                Some(pod) if pod.deleting.is_none() => plan.deletes.push(Deletion {
                    target: target.clone(),
                    kind: Kind::Pod(*attempt),
                    name: pod.name.clone(),
                    uid: pod.uid.clone(),
                }),
                Some(_) => {}
                None => plan.forget.push((target.clone(), Kind::Pod(*attempt))),
            }
        }
        let wanted = record.is_some_and(|r| {
            let waits = r.outcome.is_none() && !r.dropped && &r.revision == revision;
            r.open || (waits && !suspended)
        });
        if wanted || children.service.busy {
            continue;
        }
        match children.service.here() {
            Some(service) if !service.deleting => plan.deletes.push(Deletion {
                target: target.clone(),
                kind: Kind::Service,
                name: service.name.clone(),
                uid: service.uid.clone(),
            }),
            Some(_) => {}
            None => plan.forget.push((target.clone(), Kind::Service)),
        }
    }
}

/// The status of a job that cannot begin because the server does not take what it has to write first.
fn troubled(view: &View<'_>) -> Option<FlashJobStatus> {
    let trouble = view.trouble?;
    let message = format!("cannot begin, tried again: {trouble}");
    let verdict = Verdict::Waiting { reason: Reason::CreateRefused.as_str(), message };
    Some(status::plain(view.job, verdict))
}

fn stuck(view: &View<'_>, reason: Reason, message: &str) -> Plan {
    let verdict = Verdict::Stuck { reason, message: message.to_owned() };
    Plan { status: Some(status::plain(view.job, verdict)), finished: true, ..Plan::default() }
}

fn lost(view: &View<'_>, what: &str) -> Plan {
    let advice = "; what was flashed is not known any more, so nothing is started. Check the devices, then delete \
                  this FlashJob and create it anew for those that still need the firmware";
    stuck(view, Reason::LedgerLost, &format!("{what}{advice}"))
}
