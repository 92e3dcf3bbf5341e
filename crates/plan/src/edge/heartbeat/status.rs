//! The status of an EdgeDevice: what the device said last, and how that compares with what it is to do.
//!
//! It is worked out whole each time, from what is there. What the device does not say again comes from the status itself,
//! which is its only record after a restart: the hardware, since when a workload is in its phase and, until the first
//! heartbeat, all the rest.
//!
//! Its size has a bound: of the workloads as many are listed as fit, and messages come last. Hardware has a bound of its own.

use flashjob_api::edge::{DeviceStatus, DeviceWorkload};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use super::before::{Before, Known};
use super::conditions;
use super::liveness::Live;
use super::report::{Report, SENTENCE, Told, merge_hardware};
use super::text::{line, maybe};
use crate::edge::problem::Problem;
use crate::time::after;

/// A workload that the device has not told of.
pub const DEPLOYING: &str = "Deploying";
/// Podman's word for one that runs.
pub const RUNNING: &str = "Running";

/// Bytes of JSON for one of the two lists of workloads, without messages and for messages. Both lists with all the rest stay
/// under 60 KiB.
const LIST_BYTES: usize = 16 * 1024;
const MESSAGE_BYTES: usize = 6 * 1024;
/// The longest name of a claim.
const LONGEST_NAME: usize = 253;
/// No clock of ours is so far ahead of another of ours: a day.
const AHEAD: i64 = 24 * 3600;

/// What a status depends on.
#[derive(Clone, Debug)]
pub struct StatusView<'a> {
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// The status as it is, whoever wrote it; null if there is none.
    pub before: &'a Value,
    /// The last heartbeat; none since this process started, or it is in the status already.
    pub report: Option<&'a Report>,
    /// What the device is to run, in order of name.
    pub workloads: &'a [Wanted<'a>],
    /// The configuration that is served; none if nobody has asked for it yet.
    pub served: Option<Served<'a>>,
    /// The latest configuration cannot be made, and the device keeps the one it has.
    pub held: bool,
    pub live: Live,
    /// When the device came in, if that is known.
    pub registered: Option<Timestamp>,
    /// What is wrong with the device as a whole, the most important first. Storage has its own.
    pub problems: &'a [Problem],
    /// Its bucket, if it is to have one.
    pub storage: Option<Result<(), &'a Problem>>,
    /// When the last of its certificates ends.
    pub certificate_end: Option<Timestamp>,
    /// What its configuration asks for and our agent does not do, if it is ours.
    pub unsupported: &'a [&'a str],
    pub data_obc: Option<&'a str>,
}

/// A workload that the device is to run.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub name: &'a str,
    /// Why it is not sent, or not as it should be.
    pub problem: Option<&'a Problem>,
}

/// The configuration that a device is given when it asks.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    pub version: &'a str,
    pub since: Timestamp,
}

/// The whole status. Conditions have the time of now: who writes it knows the times of those that have not turned.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    pub status: DeviceStatus,
    /// When time alone may change it.
    pub look_again: Option<Timestamp>,
}

pub fn device_status(view: &StatusView<'_>, now: Timestamp) -> Decided {
    let before = Before::read(view.before);
    let (phase, version, upgrade) = match view.report {
        Some(said) => (said.phase.clone(), said.version.clone(), said.upgrade.clone()),
        None => (before.phase.clone(), before.version.clone(), before.upgrade.clone()),
    };
    let workloads = workloads(view, &before, now);
    let (conditions, look_again) = conditions::of(view, &before, version.as_deref(), now);
    let runs = |workload: &&DeviceWorkload| workload.phase.as_deref() == Some(RUNNING);
    let running = workloads.iter().filter(runs).count();
    let said = view.report.and_then(|report| report.hardware.as_ref());
    let status = DeviceStatus {
        phase,
        last_seen_time: None,
        last_synced_resource_version: version,
        conditions,
        running: Some(format!("{running}/{}", view.workloads.len())),
        hardware: merge_hardware(before.hardware, said),
        deployments: workloads.clone(),
        workloads,
        data_obc: view.data_obc.and_then(|name| maybe(name, LONGEST_NAME)),
        upgrade_information: upgrade,
    };
    Decided { status, look_again }
}

/// Those that are wanted, in their order; all of them, unless there are more than a device could ever run.
fn workloads(view: &StatusView<'_>, before: &Before, now: Timestamp) -> Vec<DeviceWorkload> {
    let mut room = LIST_BYTES;
    let mut room_for_messages = MESSAGE_BYTES;
    let mut listed = Vec::new();
    for wanted in view.workloads {
        let known = before.workloads.get(wanted.name);
        let told = match view.report {
            Some(report) => report.workloads.get(wanted.name),
            None => known.map(|known| &known.told),
        };
        let mut workload = workload(wanted.name, told, known, now);
        match room.checked_sub(size(&workload)) {
            Some(left) => room = left,
            None => break,
        }
        let message = message(wanted.problem, told);
        let left = room_for_messages.checked_sub(message.as_ref().map_or(0, size));
        if let Some(left) = left {
            (workload.message, room_for_messages) = (message, left);
        }
        listed.push(workload);
    }
    listed
}

fn workload(
    name: &str,
    told: Option<&Told>,
    known: Option<&Known>,
    now: Timestamp,
) -> DeviceWorkload {
    let phase = |told: &Told| Some(told.phase.clone()).filter(|phase| !phase.is_empty());
    let phase = told.and_then(phase).unwrap_or_else(|| DEPLOYING.to_owned());
    let since = known.filter(|known| known.told.phase == phase).and_then(|known| known.since);
    let since = since.filter(|since| *since < after(now, AHEAD)).unwrap_or(now);
    DeviceWorkload {
        name: name.to_owned(),
        phase: Some(phase),
        last_transition_time: Some(Time(since)),
        last_data_upload: told.and_then(|told| told.last_data_upload).map(Time),
        exit_code: told.and_then(|told| told.exit_code),
        message: None,
        restarts: told.and_then(|told| told.restarts),
    }
}

/// What keeps it from running, or else what the device says.
fn message(problem: Option<&Problem>, told: Option<&Told>) -> Option<String> {
    match problem {
        Some(problem) => Some(line(&format!("{}: {}", problem.reason, problem.message), SENTENCE)),
        None => told.and_then(|told| told.message.clone()),
    }
}

/// As JSON, with a comma and a key.
fn size(of: &impl serde::Serialize) -> usize {
    serde_json::to_vec(of).map_or(usize::MAX, |json| json.len().saturating_add(12))
}

#[cfg(test)]
mod tests;
