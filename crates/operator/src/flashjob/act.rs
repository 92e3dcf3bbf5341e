//! Carries out plans and takes in the answers. No choices here: a plan says what, this says how.

use std::time::Duration;

use flashjob_plan::facts::{Pod, Refusal};
use flashjob_plan::ledger::Change;
use flashjob_plan::{AttemptEnd, Deletion, Kind, LedgerPlan, NewObject, Plan, names, owner};
use futures::FutureExt;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

use super::engine::{Answer, Engine, Input};
use super::index::Doubt;
use super::ledger::{self, Memory};
use super::observe::{self, Child, SeenJob};
use super::status;
use super::watch::flashjobs;
use super::write::{self, Created, in_time};
use crate::clock;

/// An object that is there although no watch shows it is read again after this.
const RECHECK: Duration = Duration::from_secs(5);

impl Engine {
    /// Hands everything a plan asks for to the pool.
    pub(super) fn act(&mut self, uid: &str, plan: Plan) {
        // Named one by one, so that a new part of a plan cannot be forgotten here.
        let Plan {
            ledger,
            mark,
            release,
            creates,
            deletes,
            forget,
            list_pods,
            status,
            finished,
            claims,
            ended,
            look_again,
        } = plan;
        for (target, kind) in forget {
            self.index.forget(uid, &target, kind);
        }
        for object in creates {
            self.create(uid, object);
        }
        for deletion in deletes {
            self.delete(uid, deletion);
        }
        self.write_ledger(uid, ledger, &ended);
        if let Some(name) = mark {
            self.mark(uid, Some(name));
        }
        if release {
            self.mark(uid, None);
        }
        if list_pods {
            self.list_pods(uid);
        }
        self.set_claims(uid, claims);
        if let Some(status) = status {
            self.write_status(uid, status, finished);
        }
        if let Some(at) = look_again {
            let pause = Duration::try_from(at.duration_since(clock::now())).unwrap_or_default();
            // A little later, so that the deadline has passed on the wall clock too.
            self.wake_at(uid, Instant::now() + pause + Duration::from_millis(5));
        }
    }

    fn enqueue(&mut self, uid: &str, work: impl Future<Output = Answer> + Send + 'static) {
        let job = uid.to_owned();
        self.pool.add(uid, work.map(|answer| Input::Answer(job, answer)).boxed());
    }

    fn create(&mut self, uid: &str, object: NewObject) {
        let client = self.context.client.clone();
        match object {
            NewObject::Service { target, object } => {
                self.index.set_busy(uid, &target, Kind::Service, true);
                self.enqueue(uid, async move {
                    let created = write::create(&client, *object).await.map(observe::service);
                    Answer::ServiceCreated { target, created }
                });
            }
            NewObject::Pod { target, attempt, object } => {
                self.index.set_busy(uid, &target, Kind::Pod(attempt), true);
                self.enqueue(uid, async move {
                    let created = write::create(&client, *object).await.map(observe::pod);
                    Answer::PodCreated { target, attempt, created }
                });
            }
        }
    }

    fn delete(&mut self, uid: &str, deletion: Deletion) {
        let Some(job) = self.jobs.get(uid) else { return };
        let Deletion { target, kind, name, uid: object } = deletion;
        let namespace = job.seen.job.namespace.clone();
        let client = self.context.client.clone();
        self.index.deleting(uid, &target, kind, &object);
        self.enqueue(uid, async move {
            let result = match kind {
                Kind::Service => {
                    write::delete::<core::Service>(&client, &namespace, &name, &object).await
                }
                Kind::Pod(_) => {
                    write::delete::<core::Pod>(&client, &namespace, &name, &object).await
                }
            };
            Answer::Deleted { target, kind, uid: object, result }
        });
    }

