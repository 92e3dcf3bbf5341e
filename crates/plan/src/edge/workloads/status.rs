//! How far a workload is, as its status says it: the conditions Accepted and Complete, how many devices are how far, and one
//! sentence. The original says nothing of it anywhere.

use flashjob_api::edge::{WorkloadCounts, WorkloadStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::super::problem::Problem;
use super::accept::{Accepted, Target};
use super::shape::cut;

/// How far a workload is on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadState {
    Running,
    Deploying,
    Failed,
    Offline,
}

/// What is known of a workload on one of its devices.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen<'a> {
    /// `Deploying`, or Podman's word as the device has told it.
    pub phase: Option<&'a str>,
    pub exit_code: Option<i32>,
    /// The device reports.
    pub reporting: bool,
    /// What keeps the workload, as it is now, from being sent to the device.
    pub problem: Option<&'a Problem>,
}

/// How far the workload is on that device. `ends`: its pod is one that is to come to an end.
///
/// What a silent device said last may hold no longer, so it is Offline whatever that was. A pod that runs does so also when
/// something that it would need anew is gone; one that does not and cannot be sent has failed.
///
/// A pod that is to come to an end and did so with code 0 has done what it was made for, and counts as one that runs: else
/// its workload would never be complete. Flotta's agent tells no code, and without one nothing says that it went well.
pub fn state(seen: &Seen<'_>, ends: bool) -> WorkloadState {
    let phase = seen.phase.unwrap_or_default();
    let is = |words: &[&str]| words.iter().any(|word| phase.eq_ignore_ascii_case(word));
    if !seen.reporting {
        WorkloadState::Offline
    } else if is(&["Running"]) || ends && is(&["Exited"]) && seen.exit_code == Some(0) {
        WorkloadState::Running
    } else if seen.problem.is_some() || is(&["Degraded", "Paused", "Stopped", "Exited", "Error"]) {
        WorkloadState::Failed
    } else {
        // Created, Deploying, and words that nobody knows.
        WorkloadState::Deploying
    }
}

/// What the devices of a workload come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    counts: WorkloadCounts,
    /// Devices that it cannot be sent to as it is now.
    held: i32,
    /// The first of the reasons, by reason and words, so that it is the same one in whatever order devices come.
    problem: Option<Problem>,
}

impl Tally {
    /// Of these devices.
    pub fn of<'a>(workload: &Accepted, devices: impl IntoIterator<Item = Seen<'a>>) -> Self {
        let mut tally = Self::default();
        devices.into_iter().for_each(|seen| tally.add(&seen, workload.ends));
        tally
    }

    /// One device more.
    pub fn add(&mut self, seen: &Seen<'_>, ends: bool) {
        let counts = &mut self.counts;
        let count = match state(seen, ends) {
            WorkloadState::Running => &mut counts.running,
            WorkloadState::Deploying => &mut counts.deploying,
            WorkloadState::Failed => &mut counts.failed,
            WorkloadState::Offline => &mut counts.offline,
        };
        *count += 1;
        counts.matched += 1;
        let Some(problem) = seen.problem else { return };
        self.held += 1;
        if self.problem.as_ref().is_none_or(|known| problem < known) {
            self.problem = Some(problem.clone());
        }
    }

    pub fn counts(&self) -> WorkloadCounts {
        self.counts
    }

    /// The status of an accepted workload whose devices these are.
    pub fn status(&self, workload: &Accepted, generation: i64, now: Timestamp) -> WorkloadStatus {
        let WorkloadCounts { matched, running, .. } = self.counts;
        let message = self.message(workload);
        let (complete, reason) = self.complete();
        let condition = |type_, holds, reason, message: &str| {
            condition(type_, holds, reason, message, generation, now)
        };
        WorkloadStatus {
            conditions: vec![
                condition("Accepted", true, "Accepted", "devices can run it"),
                condition("Complete", complete, reason, &message),
            ],
            counts: Some(self.counts),
            running: Some(format!("{running}/{matched}")),
            message: Some(message),
            observed_generation: Some(generation),
        }
    }

    /// Whether every device runs it, and why or why not: first what a person has to see to, then what is under way.
    fn complete(&self) -> (bool, &'static str) {
        let WorkloadCounts { matched, failed, deploying, offline, .. } = self.counts;
        match &self.problem {
            _ if matched == 0 => (false, "NoDevices"),
            Some(problem) => (false, problem.reason.as_str()),
            None if failed > 0 => (false, "Failed"),
            None if deploying > 0 => (false, "Deploying"),
            None if offline > 0 => (false, "Offline"),
            None => (true, "Running"),
        }
    }

    fn message(&self, workload: &Accepted) -> String {
        let WorkloadCounts { matched, running, deploying, failed, offline } = self.counts;
        if matched == 0 {
            return match &workload.target {
                Target::Device(name) => format!("there is no device {name}"),
                Target::Selector(_) => "no device has the labels that it is for".to_owned(),
                Target::Nobody => {
                    "it is for no device: it has no device and no deviceSelector".to_owned()
                }
            };
        }
        let mut message = match matched {
            1 => format!("{running} of 1 device runs it"),
            _ => format!("{running} of {matched} devices run it"),
        };
        for (count, what) in [(deploying, "deploying"), (failed, "failed"), (offline, "offline")] {
            if count > 0 {
                message.push_str(&format!(", {count} {what}"));
            }
        }
        if let Some(Problem { reason, message: why }) = &self.problem {
            message.push_str(&format!("; it cannot be sent to {}: {reason}: {why}", self.held));
        }
        cut(message)
    }
}

/// The status of a workload that is sent to no device.
pub fn refused_status(problem: &Problem, generation: i64, now: Timestamp) -> WorkloadStatus {
    let reason = problem.reason.as_str();
    let condition =
        |type_, reason| condition(type_, false, reason, &problem.message, generation, now);
    WorkloadStatus {
        conditions: vec![condition("Accepted", reason), condition("Complete", "NotAccepted")],
        message: Some(format!("{reason}: {}", problem.message)),
        observed_generation: Some(generation),
        ..WorkloadStatus::default()
    }
}

fn condition(
    type_: &str,
    holds: bool,
    reason: &str,
    message: &str,
    generation: i64,
    now: Timestamp,
) -> Condition {
    Condition {
        type_: type_.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: Some(generation),
        last_transition_time: Time(now),
    }
}

#[cfg(test)]
mod tests;
