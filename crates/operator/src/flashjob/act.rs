//! Carries out plans. No choices here: a plan says what, this says how. Nothing here waits: every write goes to the pool.

mod ledger;

use flashjob_plan::flashjob::children::{self, Owner};
use flashjob_plan::flashjob::ids::JobUid;
use flashjob_plan::flashjob::index::Unconfirmed;
use flashjob_plan::flashjob::{Deletion, Kind, NewObject, Plan, names};
use jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, Preconditions};
use serde_json::json;
use tokio::time::Instant;

use super::controller::FlashJobController;
use super::input::{Answer, Input};
use super::observe;
use super::slim;
use crate::engine::Controller;
use crate::engine::pool::Caller;
use crate::engine::read;
use crate::engine::status;
use crate::engine::write::{self, ObjectId};
use crate::process::clock;

/// The conditions whose change is an event.
const EVENT_CONDITIONS: [&str; 4] = ["Complete", "Failed", "Progressing", "Suspended"];

impl FlashJobController {
    /// Hands everything a plan asks for to the pool.
    pub(super) fn act(&mut self, uid: &JobUid, plan: Plan) {
        // Named one by one, so that a new part of a plan cannot be forgotten here.
        let Plan {
            ledger,
            add_finalizer,
            remove_finalizer,
            creates,
            deletes,
            forget,
            list_pods,
            status,
            finished,
            idle,
            expire,
            held_locks,
            wanted_locks,
            waiting,
            ended,
            next_reconcile,
        } = plan;
        if !forget.is_empty() {
            // With the last of its objects a job may have become idle.
            self.enqueue_at(uid, Instant::now());
        }
        for (target, kind) in forget {
            self.index.forget(uid, target, kind);
        }
        for object in creates {
            self.create(uid, object);
        }
        for deletion in deletes {
            self.delete(uid, deletion);
        }
        self.write_ledger(uid, ledger, &ended);
        if let Some(name) = add_finalizer {
            self.write_finalizer(uid, Some(name));
        }
        if remove_finalizer {
            self.write_finalizer(uid, None);
        }
        if expire {
            self.expire(uid);
        }
        if list_pods {
            self.list_pods(uid);
        }
        let freed = held_locks.is_some_and(|held| self.locks.hold(uid, held));
        if self.locks.want(uid, wanted_locks) | freed {
            self.enqueue_unfinished();
        }
        let turned = self.addresses.wait(uid, waiting, clock::now());
        self.enqueue_users_of(&turned);
        if let Some(job) = self.jobs.get_mut(uid) {
            job.finished = finished;
        }
        let current = status.is_some_and(|status| self.write_status(uid, status, finished));
        if let Some(job) = self.jobs.get_mut(uid) {
            job.status_current = current;
        }
        self.schedule(uid, next_reconcile, idle && !expire);
    }

    /// Puts a job into the queue for when it has to be reconciled again; takes it out of memory until then if it `may_park`.
    fn schedule(&mut self, uid: &JobUid, at: Option<Timestamp>, may_park: bool) {
        let next = at.map(clock::instant);
        if may_park && self.park(uid, next) {
            return;
        }
        // What was held back is reconciled when the pause is over, whatever else happened meanwhile.
        let retry = self.jobs.get(uid).and_then(|job| job.backoff.until());
        for at in [retry, next].into_iter().flatten() {
            self.enqueue_at(uid, at);
        }
    }

    /// Has `work` done beside everything else. Its calls go by the turn of the job; its answer is an input.
    pub(super) fn spawn_call<W>(&mut self, uid: &JobUid, work: impl FnOnce(Caller) -> W)
    where
        W: Future<Output = Answer> + Send + 'static,
    {
        let Some(flow) = self.flow(uid) else { return };
        let retry = self.jobs.get(uid).is_some_and(|job| job.trouble.is_some());
        let (job, inputs) = (uid.clone(), self.inputs.clone());
        let work = work(self.pool.caller(flow, retry));
        tokio::spawn(async move {
            // A closed channel means that the process is stopping.
            let _ = inputs.send(Input::Answer(job, Box::new(work.await))).await;
        });
    }