    /// Reads live what may be gone.
    pub(super) fn check(&mut self, doubts: impl IntoIterator<Item = Doubt>) {
        for doubt in doubts {
            let Some(job) = self.jobs.get(&doubt.job) else { continue };
            let namespace = job.seen.job.namespace.clone();
            let client = self.context.client.clone();
            self.enqueue(&doubt.job.clone(), async move {
                match doubt.kind {
                    Kind::Pod(attempt) => {
                        let api: Api<core::Pod> = Api::namespaced(client, &namespace);
                        let found = write::read_live(&api, &doubt.name).await;
                        let found = found.as_ref().map(observe::pod_facts);
                        Answer::PodChecked { doubt, attempt, found }
                    }
                    Kind::Service => {
                        let api: Api<core::Service> = Api::namespaced(client, &namespace);
                        let found = write::read_live(&api, &doubt.name).await;
                        let found = found.as_ref().map(observe::service_facts);
                        Answer::ServiceChecked { doubt, found }
                    }
                }
            });
        }
    }

    fn list_pods(&mut self, uid: &str) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        if job.listing_pods || job.hold.lasts() {
            return;
        }
        job.listing_pods = true;
        let api: Api<core::Pod> =
            Api::namespaced(self.context.client.clone(), &job.seen.job.namespace);
        let selector = format!("{}={uid}", names::JOB_UID);
        self.enqueue(uid, async move {
            let params = ListParams::default().labels(&selector);
            let listed = in_time(api.list(&params)).await;
            Answer::PodsListed(
                listed.map(|l| l.items.into_iter().filter_map(observe::pod).collect()),
            )
        });
    }

    /// Puts our finalizer and the ledger's name on the job, or takes the finalizer off.
    fn mark(&mut self, uid: &str, ledger: Option<String>) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        if job.marking || job.hold.lasts() {
            return;
        }
        job.marking = true;
        let mut finalizers = job.seen.finalizers.clone();
        finalizers.retain(|f| f != names::FINALIZER);
        if ledger.is_some() {
            finalizers.push(names::FINALIZER.to_owned());
        }
        let mut metadata = json!({
            "resourceVersion": job.seen.version,
            "uid": uid,
            "finalizers": finalizers,
        });
        if let Some(ledger) = ledger {
            metadata["annotations"] = json!({ names::LEDGER: ledger });
        }
        let name = job.seen.job.name.clone();
        let (api, settings) = (self.job_api(uid), self.context.settings.clone());
        self.enqueue(uid, async move {
            let patch = Patch::Merge(json!({ "metadata": metadata }));
            let patched = in_time(api.patch(&name, &PatchParams::default(), &patch)).await;
            Answer::Marked(patched.map(|object| Box::new(observe::job(object, &settings))))
        });
    }

    fn job_api(&self, uid: &str) -> Api<DynamicObject> {
        let namespace =
            self.jobs.get(uid).map(|j| j.seen.job.namespace.as_str()).unwrap_or_default();
        Api::namespaced_with(self.context.client.clone(), namespace, &flashjobs())
    }

    fn set_claims(&mut self, uid: &str, claims: Vec<String>) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        let freed = job.claims.iter().any(|claim| !claims.contains(claim));
        job.claims = claims;
        if freed {
            let others: Vec<String> = self.jobs.keys().filter(|j| *j != uid).cloned().collect();
            for other in others {
                self.wake(&other);
            }
        }
    }

    fn write_status(&mut self, uid: &str, status: flashjob_api::FlashJobStatus, finished: bool) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        let counts = status.counts.unwrap_or_default();
        self.context.metrics.devices_moved(&job.counts, &counts);
        self.context.metrics.waiting(uid, Some(&status));
        job.counts = counts;
        if job.pace.busy {
            return;
        }
        let before = job.seen.status.clone();
        let Some(status) = status::difference(&before, status, clock::now()) else { return };
        let now = Instant::now();
        if let Some(at) = job.pace.next(finished).filter(|at| *at > now) {
            self.wake_at(uid, at);
            return;
        }
        let patch = status::patch(&job.seen.version, &status);
        job.pace.busy = true;
        job.pace.last = Some((now, patch.to_string().len()));
        let name = job.seen.job.name.clone();
        let (api, settings) = (self.job_api(uid), self.context.settings.clone());
        self.enqueue(uid, async move {
            let result = match serde_json::from_value(patch) {
                Ok(patch) => {
                    let patch = Patch::<()>::Json(patch);
                    in_time(api.patch_status(&name, &PatchParams::default(), &patch)).await
                }
                Err(error) => Err(kube::Error::SerdeError(error)),
            };
            let result = result.map(|object| Box::new(observe::job(object, &settings)));
            Answer::StatusWritten { result, before }
        });
    }

    fn write_ledger(&mut self, uid: &str, plan: LedgerPlan, ended: &[AttemptEnd]) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        if job.ledger.reading || job.hold.lasts() {
            return;
        }
        let client = self.context.client.clone();
        let facts = job.seen.job.clone();
        match plan {
            LedgerPlan::Keep => {}
            LedgerPlan::Create(ledger) => {
                job.ledger.reading = true;
                self.enqueue(uid, async move {
                    let created = ledger::create(&client, &facts, &owner(&facts), &ledger).await;
                    let filled = created.map(|mut shards| {
                        for (index, shard) in shards.iter_mut().enumerate() {
                            shard.data = ledger.shard_data(index);
                        }
                        shards
                    });
                    Answer::LedgerCreated(filled)
                });
            }
            LedgerPlan::Clear(remains) => {
                job.ledger.reading = true;
                self.enqueue(uid, async move {
                    for (name, object) in remains {
                        let gone =
                            write::delete::<ConfigMap>(&client, &facts.namespace, &name, &object);
                        if let Err(error) = gone.await {
                            return Answer::LedgerCleared(Err(error.to_string()));
                        }
                    }
                    Answer::LedgerCleared(Ok(()))
                });
            }
            LedgerPlan::Update(change) => self.flush(uid, &change, ended),
        }
    }

    /// Writes what changed, one write at a time per ConfigMap, in groups.
    fn flush(&mut self, uid: &str, change: &Change, ended: &[AttemptEnd]) {
        for shard in change.shards() {
            let Some(job) = self.jobs.get_mut(uid) else { return };
            if job.ledger.flushing.contains_key(&shard) {
                continue;
            }
            let now = Instant::now();
            let next = job.ledger.flushed.get(&shard).map(|last| *last + ledger::GROUP);
            if let Some(at) = next.filter(|at| *at > now) {
                self.wake_at(uid, at);
                continue;
            }
            let Some(ledger) = job.ledger.sealed() else { return };
            let keys = ledger.patch(shard, change);
            let before = job.ledger.shards.get(shard).cloned();
            job.ledger.flushing.insert(shard, change.clone());
            job.ledger.flushed.insert(shard, now);
            let (client, facts) = (self.context.client.clone(), job.seen.job.clone());
            let of_this_shard =
                |end: &&AttemptEnd| flashjob_plan::ledger::shard_of(end.index) == shard;
            let ended: Vec<AttemptEnd> = ended.iter().filter(of_this_shard).cloned().collect();
            self.enqueue(uid, async move {
                let began = Instant::now();
                let result = match before {
                    Some(before) => ledger::patch(&client, &facts.namespace, &before, &keys)
                        .await
                        .map_err(|error| error.to_string()),
                    None => {
                        let data = keys.into_iter().filter_map(|(k, v)| Some((k, v?))).collect();
                        ledger::add(&client, &facts, &owner(&facts), shard, data).await
                    }
                };
                Answer::LedgerFlushed { shard, took: began.elapsed(), result, ended }
            });
        }
    }

    /// Reads the job's ledger again: a write did not go as it should.
    fn reread_ledger(&mut self, uid: &str, why: &str) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        let name = format!("{}/{}", job.seen.job.namespace, job.seen.job.name);
        tracing::warn!(job = %name, error = %why, "reading the ledger again: a write of it failed");
        job.ledger.reading = true;
        let until = job.hold.failed();
        let namespace = job.seen.job.namespace.clone();
        let (client, job_uid) = (self.context.client.clone(), uid.to_owned());
        self.enqueue(uid, async move {
            // No retry without back-off.
            tokio::time::sleep_until(until).await;
            let read = ledger::read(&client, Some(&namespace), Some(&job_uid)).await;
            Answer::LedgerRead(read.map(|mut all| all.remove(&job_uid).unwrap_or_default()))
        });
    }

    /// Takes in what a write or a read came to.
    pub(super) fn answered(&mut self, uid: &str, answer: Answer) {
        if !self.jobs.contains_key(uid) {
            return;
        }
        let now = clock::now();
        match answer {
            Answer::ServiceCreated { target, created } => {
                self.index.set_busy(uid, &target, Kind::Service, false);
                match created {
                    Created::There(service) => {
                        if let Some(child) = service {
                            self.index.see_service(child, now);
                        }
                    }
                    Created::Not { message, definite, conflict } => {
                        self.refuse(uid, &target, Kind::Service, (message, definite, conflict));
                    }
                }
            }
            Answer::PodCreated { target, attempt, created } => {
                self.index.set_busy(uid, &target, Kind::Pod(attempt), false);
                match created {
                    Created::There(pod) => {
                        if let Some(child) = pod {
                            self.index.see_pod(child, now);
                        }
                    }
                    Created::Not { message, definite, conflict } => {
                        self.refuse(
                            uid,
                            &target,
                            Kind::Pod(attempt),
                            (message, definite, conflict),
                        );
                    }
                }
            }
            Answer::Deleted { target, kind, uid: object, result } => match result {
                Ok(()) => {
                    self.index.set_busy(uid, &target, kind, false);
                    self.index.delete_acknowledged(uid, &target, kind, &object, now);
                }
                Err(error) => {
                    tracing::warn!(%target, ?kind, %error, "a delete failed; looking whether it is there");
                    self.doubt(uid, &target, kind);
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
            Answer::StatusWritten { result, before } => {
                if let Some(job) = self.jobs.get_mut(uid) {
                    job.pace.busy = false;
                }
                self.status_written(uid, result, &before);
            }
            Answer::EventsSent => {}
            Answer::LedgerCreated(Ok(shards)) => self.replace_ledger(uid, Memory::read(shards)),
            Answer::LedgerCleared(Ok(())) => self.replace_ledger(uid, Memory::read(Vec::new())),
            Answer::LedgerCreated(Err(error)) | Answer::LedgerCleared(Err(error)) => {
                self.reread_ledger(uid, &error);
            }
            Answer::LedgerFlushed { shard, took, result, ended } => {
                self.context.metrics.ledger_flushed(took, result.is_ok());
                match result {
                    Ok(acknowledged) => {
                        if let Some(job) = self.jobs.get_mut(uid) {
                            job.ledger.acknowledge(shard, acknowledged);
                            job.hold.succeeded();
                        }
                        self.report(uid, ended);
                    }
                    Err(error) => self.reread_ledger(uid, &error),
                }
            }
            Answer::LedgerRead(Ok(shards)) => {
                let fresh = Memory::read(shards);
                let agrees = self.jobs.get(uid).is_some_and(|job| job.ledger.agrees_with(&fresh));
                let settled = self.jobs.get(uid).is_some_and(|job| job.settled) && agrees;
                self.replace_ledger(uid, fresh);
                if let Some(job) = self.jobs.get_mut(uid) {
                    let open = job.ledger.sealed().is_some_and(|l| l.has_open_attempts());
                    job.settled = settled || !open;
                }
            }
            Answer::LedgerRead(Err(error)) => self.reread_ledger(uid, &error.to_string()),
        }
    }

    fn refuse(&mut self, uid: &str, target: &str, kind: Kind, why: (String, bool, bool)) {
        let (message, definite, conflict) = why;
        tracing::warn!(%target, ?kind, %message, "a create did not go through");
        let now = clock::now();
        let refusal = Refusal { message, definite, conflict, since: now, times: 1, retry_at: now };
        self.index.refuse(uid, target, kind, refusal);
    }

    /// Something is unknown of an object we know the name of.
    fn doubt(&mut self, uid: &str, target: &str, kind: Kind) {
        let children = self.index.children(uid).get(target);
        let name = children.and_then(|c| match kind {
            Kind::Service => c.service.seen.as_ref().map(|s| s.name.clone()),
            Kind::Pod(attempt) => {
                c.pods.get(&attempt).and_then(|p| p.seen.as_ref()).map(|p| p.name.clone())
            }
        });
        match name {
            Some(name) => {
                let (job, target) = (uid.to_owned(), target.to_owned());
                self.recheck(Doubt { job, target, kind, name });
            }
            None => self.index.set_busy(uid, target, kind, false),
        }
    }

    /// Looks again a little later.
    fn recheck(&mut self, doubt: Doubt) {
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            tokio::time::sleep(RECHECK).await;
            let _ = inputs.send(Input::Recheck(doubt)).await;
        });
    }

    fn pods_listed(&mut self, uid: &str, listed: kube::Result<Vec<Child<Pod>>>) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        job.listing_pods = false;
        match listed {
            Ok(pods) => {
                job.settled = true;
                let now = clock::now();
                for child in pods {
                    self.index.see_pod(child, now);
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the Pods of a job could not be listed");
                let at = job.hold.failed();
                self.wake_at(uid, at);
            }
        }
    }

    fn job_written(&mut self, uid: &str, result: kube::Result<Box<SeenJob>>) {
        match result {
            Ok(seen) => {
                if let Some(job) = self.jobs.get_mut(uid) {
                    job.hold.succeeded();
                }
                self.update_job(*seen);
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => {
                tracing::warn!(%error, "the finalizer could not be written and is tried again");
                if let Some(job) = self.jobs.get_mut(uid) {
                    let at = job.hold.failed();
                    self.wake_at(uid, at);
                }
            }
        }
    }

    fn status_written(
        &mut self,
        uid: &str,
        result: kube::Result<Box<SeenJob>>,
        before: &serde_json::Value,
    ) {
        let seen = match result {
            Ok(seen) => seen,
            Err(error) => {
                // Usually somebody changed the job meanwhile; the watch will show it.
                tracing::debug!(%error, "a status could not be written and is tried again");
                if let Some(job) = self.jobs.get_mut(uid) {
                    let pause = Duration::from_millis(100 << job.pace.failures.min(8));
                    let at = Instant::now() + pause;
                    job.pace.failures += 1;
                    job.pace.not_before = Some(at);
                    self.wake_at(uid, at);
                }
                return;
            }
        };
        if let Some(job) = self.jobs.get_mut(uid) {
            job.pace.failures = 0;
            job.pace.not_before = None;
        }
        let events = status::events(before, &seen.status);
        let reference = core::ObjectReference {
            api_version: Some(format!("{}/v1alpha1", flashjob_api::GROUP)),
            kind: Some("FlashJob".into()),
            name: Some(seen.job.name.clone()),
            namespace: Some(seen.job.namespace.clone()),
            uid: Some(uid.to_owned()),
            ..core::ObjectReference::default()
        };
        self.update_job(*seen);
        if events.is_empty() {
            return;
        }
        let recorder = self.context.recorder.clone();
        self.enqueue(uid, async move {
            for event in events {
                if let Err(error) = in_time(recorder.publish(&event, &reference)).await {
                    tracing::warn!(%error, reason = event.reason, "an event could not be sent");
                }
            }
            Answer::EventsSent
        });
    }

    fn replace_ledger(&mut self, uid: &str, ledger: Memory) {
        if let Some(job) = self.jobs.get_mut(uid) {
            job.ledger = ledger;
        }
    }

    /// The record of an attempt that outlives the job: one log line, and the metrics.
    fn report(&mut self, uid: &str, ended: Vec<AttemptEnd>) {
        let Some(job) = self.jobs.get(uid) else { return };
        let job = format!("{}/{}", job.seen.job.namespace, job.seen.job.name);
        for end in ended {
            self.context.metrics.attempt_ended(&end.result, end.seconds);
            tracing::info!(
                %job,
                device = end.device,
                endpoint = end.endpoint,
                attempt = end.attempt,
                result = end.result,
                seconds = end.seconds,
                message = end.message,
                "attempt ended"
            );
        }
    }
}
