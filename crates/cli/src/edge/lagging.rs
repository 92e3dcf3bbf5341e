//! Which devices do not run a workload that they are to run, and why: by what stands in the status of each.

use flashjob_api::edge::{DeviceWorkload, EdgeReason};
use flashjob_plan::edge::problem::Problem;
use flashjob_plan::edge::workloads::{Seen, WorkloadState, state};
use jiff::Timestamp;
use kube::api::ListParams;

use crate::connect::Connected;
use crate::edge::device::{Condition, Device};
use crate::edge::read;
use crate::edge::workload::Workload;
use crate::read::Scope;
use crate::shell::clean;
use crate::table::ago;

/// The longest name that a label takes. Devices are sent no workload with a longer one.
const LONGEST: usize = 63;

/// A device that is to run a workload and does not, or not as the workload is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lagging {
    pub device: String,
    pub state: &'static str,
    pub why: String,
    pub advice: Option<&'static str>,
}

/// The devices that the operator has labelled with the workload.
pub async fn devices(to: &Connected, workload: &Workload) -> anyhow::Result<Vec<Device>> {
    if workload.name.len() > LONGEST {
        return Ok(Vec::new());
    }
    let choice = ListParams::default().labels(&format!("workload/{}", workload.name));
    read::list(to, Scope::Only(&workload.namespace), &choice, &mut Vec::new()).await
}

/// Those of them that lag, in their order.
pub fn lagging(workload: &Workload, devices: &[Device], now: Timestamp) -> Vec<Lagging> {
    let entry = |device: &'_ Device| -> Option<DeviceWorkload> {
        device.workloads.iter().find(|entry| entry.name == workload.name).cloned()
    };
    let state_of = |device: &Device| of_device(workload, device, entry(device).as_ref(), now);
    let states: Vec<_> = devices.iter().map(state_of).collect();
    // What a device says may be of the workload as it was; the operator knows, and counts it as one that does not run it.
    let said = states.iter().filter(|state| state.is_none()).count();
    let others = usize::try_from(workload.counts.running).unwrap_or_default() < said;
    let outdated = |device: &Device| {
        let synced = device.condition("Synced").filter(|_| others && workload.is_current)?;
        (synced.status != "True").then(|| lag(device, "Deploying", words(synced), Some(synced)))
    };
    let both = devices.iter().zip(states);
    both.filter_map(|(device, state)| state.or_else(|| outdated(device))).collect()
}

fn lag(device: &Device, state: &'static str, why: String, of: Option<&Condition>) -> Lagging {
    let reason = of.and_then(|condition| EdgeReason::parse(&condition.reason));
    let advice = reason.map(EdgeReason::advice);
    Lagging { device: clean(&device.name), state, why: clean(&why), advice }
}

/// `None`: it runs the workload.
fn of_device(
    workload: &Workload,
    device: &Device,
    entry: Option<&DeviceWorkload>,
    now: Timestamp,
) -> Option<Lagging> {
    let ready = device.condition("Ready");
    let message = entry.and_then(|entry| entry.message.as_deref());
    let problem = message.and_then(problem);
    let seen = Seen {
        phase: entry.and_then(|entry| entry.phase.as_deref()),
        exit_code: entry.and_then(|entry| entry.exit_code),
        reporting: ready.is_some_and(|ready| ready.status == "True"),
        problem: problem.as_ref(),
    };
    let told = || {
        let since = entry.and_then(|entry| entry.last_transition_time.as_ref());
        let since = since.map(|time| format!(" for {}", ago(time.0, now))).unwrap_or_default();
        let code = seen.exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
        let message = message.map(|text| format!(": {text}")).unwrap_or_default();
        format!("{}{code}{since}{message}", seen.phase.unwrap_or("not told of yet"))
    };
    let advice = problem.as_ref().map(|problem| problem.reason.advice());
    let lagging = |state| Lagging { advice, ..lag(device, state, told(), None) };
    match state(&seen, workload.ends) {
        WorkloadState::Offline => {
            let why = ready.map_or_else(|| "it has not reported yet".to_owned(), words);
            Some(lag(device, "Offline", why, ready))
        }
        WorkloadState::Failed => Some(lagging("Failed")),
        WorkloadState::Deploying => Some(lagging("Deploying")),
        // It runs, and cannot be sent as it is now.
        WorkloadState::Running if problem.is_some() => Some(lagging("Held")),
        WorkloadState::Running => None,
    }
}

/// What keeps the workload from being sent, as the operator writes it into the status of the device.
fn problem(message: &str) -> Option<Problem> {
    let (reason, words) = message.split_once(": ")?;
    Some(Problem::new(EdgeReason::parse(reason)?, words))
}

fn words(condition: &Condition) -> String {
    match (condition.reason.as_str(), condition.message.as_str()) {
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

#[cfg(test)]
pub mod tests;
