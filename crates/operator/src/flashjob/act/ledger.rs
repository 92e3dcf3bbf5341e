//! Writes ledgers, and reads them again when that did not go as it should.

use flashjob_plan::flashjob::children::Owner;
use flashjob_plan::flashjob::ids::JobUid;
use flashjob_plan::flashjob::ledger::Change;
use flashjob_plan::flashjob::{AttemptEnd, LedgerPlan, owner};
use tokio::time::Instant;

use crate::engine::write::{self, ObjectId};
use crate::flashjob::controller::FlashJobController;
use crate::flashjob::input::{Answer, LedgerAnswer};
use crate::flashjob::ledger_cache;
use crate::flashjob::slim;
use crate::process::client::error_message;

impl FlashJobController {
    pub(in crate::flashjob) fn write_ledger(
        &mut self,
        uid: &JobUid,
        plan: LedgerPlan,
        ended: &[AttemptEnd],
    ) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        if job.ledger.reading || job.backoff.until().is_some() {
            return;
        }
        let facts = job.seen.job.clone();
        match plan {
            LedgerPlan::Keep => {}
            LedgerPlan::Create(ledger) => {
                job.ledger.reading = true;
                self.spawn_call(uid, |caller| async move {
                    let created =
                        ledger_cache::create(&caller, &facts, &owner(&facts), &ledger).await;
                    let filled = created.map(|mut shards| {
                        for (index, shard) in shards.iter_mut().enumerate() {
                            shard.data = ledger.shard_data(index);
                        }
                        shards
                    });
                    Answer::Ledger(LedgerAnswer::Created(filled))
                });
            }
            LedgerPlan::Clear(remains) => {
                job.ledger.reading = true;
                self.spawn_call(uid, |caller| async move {
                    for (name, uid) in &remains {
                        let id = ObjectId { namespace: &facts.namespace, name, uid };
                        if let Err(error) = write::delete::<slim::ConfigMap>(&caller, id).await {
                            let failed = LedgerAnswer::Cleared(Err(error_message(&error)));
                            return Answer::Ledger(failed);
                        }
                    }
                    Answer::Ledger(LedgerAnswer::Cleared(Ok(())))
                });
            }
            LedgerPlan::Update(change) => self.flush(uid, &change, ended),
        }
    }

    /// Writes what changed, one write at a time per ConfigMap, in groups.
    fn flush(&mut self, uid: &JobUid, change: &Change, ended: &[AttemptEnd]) {
        for shard in change.shards() {
            let Some(job) = self.jobs.get_mut(uid) else { return };
            if job.ledger.flushing.contains_key(&shard) {
                continue;
            }
            let now = Instant::now();
            let next = job.ledger.flushed.get(&shard).map(|last| *last + ledger_cache::GROUP);
            if let Some(at) = next.filter(|at| *at > now) {
                self.enqueue_at(uid, at);
                continue;
            }
            let Some(ledger) = job.ledger.sealed() else { return };
            let keys = ledger.patch(shard, change);
            let before = job.ledger.shards.get(shard).cloned();
            // Its part alone: with many shards, so many whole changes would be more than the operator may use.
            job.ledger.flushing.insert(shard, change.part(shard));
            let facts = job.seen.job.clone();
            let of_this_shard =
                |end: &&AttemptEnd| flashjob_plan::flashjob::ledger::shard_of(end.index) == shard;
            let ended: Vec<AttemptEnd> = ended.iter().filter(of_this_shard).cloned().collect();
            self.spawn_call(uid, |caller| async move {
                let began = Instant::now();
                let result = match before {
                    Some(before) => ledger_cache::patch(&caller, &facts.namespace, &before, &keys)
                        .await
                        .map_err(|error| error_message(&error)),
                    None => {
                        let data = keys.into_iter().filter_map(|(k, v)| Some((k, v?))).collect();
                        ledger_cache::add(&caller, &facts, &owner(&facts), shard, data).await
                    }
                };
                let took = began.elapsed();
                Answer::Ledger(LedgerAnswer::Flushed { shard, took, result, ended })
            });
        }
    }

    /// Reads the job's ledger again: a write did not go as it should. When it was one that makes or clears the ledger, there
    /// may be anything.
    pub(in crate::flashjob) fn reread_ledger(&mut self, uid: &JobUid, why: &str, anything: bool) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        let name = format!("{}/{}", job.seen.job.namespace, job.seen.job.name);
        tracing::warn!(job = %name, error = %why, "reading the ledger again: a write of it failed");
        job.ledger.reading = true;
        let until = job.write_failed(why);
        let (owner, large) = (Owner::of(&job.seen.job), self.parking.large());
        self.spawn_call(uid, |caller| async move {
            // No retry without back-off, and no slot for it.
            tokio::time::sleep_until(until).await;
            let read = if anything {
                ledger_cache::list(&caller, &owner).await
            } else {
                ledger_cache::read(&caller, &owner, large).await.map(|(ledger, _)| ledger)
            };
            Answer::Ledger(LedgerAnswer::Read { result: read.map(Box::new), anything })
        });
    }
}
