//! Takes in what writes and reads came to.

use std::time::Duration;

use flashjob_plan::flashjob::children::{Child, Foreign};
use flashjob_plan::flashjob::facts::{Pod, Refusal};
use flashjob_plan::flashjob::ids::{JobUid, Target};
use flashjob_plan::flashjob::index::Unconfirmed;
use flashjob_plan::flashjob::{AttemptEnd, Kind};
use k8s_openapi::api::core::v1 as core;
use kube::runtime::events::Event;
use tokio::time::Instant;

use super::controller::FlashJobController;
use super::input::{Answer, Input};
use super::ledger::Memory;
use super::observe::SeenJob;
use super::refusal;
use crate::engine::write::Created;
use crate::process::client::words;
use crate::process::clock;

/// An object that is there although no watch shows it is read again after this.
const RECHECK: Duration = Duration::from_secs(5);

impl FlashJobController {
    /// Takes in what a write or a read came to.
    pub(super) fn answered(&mut self, uid: &JobUid, answer: Answer) {
        if !self.jobs.contains_key(uid) {
            return;
        }
        let now = clock::now();
        match answer {
            Answer::ServiceCreated { target, created } => {
                if let Some(child) = self.created(uid, target, Kind::Service, created) {
                    self.see_service(child);
                }
            }
            Answer::PodCreated { target, attempt, created } => {
                if let Some(child) = self.created(uid, target, Kind::Pod(attempt), created) {
                    self.index.see_pod(child, now);
                }
            }
            Answer::Deleted { target, kind, uid: object, result } => match result {
                Ok(()) => {
                    self.index.set_busy(uid, target, kind, false);
                    self.index.delete_acknowledged(uid, target, kind, &object, now);
                }
                Err(error) => {
                    tracing::warn!(%target, ?kind, error = words(&error), "a delete failed; looking whether it is there");
                    self.doubt(uid, target, kind);
                }
            },
            Answer::PodChecked { doubt, attempt, found } => {
                if self.index.pod_checked(&doubt, attempt, found) {
                    self.recheck(doubt);
                }
            }
            Answer::ServiceChecked { doubt, found } => {
                if self.index.service_checked(&doubt, found) {
                    self.recheck(doubt);
                }
            }
            Answer::PodsListed(listed) => self.pods_listed(uid, listed),
            Answer::Marked(result) => {
                if let Some(job) = self.jobs.get_mut(uid) {
                    job.marking = false;
                }
                self.job_written(uid, result);
            }
            Answer::StatusWritten { result, events } => {
                if let Some(job) = self.jobs.get_mut(uid) {
                    job.throttle.answered(Instant::now());
                    // Whatever came of it: the next large ledger may be read.
                    job.room = None;
                }
                self.status_written(uid, result, events);
            }
            Answer::Expired(result) => {
                let Some(job) = self.jobs.get_mut(uid) else { return };
                job.marking = false;
                // Changed meanwhile, or gone already: the watch will show it.
                if let Err(error) = result {
                    let at = job.backoff.failed();
                    tracing::info!(
                        error = words(&error),
                        "a job whose time is over was not deleted"
                    );
                    self.wake_at(uid, at);
                }
            }
            Answer::EventsSent => {}
            Answer::LedgerCreated(Ok(shards)) => {
                self.replace_ledger(uid, Memory::read(uid, shards));
                if let Some(job) = self.jobs.get_mut(uid) {
                    job.write_succeeded();
                }
            }
            Answer::LedgerCleared(Ok(())) => self.replace_ledger(uid, Memory::absent()),
            Answer::LedgerCreated(Err(error)) | Answer::LedgerCleared(Err(error)) => {
                self.reread_ledger(uid, &error, true);
            }
            Answer::LedgerFlushed { shard, took, result, ended } => {
                self.context.metrics.ledger_flushed(took, result.is_ok());
                match result {
                    Ok(acknowledged) => {
                        if let Some(job) = self.jobs.get_mut(uid) {
                            let changed = job.ledger.acknowledge(shard, acknowledged);
                            for record in changed.iter().flat_map(|c| c.records.values()) {
                                self.boards.learn(uid, record);
                                job.concerns.learn(record);
                            }
                            job.write_succeeded();
                        }
                        self.report(uid, ended);
                    }
                    Err(error) => self.reread_ledger(uid, &error, false),
                }
            }
            Answer::LedgerRead { result: Ok(fresh), .. } => {
                let Some(job) = self.jobs.get_mut(uid) else { return };
                let arrived = job.ledger.writes_arrived(&fresh);
                let settled = job.settled && (arrived || job.ledger.sealed() == fresh.sealed());
                let open = fresh.sealed().is_some_and(|l| l.has_open_attempts());
                job.settled = settled || !open;
                if arrived {
                    job.write_succeeded();
                }
                self.replace_ledger(uid, *fresh);
            }
            Answer::LedgerRead { result: Err(error), anything } => {
                self.reread_ledger(uid, &words(&error), anything);
            }
        }
    }

