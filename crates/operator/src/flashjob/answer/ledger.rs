//! Takes in what writes and reads of ledgers came to.

use flashjob_plan::flashjob::AttemptEnd;
use flashjob_plan::flashjob::ids::JobUid;

use crate::flashjob::controller::FlashJobController;
use crate::flashjob::input::LedgerAnswer;
use crate::flashjob::ledger_cache::LedgerCache;
use crate::process::client::error_message;

impl FlashJobController {
    pub(super) fn ledger_answered(&mut self, uid: &JobUid, answer: LedgerAnswer) {
        match answer {
            LedgerAnswer::Created(Ok(shards)) => {
                self.replace_ledger(uid, LedgerCache::read(uid, shards));
                if let Some(job) = self.jobs.get_mut(uid) {
                    job.write_succeeded();
                }
            }
            LedgerAnswer::Cleared(Ok(())) => self.replace_ledger(uid, LedgerCache::absent()),
            LedgerAnswer::Created(Err(error)) | LedgerAnswer::Cleared(Err(error)) => {
                self.reread_ledger(uid, &error, true);
            }
            LedgerAnswer::Flushed { shard, took, result, ended } => {
                self.context.metrics.ledger_flushed(took, result.is_ok());
                match result {
                    Ok(acknowledged) => {
                        if let Some(job) = self.jobs.get_mut(uid) {
                            let changed = job.ledger.acknowledge(shard, acknowledged);
                            for record in changed.iter().flat_map(|c| c.records.values()) {
                                self.locks.learn(uid, record);
                                job.concerns.learn(record);
                            }
                            job.write_succeeded();
                        }
                        self.report(uid, ended);
                    }
                    Err(error) => self.reread_ledger(uid, &error, false),
                }
            }
            LedgerAnswer::Read { result: Ok(fresh), .. } => {
                let Some(job) = self.jobs.get_mut(uid) else { return };
                let arrived = job.ledger.writes_arrived(&fresh);
                let recovered = job.recovered && (arrived || job.ledger.sealed() == fresh.sealed());
                let open = fresh.sealed().is_some_and(|l| l.has_open_attempts());
                job.recovered = recovered || !open;
                if arrived {
                    job.write_succeeded();
                }
                self.replace_ledger(uid, *fresh);
            }
            LedgerAnswer::Read { result: Err(error), anything } => {
                self.reread_ledger(uid, &error_message(&error), anything);
            }
        }
    }

    fn replace_ledger(&mut self, uid: &JobUid, ledger: LedgerCache) {
        if let Some(job) = self.jobs.get_mut(uid) {
            job.ledger = ledger;
        }
        self.learn_ledger(uid);
    }

    /// The record of an attempt that outlives the job: one log line, and the metrics.
    fn report(&mut self, uid: &JobUid, ended: Vec<AttemptEnd>) {
        let Some(job) = self.jobs.get(uid) else { return };
        let job = format!("{}/{}", job.seen.job.namespace, job.seen.job.name);
        for end in ended {
            self.context.metrics.attempt_ended(&end.result, end.seconds);
            tracing::info!(
                %job,
                device = end.device,
                endpoint = end.endpoint.as_str(),
                attempt = end.attempt,
                result = end.result,
                seconds = end.seconds,
                detail = end.message,
                "ended"
            );
        }
    }
}
