//! Takes in what writes and reads came to.

mod ledger;

use std::time::Duration;

use flashjob_plan::flashjob::Kind;
use flashjob_plan::flashjob::children::{Child, Foreign};
use flashjob_plan::flashjob::facts::{Pod, Refusal};
use flashjob_plan::flashjob::ids::{JobUid, Target};
use flashjob_plan::flashjob::index::Unconfirmed;
use k8s_openapi::api::core::v1 as core;
use kube::runtime::events::Event;
use tokio::time::Instant;

use super::controller::FlashJobController;
use super::input::{Answer, Input};
use super::observe::SeenJob;
use super::refusal;
use crate::engine::write::Created;
use crate::process::client::error_message;
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
            Answer::Deleted { target, kind, uid: object, result: Ok(()) } => {
                self.index.set_busy(uid, target, kind, false);
                self.index.delete_acknowledged(uid, target, kind, &object, now);
            }
            Answer::Deleted { target, kind, result: Err(error), .. } => {
                tracing::warn!(%target, ?kind, error = error_message(&error), "a delete failed; looking whether it is there");
                self.read_live(uid, target, kind);
            }
            Answer::PodChecked { unconfirmed, attempt, found } => {
                if self.index.pod_checked(&unconfirmed, attempt, found) {
                    self.recheck(unconfirmed);
                }
            }
            Answer::ServiceChecked { unconfirmed, found } => {
                if self.index.service_checked(&unconfirmed, found) {
                    self.recheck(unconfirmed);
                }
            }
            Answer::PodsListed(listed) => self.pods_listed(uid, listed),
            Answer::FinalizerWritten(result) => {
                if let Some(job) = self.jobs.get_mut(uid) {
                    job.writing_metadata = false;
                }
                self.finalizer_written(uid, result);
            }
            Answer::StatusWritten { result, events } => {
                if let Some(job) = self.jobs.get_mut(uid) {
                    job.throttle.answered(Instant::now());
                    // Whatever came of it: the next large ledger may be read.
                    job.large_slot = None;
                }
                self.status_written(uid, result, events);
            }
            Answer::Expired(result) => self.expired(uid, result),
            Answer::EventsSent => {}
            Answer::Ledger(answer) => self.ledger_answered(uid, answer),
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
    fn read_live(&mut self, uid: &JobUid, target: Target, kind: Kind) {
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
    pub(super) fn recheck(&mut self, unconfirmed: Unconfirmed) {
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            tokio::time::sleep(RECHECK).await;
            let _ = inputs.send(Input::Recheck(unconfirmed)).await;
        });
    }

    fn pods_listed(&mut self, uid: &JobUid, listed: kube::Result<Vec<Child<Pod>>>) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        job.listing_pods = false;
        match listed {
            Ok(pods) => {
                job.recovered = true;
                let now = clock::now();
                for child in pods.into_iter().filter(|child| child.owner.is(&job.seen.job)) {
                    self.index.see_pod(child, now);
                }
            }
            Err(error) => {
                tracing::warn!(
                    error = error_message(&error),
                    "the Pods of a job could not be listed"
                );
                let at = job.backoff.failed();
                self.enqueue_at(uid, at);
            }
        }
    }

    fn finalizer_written(&mut self, uid: &JobUid, result: kube::Result<Box<SeenJob>>) {
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
                    error = error_message(&error),
                    "the finalizer could not be written and is tried again"
                );
                if let Some(job) = self.jobs.get_mut(uid) {
                    let at = job.write_failed(&error_message(&error));
                    self.enqueue_at(uid, at);
                }
            }
        }
    }

    fn expired(&mut self, uid: &JobUid, result: kube::Result<()>) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        job.writing_metadata = false;
        // Changed meanwhile, or gone already: the watch will show it.
        if let Err(error) = result {
            let at = job.backoff.failed();
            tracing::info!(
                error = error_message(&error),
                "a job whose time is over was not deleted"
            );
            self.enqueue_at(uid, at);
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
                if let Some(message) = refusal::message_of(&error) {
                    return self.status_refused(uid, &message);
                }
                // Usually somebody changed the job meanwhile; the watch will show it.
                tracing::debug!(
                    error = error_message(&error),
                    "a status could not be written and is tried again"
                );
                if let Some(job) = self.jobs.get_mut(uid) {
                    let at = job.throttle.failed(Instant::now());
                    self.enqueue_at(uid, at);
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
        self.spawn_call(uid, |caller| async move {
            for event in events {
                if let Err(error) = caller.call(recorder.publish(&event, &reference)).await {
                    tracing::warn!(
                        error = error_message(&error),
                        reason = event.reason,
                        "an event could not be sent"
                    );
                }
            }
            Answer::EventsSent
        });
    }
}
