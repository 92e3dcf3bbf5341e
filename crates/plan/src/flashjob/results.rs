//! Writes results down: the end of an attempt, of a device's whole way, and of the job.

use std::num::NonZeroU32;

use flashjob_api::flashjob::{DeviceState, Reason};
use jiff::Timestamp;

use crate::flashjob::end::End;
use crate::flashjob::facts::Pod;
use crate::flashjob::ledger::{self, DeviceProgress, Failed, Outcome, Record, RecordedEnd};
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
        let ended = RecordedEnd {
            at: Some(self.now),
            reason: end.reason.map(|r| r.as_str().to_owned()),
            message: Some(message.clone()).filter(|m| !m.is_empty()),
            digest: end.digest.as_deref().map(ledger::message),
        };
        // Only an attempt whose Pod was made counts, and only such a one is made again.
        let made = record.is_open() && (pod.is_some() || end.reason == Some(Reason::PodLost));
        let failed = made && end.outcome == Outcome::Failed;
        let tries = record.tries().saturating_add(u32::from(failed));
        let retried = failed && end.reason.is_some_and(Reason::is_retried);
        let next = match NonZeroU32::new(tries).filter(|_| retried && tries <= self.retry_limit()) {
            Some(tries) => {
                let retry_at = self.back_off(tries.get());
                let failed = Failed { tries, ended, retry_at: Some(retry_at) };
                let progress = DeviceProgress::Waiting(Some(failed));
                Record { progress, turn: retry_at, ..record.clone() }
            }
            None => {
                let progress = DeviceProgress::Final { outcome: end.outcome, tries, ended };
                Record { progress, ..record.clone() }
            }
        };
        let attempt_end = AttemptEnd {
            index,
            device: record.device.clone(),
            endpoint: record.pinned.as_ref().map(|p| p.endpoint.clone()).unwrap_or_default(),
            attempt: if made { record.attempt } else { 0 },
            result: end.result().to_owned(),
            message,
            seconds: pod.map(|p| self.now.duration_since(p.first_seen).as_secs()),
        };
        recording().since(self.now).then(Action::End(Box::new((next, attempt_end))))
    }

    /// A spec that cannot be read makes nothing final: what it means will be known when it is mended.
    fn retry_limit(&self) -> u32 {
        self.spec.map_or(u32::MAX, |s| s.retry_limit)
    }

    /// When a device is tried again that has failed so often.
    fn back_off(&self, tries: u32) -> Timestamp {
        let first = self.spec.map_or(10, |s| s.backoff_seconds);
        let doubled = first.saturating_mul(1 << tries.saturating_sub(1).min(10));
        after(self.now, doubled.min(LONGEST_BACKOFF_SECONDS))
    }

    /// Writes down when the last device got its result, with that result where one ConfigMap holds both. A job that was
    /// halted is at its end when nothing is under way any more.
    pub fn record_completion(&mut self) {
        let final_now = |(index, record): (usize, &Record)| {
            let next = self.change.records.get(&index).unwrap_or(record);
            !next.is_open() && (next.dropped || next.outcome().is_some() || self.halt.is_some())
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
pub(crate) fn given_up(record: &Record, failed: &Failed) -> Step {
    let Failed { tries, ended, .. } = failed.clone();
    let wait = recording().since(ended.at);
    let progress = DeviceProgress::Final { outcome: Outcome::Failed, tries: tries.get(), ended };
    wait.then(Action::Write(Record { progress, ..record.clone() }))
}

fn recording() -> Wait {
    Wait::new(DeviceState::Recording, "writing down its result")
}
