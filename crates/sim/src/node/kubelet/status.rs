//! A Pod's status in the shapes a kubelet writes.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, Pod, PodCondition, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::clock::now;

/// The exit code of a program ended by SIGTERM.
pub(super) const TERMINATED: i32 = 143;

/// What a kubelet says of a program that could not be started.
pub(super) const NOT_STARTED: i32 = 128;

fn containers(pod: &Pod) -> &[Container] {
    pod.spec.as_ref().map_or(&[], |spec| &spec.containers)
}

fn statuses(pod: &Pod, ready: bool, state: &ContainerState) -> Vec<ContainerStatus> {
    containers(pod)
        .iter()
        .map(|container| ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            ready,
            started: Some(state.running.is_some()),
            state: Some(state.clone()),
            ..ContainerStatus::default()
        })
        .collect()
}

/// PodScheduled is the API server's: the binding sets it.
fn conditions(initialized: bool, ready: bool, reason: Option<&str>) -> Vec<PodCondition> {
    let condition = |type_: &str, status: bool, reason: Option<&str>| PodCondition {
        type_: type_.to_owned(),
        status: if status { "True" } else { "False" }.to_owned(),
        reason: reason.map(str::to_owned),
        last_transition_time: Some(Time(now())),
        ..PodCondition::default()
    };
    vec![
        condition("Initialized", initialized, None),
        condition("ContainersReady", ready, reason),
        condition("Ready", ready, reason),
    ]
}

/// Bound, and not running yet.
pub(super) fn waiting(
    pod: &Pod,
    since: Timestamp,
    reason: &str,
    message: Option<&str>,
) -> PodStatus {
    let state = ContainerState {
        waiting: Some(ContainerStateWaiting {
            reason: Some(reason.to_owned()),
            message: message.map(str::to_owned),
        }),
        ..ContainerState::default()
    };
    PodStatus {
        phase: Some("Pending".to_owned()),
        start_time: Some(Time(since)),
        conditions: Some(conditions(true, false, Some("ContainersNotReady"))),
        container_statuses: Some(statuses(pod, false, &state)),
        ..PodStatus::default()
    }
}

/// Running since `started`.
pub(super) fn running(pod: &Pod, since: Timestamp, started: Timestamp) -> PodStatus {
    let state = ContainerState {
        running: Some(ContainerStateRunning { started_at: Some(Time(started)) }),
        ..ContainerState::default()
    };
    PodStatus {
        phase: Some("Running".to_owned()),
        start_time: Some(Time(since)),
        conditions: Some(conditions(true, true, None)),
        container_statuses: Some(statuses(pod, true, &state)),
        ..PodStatus::default()
    }
}

/// Ended by itself or by a signal.
pub(super) fn ended(
    pod: &Pod,
    since: Timestamp,
    (started, finished): (Timestamp, Timestamp),
    exit_code: i32,
    message: &str,
) -> PodStatus {
    let succeeded = exit_code == 0;
    let state = ContainerState {
        terminated: Some(ContainerStateTerminated {
            exit_code,
            reason: Some(if succeeded { "Completed" } else { "Error" }.to_owned()),
            message: (!message.is_empty()).then(|| message.to_owned()),
            started_at: Some(Time(started)),
            finished_at: Some(Time(finished)),
            ..ContainerStateTerminated::default()
        }),
        ..ContainerState::default()
    };
    let reason = if succeeded { "PodCompleted" } else { "ContainersNotReady" };
    PodStatus {
        phase: Some(if succeeded { "Succeeded" } else { "Failed" }.to_owned()),
        start_time: Some(Time(since)),
        conditions: Some(conditions(true, false, Some(reason))),
        container_statuses: Some(statuses(pod, false, &state)),
        ..PodStatus::default()
    }
}

/// The first container has ended as `ended` says, and those beside it run on: the Pod runs.
pub(super) fn outlived(ended: PodStatus, started: Timestamp) -> PodStatus {
    let mut statuses = ended.container_statuses.unwrap_or_default();
    for sidecar in statuses.iter_mut().skip(1) {
        let running = ContainerStateRunning { started_at: Some(Time(started)) };
        sidecar.state =
            Some(ContainerState { running: Some(running), ..ContainerState::default() });
        (sidecar.ready, sidecar.started) = (true, Some(true));
    }
    PodStatus {
        phase: Some("Running".to_owned()),
        conditions: Some(conditions(true, false, Some("ContainersNotReady"))),
        container_statuses: Some(statuses),
        ..ended
    }
}

/// Longer on the node than `activeDeadlineSeconds` allows. `status` is what there was of the containers.
pub(super) fn deadline_exceeded(status: PodStatus) -> PodStatus {
    PodStatus {
        phase: Some("Failed".to_owned()),
        reason: Some("DeadlineExceeded".to_owned()),
        message: Some("Pod was active on the node longer than the specified deadline".to_owned()),
        ..status
    }
}

/// Thrown out by a node that runs short. A kubelet writes this without a word about the containers.
pub(super) fn evicted(since: Timestamp) -> PodStatus {
    PodStatus {
        phase: Some("Failed".to_owned()),
        reason: Some("Evicted".to_owned()),
        message: Some("The node was low on resource: memory. ".to_owned()),
        start_time: Some(Time(since)),
        ..PodStatus::default()
    }
}

/// What the scheduler writes when no node fits.
pub(super) fn unschedulable() -> PodStatus {
    PodStatus {
        phase: Some("Pending".to_owned()),
        conditions: Some(vec![PodCondition {
            type_: "PodScheduled".to_owned(),
            status: "False".to_owned(),
            reason: Some("Unschedulable".to_owned()),
            message: Some("0/1 nodes are available: 1 Insufficient cpu.".to_owned()),
            last_transition_time: Some(Time(now())),
            ..PodCondition::default()
        }]),
        ..PodStatus::default()
    }
}