    fn create(&mut self, uid: &JobUid, object: NewObject) {
        match object {
            NewObject::Service { target, object } => {
                self.index.set_busy(uid, target, Kind::Service, true);
                self.spawn_call(uid, |caller| async move {
                    let created = write::create(&caller, *object, children::is_same)
                        .await
                        .map(observe::service);
                    Answer::ServiceCreated { target, created }
                });
            }
            NewObject::Pod { target, attempt, board, object } => {
                self.locks.start(uid, &board);
                self.index.set_busy(uid, target, Kind::Pod(attempt), true);
                self.spawn_call(uid, |caller| async move {
                    let created =
                        write::create(&caller, *object, children::is_same).await.map(observe::pod);
                    Answer::PodCreated { target, attempt, created }
                });
            }
        }
    }

    fn delete(&mut self, uid: &JobUid, deletion: Deletion) {
        let Some(job) = self.jobs.get(uid) else { return };
        let Deletion { target, kind, name, uid: object } = deletion;
        let namespace = job.seen.job.namespace.clone();
        self.index.deleting(uid, target, kind, &object);
        self.spawn_call(uid, |caller| async move {
            let id = ObjectId { namespace: &namespace, name: &name, uid: &object };
            let result = match kind {
                Kind::Service => write::delete::<slim::Service>(&caller, id).await,
                Kind::Pod(_) => write::delete::<slim::Pod>(&caller, id).await,
            };
            Answer::Deleted { target, kind, uid: object, result }
        });
    }

    /// Reads live what may be gone.
    pub(super) fn check(&mut self, unconfirmed: impl IntoIterator<Item = Unconfirmed>) {
        for unconfirmed in unconfirmed {
            let Some(job) = self.jobs.get(&unconfirmed.job) else {
                // Not seen or not loaded yet, or gone for good. Only the complete list of jobs tells.
                let gone =
                    self.synced.contains("flashjobs") && self.owner(&unconfirmed.job).is_none();
                if gone {
                    self.orphan_left(&unconfirmed)
                } else {
                    self.recheck(unconfirmed)
                }
                continue;
            };
            let namespace = job.seen.job.namespace.clone();
            self.spawn_call(&unconfirmed.job.clone(), |caller| async move {
                match unconfirmed.kind {
                    Kind::Pod(attempt) => {
                        let api: Api<slim::Pod> =
                            Api::namespaced(caller.client.clone(), &namespace);
                        let found = read::live(&caller, &api, &unconfirmed.name).await;
                        let found = found.as_ref().map(observe::pod_facts);
                        Answer::PodChecked { unconfirmed, attempt, found }
                    }
                    Kind::Service => {
                        let api: Api<slim::Service> =
                            Api::namespaced(caller.client.clone(), &namespace);
                        let found = read::live(&caller, &api, &unconfirmed.name).await;
                        let found = found.as_ref().map(observe::service_facts);
                        Answer::ServiceChecked { unconfirmed, found }
                    }
                }
            });
        }
    }

