//! Writes results down: the end of an attempt, of a device's whole way, and of the job.

use flashjob_api::flashjob::{DeviceState, Reason};

use crate::flashjob::end::End;
use crate::flashjob::facts::Pod;
use crate::flashjob::ledger::{self, Outcome, Record};
use crate::flashjob::plan::AttemptEnd;
use crate::flashjob::round::Round;
use crate::flashjob::step::{Action, Step, Wait};
use crate::time::after;

/// The longest pause before a retry.
const LONGEST_BACKOFF_SECONDS: i64 = 300;

impl Round<'_> {
    /// Records the end of an attempt, or of the device's whole way.
    pub(crate) fn end(&self, index: usize, record: &Record, pod: Option<&Pod>, end: End) -> Step {
        let message = ledger::message(&end.message);
        let mut next = Record {
            open: false,
            permit: false,
            retry_at: None,
            ended: Some(self.now),
            digest: end.digest.as_deref().map(ledger::message),
            reason: end.reason.map(|r| r.as_str().to_owned()),
            message: Some(message.clone()).filter(|m| !m.is_empty()),
            ..record.clone()
        };
        // Only an attempt whose Pod was made counts, and only such a one is made again.
        let made = record.open && (pod.is_some() || end.reason == Some(Reason::PodLost));
        let failed = made && end.outcome == Outcome::Failed;
        next.tries = next.tries.saturating_add(u32::from(failed));
        // A spec that cannot be read makes nothing final: what it means will be known when it is mended.
        let limit = self.spec.map_or(u32::MAX, |s| s.retry_limit);
        if failed && end.reason.is_some_and(Reason::is_retried) && next.tries <= limit {
            let first = self.spec.map_or(10, |s| s.backoff_seconds);
            let doubled = first.saturating_mul(1 << next.tries.saturating_sub(1).min(10));
            let again_at = after(self.now, doubled.min(LONGEST_BACKOFF_SECONDS));
            next.retry_at = Some(again_at);
            next.turn = again_at;
        } else {
            next.outcome = Some(end.outcome);
        }
        let ended = AttemptEnd {
            index,
            device: record.device.clone(),
            endpoint: record.pinned.as_ref().map(|p| p.endpoint.clone()).unwrap_or_default(),
            attempt: if made { record.attempt } else { 0 },
            result: end.result().to_owned(),
            message,
            seconds: pod.map(|p| self.now.duration_since(p.first_seen).as_secs()),
        };
        recording().since(self.now).then(Action::End(Box::new((next, ended))))
    }

    /// Writes down when the last device got its result, with that result where one ConfigMap holds both. A job that was
    /// halted is at its end when nothing is under way any more.
    pub fn record_completion(&mut self) {
        let final_now = |(index, record): (usize, &Record)| {
            let next = self.change.records.get(&index).unwrap_or(record);
            !next.open && (next.dropped || next.outcome.is_some() || self.halt.is_some())
        };
        let in_one_write = self.ledger.shards() == 1 || self.change.records.is_empty();
        let header = self.change.header.as_ref().unwrap_or(&self.ledger.header);
        let all_final = self.ledger.records.iter().enumerate().all(final_now)
            && self.change.records.keys().all(|index| *index < self.ledger.records.len());
        let completed = match header.completed {
            None if all_final && in_one_write => Some(self.now),
            Some(_) if !all_final => None,
            unchanged => unchanged,
        };
        if completed != header.completed {
            let mut header = header.clone();
            header.completed = completed;
            self.change.header = Some(header);
        }
    }
}

/// No attempt follows the one that failed: how that one ended is the device's result.
pub(crate) fn given_up(record: &Record) -> Step {
    let (outcome, retry_at) = (Some(Outcome::Failed), None);
    let failed = Record { outcome, retry_at, ..record.clone() };
    recording().since(record.ended).then(Action::Write(failed))
}

fn recording() -> Wait {
    Wait::new(DeviceState::Recording, "writing down its result")
}
