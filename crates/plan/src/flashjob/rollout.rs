//! The rollout: which devices have their turn, and when nothing new may start.
//!
//! Devices have their turn in batches, in the order of the job. A batch is over when each of its devices has a result; the
//! next one begins after the pause. The ledger keeps how far that has come, so that an edit of the batch size or a restart
//! changes nothing about what was begun.

use flashjob_api::flashjob::Reason;
use jiff::Timestamp;

use crate::flashjob::ledger::{Header, Ledger, Outcome, Record};
use crate::flashjob::spec::Spec;
use crate::time::after;

/// What follows for the batch from where the devices stand.
pub enum Turn {
    /// It goes on.
    Same,
    /// The ledger has to say this.
    Next(Box<Header>),
    /// Nothing before then.
    Wait(Timestamp),
}

/// The first place whose turn has not come.
pub fn bound(spec: Option<&Spec>, ledger: &Ledger) -> usize {
    match spec {
        // Without batches every device has its turn at once, also one that is added later.
        Some(spec) if spec.batch_size.is_none() => ledger.records.len(),
        _ => ledger.header.released,
    }
}

/// Says whether the next batch begins.
pub fn turn(spec: &Spec, ledger: &Ledger, now: Timestamp) -> Turn {
    let header = &ledger.header;
    let Some(size) = spec.batch_size else { return Turn::Same };
    let is_over = |r: &Record| !r.is_open() && (r.dropped || result(r, header).is_some());
    let begun = ledger.records.iter().take(header.released).all(is_over);
    let rest = ledger.records.get(header.released..).unwrap_or_default();
    if !begun || rest.iter().all(is_over) {
        return Turn::Same;
    }
    let pause = if header.batch == 0 { 0 } else { spec.delay_seconds };
    match header.batch_ended {
        None if pause > 0 => {
            let ended = Header { batch_ended: Some(now), ..header.clone() };
            return Turn::Next(Box::new(ended));
        }
        Some(ended) if now < after(ended, pause) => return Turn::Wait(after(ended, pause)),
        _ => {}
    }
    // Devices that have left the job or have their result already take no place in a batch.
    let mut left = size.round_up(header.total).max(1);
    let mut released = header.released;
    for record in rest {
        if !is_over(record) {
            if left == 0 {
                break;
            }
            left -= 1;
        }
        released += 1;
    }
    let batch = header.batch + 1;
    let (released_at, batch_ended) = (now, None);
    Turn::Next(Box::new(Header { batch, released, released_at, batch_ended, ..header.clone() }))
}

/// Which batch is under way, of how many, for people.
pub fn batch(spec: &Spec, ledger: &Ledger) -> Option<flashjob_api::flashjob::Batch> {
    let size = spec.batch_size?.round_up(ledger.header.total).max(1);
    let rest = ledger.records.get(ledger.header.released..).unwrap_or_default();
    let left = rest.iter().filter(|r| !r.dropped).count().div_ceil(size);
    let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let current = number(ledger.header.batch);
    Some(flashjob_api::flashjob::Batch { current, of: number(ledger.header.batch + left) })
}

/// Why nothing new may start, for good.
pub fn halt(spec: &Spec, ledger: &Ledger) -> Option<Reason> {
    if spec.abort {
        return Some(Reason::Aborted);
    }
    if tag_has_moved(ledger) {
        return Some(Reason::FirmwareChanged);
    }
    let most = spec.max_failures?.round_down(ledger.header.total);
    (failed(ledger) > most).then_some(Reason::FailureBudgetExceeded)
}

/// Whether a device may begin its first attempt: those that failed, those that are tried again, and those whose failure is
/// seen but not written down yet leave room for it.
pub fn has_room(spec: &Spec, ledger: &Ledger, failing: usize) -> bool {
    let Some(most) = spec.max_failures else { return true };
    let again = |r: &&Record| r.failed().is_some() && !r.dropped;
    let doubtful = ledger.records.iter().filter(again).count();
    failed(ledger) + doubtful + failing <= most.round_down(ledger.header.total)
}

/// Whether two devices got different images in this revision: what the tag names is not what it named before.
fn tag_has_moved(ledger: &Ledger) -> bool {
    let known = ledger.records.iter().filter_map(|r| Some((r, r.ended()?.digest.as_deref()?)));
    let mut digests = known.filter(|(r, _)| r.revision == ledger.header.revision).map(|(_, d)| d);
    digests.next().is_some_and(|first| digests.any(|other| other != first))
}

fn failed(ledger: &Ledger) -> usize {
    let failed = |r: &&Record| result(r, &ledger.header) == Some(Outcome::Failed);
    ledger.records.iter().filter(failed).count()
}

/// A device's result, if it is one for the revision under way.
fn result(record: &Record, header: &Header) -> Option<Outcome> {
    record.outcome().filter(|_| record.revision == header.revision)
}