    fn list_pods(&mut self, uid: &JobUid) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        if job.listing_pods || job.backoff.until().is_some() {
            return;
        }
        job.listing_pods = true;
        let api: Api<slim::Pod> =
            Api::namespaced(self.context.process.client.clone(), &job.seen.job.namespace);
        let selector = format!("{}={uid}", names::JOB_UID);
        self.spawn_call(uid, |caller| async move {
            let ours = |pod| observe::pod(pod).ok();
            Answer::PodsListed(read::list(&caller, &api, &selector, 500, ours).await)
        });
    }

    /// Puts our finalizer and the ledger's name on the job, or takes the finalizer off.
    fn write_finalizer(&mut self, uid: &JobUid, ledger: Option<String>) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        if job.writing_metadata || job.backoff.until().is_some() {
            return;
        }
        job.writing_metadata = true;
        let mut finalizers = job.seen.finalizers.clone();
        finalizers.retain(|f| f != names::FINALIZER);
        if ledger.is_some() {
            finalizers.push(names::FINALIZER.to_owned());
        }
        let mut metadata = json!({ "finalizers": finalizers });
        if let Some(ledger) = ledger {
            metadata["annotations"] = json!({ names::LEDGER: ledger });
        }
        let (owner, version) = (Owner::of(&job.seen.job), job.seen.version.clone());
        let settings = self.context.settings.clone();
        self.spawn_call(uid, |caller| async move {
            let id = ObjectId { namespace: &owner.namespace, name: &owner.name, uid: &owner.uid };
            let change = json!({ "metadata": metadata });
            let patched = write::patch(&caller, id, &version, change).await;
            Answer::FinalizerWritten(
                patched.map(|object| Box::new(observe::job(object, &settings, None))),
            )
        });
    }

    /// Deletes a job that was kept long enough, unless somebody has changed it meanwhile.
    fn expire(&mut self, uid: &JobUid) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        if job.writing_metadata || job.backoff.until().is_some() {
            return;
        }
        job.writing_metadata = true;
        let name = job.seen.job.name.clone();
        let version = Some(job.seen.version.clone());
        let as_seen = Preconditions { uid: Some(uid.to_string()), resource_version: version };
        let api = self.job_api(uid);
        self.spawn_call(uid, |caller| async move {
            let params = DeleteParams::background().preconditions(as_seen);
            Answer::Expired(caller.call(api.delete(&name, &params)).await.map(|_| ()))
        });
    }

    fn job_api(&self, uid: &JobUid) -> Api<slim::FlashJob> {
        let namespace =
            self.jobs.get(uid).map(|j| j.seen.job.namespace.as_str()).unwrap_or_default();
        Api::namespaced(self.context.process.client.clone(), namespace)
    }

    /// Writes the status when it may be. Says whether it is there already.
    fn write_status(
        &mut self,
        uid: &JobUid,
        status: flashjob_api::flashjob::FlashJobStatus,
        finished: bool,
    ) -> bool {
        let Some(job) = self.jobs.get_mut(uid) else { return false };
        if job.throttle.busy {
            return false;
        }
        let now = Instant::now();
        if !job.throttle.due {
            let at = job.throttle.next(finished).unwrap_or(now);
            self.enqueue_at(uid, at);
            return false;
        }
        let counts = status.counts.unwrap_or_default();
        self.context.metrics.devices_moved(&job.counts, &counts);
        self.context.metrics.waiting(uid, Some(&status));
        job.counts = counts;
        let status = job.refusals.form(status, now);
        let Some(status) = status::difference(&job.seen.status, &status, clock::now()) else {
            // While the full one is still to be tried, the job stays.
            let again = job.refusals.taken();
            if let Some(at) = again {
                self.enqueue_at(uid, at);
            }
            return again.is_none();
        };
        let events = status::events(&job.seen.status, &status, &EVENT_CONDITIONS, "Flash");
        let patch = status::patch(&job.seen.version, &status);
        job.throttle.busy = true;
        job.throttle.last = Some((now, patch.to_string().len()));
        let (facts, finalizers) = (job.seen.job.clone(), job.seen.finalizers.clone());
        self.spawn_call(uid, |caller| async move {
            let result = status::write(&caller, &facts.namespace, &facts.name, patch).await;
            // It was written to the job as it was, so nothing else of it has changed.
            let written = |answer| observe::job_with_status(facts, finalizers, status, answer);
            let result = result.map(|answer| Box::new(written(answer)));
            Answer::StatusWritten { result, events }
        });
        false
    }
}
