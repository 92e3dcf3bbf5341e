//! `kubectl flashjob explain`: of every device that is not done, why, and what to do.

use anyhow::Result;
use flashjob_api::flashjob::{DeviceState, FlashJobStatus, InFlight, Phase, Reason};

use crate::args::Connection;
use crate::exit::Exit;
use crate::flashjob::read::{self, JobObject};
use crate::shell::{Shell, clean};

pub async fn run(to: &Connection, name: &str, shell: &Shell) -> Result<Exit> {
    let to = to.open().await?;
    let job = read::job(&to.client, &to.namespace, name).await?;
    shell.out(&(explain(&job).join("\n") + "\n"))?;
    Ok(Exit::Done)
}

/// The job in a sentence, and one or two for each device that is not done.
fn explain(job: &JobObject) -> Vec<String> {
    let status = &job.status;
    let mut lines = vec![clean(&about(job))];
    lines.extend(of_job(job).map(|todo| format!("  What to do: {todo}")));
    for device in &status.in_flight {
        let what = device.message.as_deref().unwrap_or_default();
        // A pause says itself when it ends.
        let end = device.until.as_ref().filter(|_| device.state != DeviceState::BackOff);
        let until = end.map(|at| at.0.strftime("; until %H:%M:%S UTC at most").to_string());
        let until = until.unwrap_or_default();
        lines.push(clean(&format!("{}: {}: {what}{until}", device.uuid, device.state)));
        lines.push(format!("  What to do: {}", of_state(device)));
    }
    for failure in &status.failures {
        let tried = match failure.attempts {
            0 => String::new(),
            1 => ", tried once".to_owned(),
            n => format!(", tried {n} times"),
        };
        let line = format!("{}: {}{tried}: {}", failure.uuid, failure.reason, failure.message);
        lines.push(clean(&line));
        let todo = Reason::parse(&failure.reason).map_or("see the message", Reason::advice);
        lines.push(format!("  What to do: {todo}"));
    }
    lines.extend(not_listed(status));
    lines
}

fn about(job: &JobObject) -> String {
    let name = job.name();
    let message = job.status.message.as_deref().unwrap_or_default();
    match job.status.phase {
        None => format!("{name}: no operator has looked at it yet"),
        Some(_) if !job.is_current() => {
            format!(
                "{name}: it was edited, and the operator has not taken that in yet; before: {message}"
            )
        }
        Some(phase) => format!("{name}: {phase:?}: {message}"),
    }
}

/// What is to be done about the job as a whole.
fn of_job(job: &JobObject) -> Option<String> {
    let status = &job.status;
    let Some(phase) = status.phase else {
        return Some("look whether the operator runs: kubectl flashjob check".to_owned());
    };
    let reason = status.conditions.iter().find(|c| c.type_ == "Stalled").map(|c| c.reason.as_str());
    let reason = reason.or_else(|| status.conditions.first().map(|c| c.reason.as_str()))?;
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    let rollout = |verb: &str| {
        let name = job.name();
        format!("kubectl flashjob rollout {verb} {name} -n {namespace}")
    };
    Some(match (phase, reason) {
        (Phase::Completed, _) => return None,
        (Phase::Suspended, _) | (_, "Aborted") => format!("to go on: {}", rollout("resume")),
        (_, "DevicesFailed") => format!("see below; then try them again: {}", rollout("retry")),
        (_, "FailureBudgetExceeded") => format!(
            "see what the failed devices have in common; then raise rollout.maxFailures, or: {}",
            rollout("retry")
        ),
        (_, "WaitingForAkri") => "install Akri; it goes on by itself then".to_owned(),
        (_, "NoDevices") => {
            "see what there is: kubectl flashjob devices; it goes on when one fits".to_owned()
        }
        (_, reason) => Reason::parse(reason)?.advice().to_owned(),
    })
}

/// What is to be done about a device that waits.
fn of_state(device: &InFlight) -> &'static str {
    match device.state {
        DeviceState::Offline => {
            "check the board's power and network, and Akri's agent; it goes on when Akri finds it"
        }
        DeviceState::Blocked => "wait for the other job, or end that one",
        DeviceState::Addressing => {
            "wait; if it lasts, see whether the load balancer has a free address"
        }
        DeviceState::Starting => {
            "wait; if it lasts, the message has the kubelet's or the scheduler's words"
        }
        DeviceState::BackOff => "wait, it is tried again by itself; or mend what the message says",
        DeviceState::Flashing => "wait; kubectl flashjob logs shows what the flash Pod says",
        DeviceState::Pending | DeviceState::Recording | DeviceState::Other(_) => "wait",
    }
}

/// What the status has no room for.
fn not_listed(status: &FlashJobStatus) -> Vec<String> {
    let Some(counts) = status.counts else { return Vec::new() };
    let mut lines = Vec::new();
    let pending = counts.pending;
    match status.completion_time {
        _ if pending == 0 => {}
        Some(_) => lines.push(format!("Not begun: {pending}.")),
        None => {
            lines.push(format!(
                "Not begun yet: {pending}; their batch comes later, or others go first."
            ));
        }
    }
    let rest =
        |all: i32, listed: usize| usize::try_from(all).unwrap_or_default().saturating_sub(listed);
    let at_work = counts.offline + counts.waiting + counts.blocked + counts.flashing;
    let more = rest(at_work, status.in_flight.len());
    if more > 0 {
        lines.push(format!("At work, and not listed here: {more}; the status shows 100."));
    }
    let more = rest(counts.failed, status.failures.len());
    if more > 0 {
        lines.push(format!("Failed, and not listed here: {more}; the status shows 100."));
    }
    if lines.is_empty() && status.in_flight.is_empty() && status.failures.is_empty() {
        lines.push("Every device is done.".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests;