    /// A create was answered: what is there, if anything.
    fn created<T>(
        &mut self,
        uid: &JobUid,
        target: Target,
        kind: Kind,
        created: Created<Result<Child<T>, Foreign>>,
    ) -> Option<Child<T>> {
        self.index.set_busy(uid, target, kind, false);
        let (message, definite, conflict) = match created {
            // Ours: no other object can be the answer.
            Created::There(Ok(child)) => return Some(child),
            Created::There(Err(foreign)) => {
                let Foreign { path, why, .. } = foreign;
                (
                    format!("{path} is not as it was asked for: {why}; see what changes it"),
                    true,
                    true,
                )
            }
            Created::Not { message, definite, conflict } => (message, definite, conflict),
        };
        tracing::warn!(%target, ?kind, %message, "a create did not go through");
        let now = clock::now();
        let refusal = Refusal { message, definite, conflict, since: now, times: 1, retry_at: now };
        self.index.refuse(uid, target, kind, refusal);
        None
    }

    /// Something is unknown of an object we know the name of.
    fn doubt(&mut self, uid: &JobUid, target: Target, kind: Kind) {
        let children = self.index.children(uid).get(&target);
        let name = children.and_then(|c| match kind {
            Kind::Service => c.service.seen.as_ref().map(|s| s.name.clone()),
            Kind::Pod(attempt) => {
                c.pods.get(&attempt).and_then(|p| p.seen.as_ref()).map(|p| p.name.clone())
            }
        });
        match name {
            Some(name) => {
                let job = uid.clone();
                self.recheck(Unconfirmed { job, target, kind, name });
            }
            None => self.index.set_busy(uid, target, kind, false),
        }
    }

    /// Looks again a little later.
    pub(super) fn recheck(&mut self, doubt: Unconfirmed) {
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            tokio::time::sleep(RECHECK).await;
            let _ = inputs.send(Input::Recheck(doubt)).await;
        });
    }

    fn pods_listed(&mut self, uid: &JobUid, listed: kube::Result<Vec<Child<Pod>>>) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        job.listing_pods = false;
        match listed {
            Ok(pods) => {
                job.settled = true;
                let now = clock::now();
                for child in pods.into_iter().filter(|child| child.owner.is(&job.seen.job)) {
                    self.index.see_pod(child, now);
                }
            }
            Err(error) => {
                tracing::warn!(error = words(&error), "the Pods of a job could not be listed");
                let at = job.backoff.failed();
                self.wake_at(uid, at);
            }
        }
    }

    fn job_written(&mut self, uid: &JobUid, result: kube::Result<Box<SeenJob>>) {
        match result {
            Ok(seen) => {
                if let Some(job) = self.jobs.get_mut(uid) {
                    job.write_succeeded();
                }
                self.update_job(*seen);
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => {
                tracing::warn!(
                    error = words(&error),
                    "the finalizer could not be written and is tried again"
                );
                if let Some(job) = self.jobs.get_mut(uid) {
                    let at = job.write_failed(&words(&error));
                    self.wake_at(uid, at);
                }
            }
        }
    }

    fn status_written(
        &mut self,
        uid: &JobUid,
        result: kube::Result<Box<SeenJob>>,
        events: Vec<Event>,
    ) {
        let seen = match result {
            Ok(seen) => seen,
            Err(error) => {
                if let Some(words) = refusal::words(&error) {
                    return self.status_refused(uid, &words);
                }
                // Usually somebody changed the job meanwhile; the watch will show it.
                tracing::debug!(
                    error = words(&error),
                    "a status could not be written and is tried again"
                );
                if let Some(job) = self.jobs.get_mut(uid) {
                    let at = job.throttle.failed(Instant::now());
                    self.wake_at(uid, at);
                }
                return;
            }
        };
        if let Some(job) = self.jobs.get_mut(uid) {
            job.throttle.succeeded();
            job.refusals.taken();
        }
        self.update_job(*seen);
        self.publish(uid, events);
    }

    /// Sends events of a job.
    pub(super) fn publish(&mut self, uid: &JobUid, events: Vec<Event>) {
        let Some(job) = self.owner(uid).filter(|_| !events.is_empty()) else { return };
        let reference = core::ObjectReference {
            api_version: Some(format!("{}/v1alpha1", flashjob_api::flashjob::GROUP)),
            kind: Some("FlashJob".into()),
            name: Some(job.name),
            namespace: Some(job.namespace),
            uid: Some(uid.to_string()),
            ..core::ObjectReference::default()
        };
        let recorder = self.context.process.recorder.clone();
        self.enqueue(uid, |caller| async move {
            for event in events {
                if let Err(error) = caller.call(recorder.publish(&event, &reference)).await {
                    tracing::warn!(
                        error = words(&error),
                        reason = event.reason,
                        "an event could not be sent"
                    );
                }
            }
            Answer::EventsSent
        });
    }

    fn replace_ledger(&mut self, uid: &JobUid, ledger: Memory) {
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
