//! From API objects to the few facts a decision depends on.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use flashjob_api::flashjob::{flash_pod, instance};
use flashjob_plan::flashjob::children::{self, Child, Foreign, Place};
use flashjob_plan::flashjob::facts::{Container, Job, Pod, PodPhase, Service, Settings};
use flashjob_plan::flashjob::instances::Instance;
use flashjob_plan::flashjob::names;
use flashjob_plan::time::after;
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::ResourceExt;
use serde_json::Value;

use super::slim;

const NO_SUCH_POD: &str = "its labels are not those of a flash Pod";
const NO_SUCH_SERVICE: &str = "its labels are not those of a flash Pod's Service";

/// A job as a watch or an answer showed it.
#[derive(Clone, Debug)]
pub struct SeenJob {
    /// The job without its status. It may name thousands of devices, and is handed to every write of its ledger.
    pub job: Arc<Job>,
    /// Its resourceVersion.
    pub version: String,
    /// The same as a number.
    pub version_number: u64,
    /// All of its finalizers.
    pub finalizers: Vec<String>,
    /// Its status, whatever that is.
    pub status: Value,
}

impl SeenJob {
    /// Everything about it that a decision or a write depends on, in one number.
    pub fn fingerprint(&self, key: &RandomState) -> u64 {
        let Job { generation, deleting, finalizer, ledger, .. } = &*self.job;
        key.hash_one((generation, deleting, finalizer, ledger, self.status.to_string()))
    }
}

/// Reads a FlashJob; `known` is what it was before. A spec that cannot be read makes an invalid job, not a dead watch.
pub fn job(object: slim::FlashJob, settings: &Settings, known: Option<&Arc<Job>>) -> SeenJob {
    let slim::FlashJob { metadata, spec, status } = object;
    let known = known.filter(|job| job.is_still(&metadata)).cloned();
    SeenJob {
        job: known.unwrap_or_else(|| Arc::new(Job::read(&metadata, &spec, settings))),
        version_number: version(&metadata),
        version: metadata.resource_version.unwrap_or_default(),
        finalizers: metadata.finalizers.unwrap_or_default(),
        status,
    }
}

/// A job whose status was written, and nothing else of it.
pub fn job_with_status(
    job: Arc<Job>,
    finalizers: Vec<String>,
    status: Value,
    answer: slim::WrittenFlashJob,
) -> SeenJob {
    SeenJob {
        job,
        version_number: version(&answer.metadata),
        version: answer.metadata.resource_version.unwrap_or_default(),
        finalizers,
        status,
    }
}

/// Reads an Akri Instance; one that cannot be read is left out, and does not end the watch.
pub fn instance(object: slim::Instance) -> Option<Instance> {
    let name = object.metadata.name.clone().unwrap_or_default();
    let read = Instance::read(object.metadata, object.spec);
    read.inspect_err(|error| {
        tracing::warn!(%error, name, "an Akri Instance cannot be read and is left out");
    })
    .ok()
}

/// Reads a Pod with our labels.
pub fn pod(pod: slim::Pod) -> Result<Child<Pod>, Foreign> {
    match children::claim(&pod.metadata)? {
        (owner, Place::Pod(target, attempt)) => {
            Ok(Child { owner, target, attempt, facts: pod_facts(&pod) })
        }
        (owner, _) => Err(children::foreign(&pod.metadata, &owner.uid, NO_SUCH_POD.into())),
    }
}

/// What matters of any Pod.
pub fn pod_facts(pod: &slim::Pod) -> Pod {
    let status = pod.status.clone().unwrap_or_default();
    let phase = match status.phase.as_deref() {
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        _ => PodPhase::Pending,
    };
    let flash = status.container_statuses.iter().flatten().find(|c| c.name == flash_pod::CONTAINER);
    let unscheduled = status
        .conditions
        .iter()
        .flatten()
        .find(|c| c.type_ == "PodScheduled" && c.status == "False")
        .and_then(|c| c.message.clone());
    let container = flash.map(container).unwrap_or_default();
    // A deadline that passed later met a sidecar, and is no word about the flash.
    let allowed = pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds);
    let deadline = status.start_time.zip(allowed).map(|(t, s)| after(t.0, s));
    let ended_in_time =
        matches!(container, Container::Ended { at, .. } if at.is_some() && at < deadline);
    Pod {
        version: version(&pod.metadata),
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        endpoint: board(pod).into(),
        first_seen: created(&pod.metadata),
        deleting: pod.metadata.deletion_timestamp.as_ref().map(|t| t.0),
        phase,
        container,
        reason: status.reason.filter(|_| !ended_in_time),
        note: status.message.or(unscheduled),
        // The index knows when it was first seen so, and puts its own times in place of these.
        terminal_since: None,
    }
}

/// The board a flash Pod is for, as its environment says.
fn board(pod: &slim::Pod) -> String {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut env =
        containers.filter(|c| c.name == flash_pod::CONTAINER).flat_map(|c| c.env.iter().flatten());
    env.find(|e| e.name == instance::HOST_ENDPOINT)
        .and_then(|e| e.value.clone())
        .unwrap_or_default()
}

fn container(status: &core::ContainerStatus) -> Container {
    let time = |time: Option<Time>| time.map(|t| t.0);
    let Some(state) = status.state.clone() else { return Container::Unknown };
    if let Some(ended) = state.terminated {
        return Container::Ended {
            exit_code: ended.exit_code,
            reason: ended.reason,
            message: ended.message,
            at: time(ended.finished_at),
        };
    }
    if let Some(running) = state.running {
        return Container::Running(time(running.started_at));
    }
    let why = state.waiting.and_then(|w| match (w.reason, w.message) {
        (Some(reason), Some(message)) => Some(format!("{reason}: {message}")),
        (reason, message) => reason.or(message),
    });
    Container::Waiting(why)
}

/// Reads a Service with our labels.
pub fn service(service: slim::Service) -> Result<Child<Service>, Foreign> {
    match children::claim(&service.metadata)? {
        (owner, Place::Service(target)) => {
            Ok(Child { owner, target, attempt: 0, facts: service_facts(&service) })
        }
        (owner, _) => Err(children::foreign(&service.metadata, &owner.uid, NO_SUCH_SERVICE.into())),
    }
}

/// What matters of any Service.
pub fn service_facts(service: &slim::Service) -> Service {
    let balancer = service.status.clone().and_then(|s| s.load_balancer).unwrap_or_default();
    let ingress = balancer.ingress.unwrap_or_default();
    let ipv4 = |i: &core::LoadBalancerIngress| {
        i.ip.clone().filter(|ip| ip.parse::<std::net::Ipv4Addr>().is_ok())
    };
    let hostname = || ingress.iter().find_map(|i| i.hostname.clone());
    let spec = service.spec.as_ref();
    Service {
        version: version(&service.metadata),
        name: service.name_any(),
        uid: service.uid().unwrap_or_default(),
        first_seen: created(&service.metadata),
        deleting: service.metadata.deletion_timestamp.as_ref().map(|t| t.0),
        spec_hash: service.labels().get(names::SPEC_HASH).cloned().unwrap_or_default(),
        node_port: spec.is_some_and(|s| s.type_.as_deref() == Some("NodePort")),
        pool: service.labels().get(names::POOL).cloned().unwrap_or_default(),
        address: ingress.iter().find_map(ipv4).or_else(hostname),
    }
}

/// A resourceVersion as a number. Kubernetes promises since 1.35 that newer ones are greater, and they always were.
fn version(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0)
}

fn created(metadata: &ObjectMeta) -> Timestamp {
    metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0)
}
