//! A Pod's status in the shapes a kubelet writes.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition, PodIP, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::container::PodContainer;
use super::hosts::POD_IP;
use crate::clock::now;

/// The exit code of a program ended by SIGTERM.
pub(super) const TERMINATED: i32 = 143;

/// What a kubelet says of a program that could not be started.
pub(super) const NOT_STARTED: i32 = 128;

/// What there is to say of a Pod.
pub(super) struct Facts<'a> {
    pub(super) containers: &'a [PodContainer],
    pub(super) policy: &'a str,
    /// When the kubelet first had the Pod.
    pub(super) since: Timestamp,
    /// It has a process, and so this machine's address.
    pub(super) has_address: bool,
    /// Longer on the node than `activeDeadlineSeconds` allows.
    pub(super) overdue: bool,
    /// What was said before.
    pub(super) before: Option<&'a PodStatus>,
}

impl Facts<'_> {
    pub(super) fn status(&self) -> PodStatus {
        let phase = phase(self.containers, self.policy);
        let address = self.has_address.then(|| POD_IP.to_owned());
        let status = PodStatus {
            phase: Some(phase.to_owned()),
            start_time: Some(Time(self.since)),
            conditions: Some(self.conditions(phase)),
            init_container_statuses: statuses(self.containers, true),
            container_statuses: statuses(self.containers, false),
            pod_ips: address.clone().map(|ip| vec![PodIP { ip }]),
            pod_ip: address,
            ..PodStatus::default()
        };
        if self.overdue { deadline_exceeded(status) } else { status }
    }

    /// PodScheduled is the API server's: the binding sets it.
    fn conditions(&self, phase: &str) -> Vec<PodCondition> {
        let (inits, others): (Vec<_>, Vec<_>) = self.containers.iter().partition(|c| c.init);
        let completed = (phase == "Succeeded").then_some(("PodCompleted", None));
        let initialized = lacking(&inits, "ContainersNotInitialized", "incomplete");
        let ready = completed.clone().or_else(|| lacking(&others, "ContainersNotReady", "unready"));
        vec![
            self.condition("Initialized", initialized.is_none(), completed.or(initialized)),
            self.condition("ContainersReady", ready.is_none(), ready.clone()),
            self.condition("Ready", ready.is_none(), ready),
        ]
    }

    fn condition(
        &self,
        type_: &str,
        holds: bool,
        why: Option<(&str, Option<String>)>,
    ) -> PodCondition {
        let status = if holds { "True" } else { "False" };
        let before = self.before.iter().flat_map(|before| before.conditions.iter().flatten());
        let same = before.clone().find(|other| other.type_ == type_ && other.status == status);
        let (reason, message) = why.unzip();
        PodCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.map(str::to_owned),
            message: message.flatten(),
            last_transition_time: same
                .and_then(|same| same.last_transition_time.clone())
                .or_else(|| Some(Time(now()))),
            ..PodCondition::default()
        }
    }
}

/// Why containers are not as they should be, if they are not.
fn lacking<'a>(
    containers: &[&PodContainer],
    reason: &'a str,
    what: &str,
) -> Option<(&'a str, Option<String>)> {
    let names: Vec<&str> =
        containers.iter().filter(|c| !c.status.ready).map(|c| c.spec.name.as_str()).collect();
    let message = || format!("containers with {what} status: [{}]", names.join(" "));
    (!names.is_empty()).then(|| (reason, Some(message())))
}

fn statuses(containers: &[PodContainer], init: bool) -> Option<Vec<ContainerStatus>> {
    let of = containers.iter().filter(|container| container.init == init);
    let all: Vec<ContainerStatus> = of.map(|container| container.status.clone()).collect();
    (!all.is_empty()).then_some(all)
}

/// As a kubelet works it out: a container that is about to start again counts as one that has ended.
fn phase(containers: &[PodContainer], policy: &str) -> &'static str {
    let (inits, others): (Vec<_>, Vec<_>) = containers.iter().partition(|c| c.init);
    let failed = |c: &&PodContainer| c.exit_code().or(c.last_exit_code()).is_some_and(|c| c != 0);
    if policy == "Never" && inits.iter().any(failed) {
        return "Failed";
    }
    let not_begun = |c: &&PodContainer| c.waits() && c.last_exit_code().is_none();
    if inits.iter().any(|c| c.exit_code() != Some(0)) || others.iter().any(not_begun) {
        return "Pending";
    }
    let ended = |code: fn(i32) -> bool| others.iter().all(|c| c.exit_code().is_some_and(code));
    match policy {
        _ if others.iter().any(|c| c.runs()) => "Running",
        "Always" => "Running",
        _ if ended(|code| code == 0) => "Succeeded",
        "Never" => "Failed",
        _ => "Running",
    }
}

fn deadline_exceeded(status: PodStatus) -> PodStatus {
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
