//! The conditions of an EdgeDevice. Each says by itself what there is to know of it, in a sentence that stays the same while
//! nothing happens.

use flashjob_api::edge::EdgeReason;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::before::{Before, SILENT_SINCE};
use super::liveness::Live;
use super::report::{Agent, SENTENCE, whole_second};
use super::status::StatusView;
use super::text::line;
use crate::edge::problem::Problem;
use crate::time::{after, later};

const READY: &str = "Ready";
const SYNCED: &str = "Synced";
pub(super) const CONFIGURED: &str = "Configured";
const NOT_SUPPORTED: &str = "NotSupportedByAgent";

/// Reasons where all is well, or nobody knows yet. The others are in [`EdgeReason`].
pub const REPORTING: &str = "Reporting";
pub const CARRIED_OUT: &str = "CarriedOut";
pub const IN_PROGRESS: &str = "InProgress";
pub const COMPLETE: &str = "Complete";
pub const AVAILABLE: &str = "Available";

/// What the sentence of a device begins with whose latest configuration cannot be made.
pub(super) const KEEPS: &str = "the device keeps the configuration it has: ";

/// A device may take so many seconds for a new configuration before that is worth a word.
const BEHIND: i64 = 60;
/// The end of a certificate is announced so long before.
const ENDS_SOON: SignedDuration = SignedDuration::from_hours(14 * 24);
/// Bytes of a sentence that names several problems.
const LONGEST: usize = 1024;

/// A condition, but for what all of them have in common.
struct Said {
    type_: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
}

/// All that hold, and when time alone may change them. `version`: of the configuration that the device has carried out.
pub(super) fn of(
    view: &StatusView<'_>,
    before: &Before,
    version: Option<&str>,
    now: Timestamp,
) -> (Vec<Condition>, Option<Timestamp>) {
    let (synced, behind_at) = synced(view, before, version, now);
    let (expiring, changes_at) = certificate(view.certificate_end, now);
    let said = [Some(ready(view, before)), Some(synced), Some(configured(view))];
    let said = said.into_iter().chain([storage(view), unsupported(view, before), expiring]);
    let condition = |said: Said| Condition {
        type_: said.type_.to_owned(),
        status: said.status.to_owned(),
        reason: said.reason.to_owned(),
        message: said.message,
        observed_generation: view.generation,
        last_transition_time: Time(now),
    };
    let look_again = behind_at.into_iter().chain(changes_at).min();
    (said.flatten().map(condition).collect(), look_again)
}

/// Whether the device reports. A process that cannot know yet leaves it as it is.
fn ready(view: &StatusView<'_>, before: &Before) -> Said {
    let has_spoken = view.report.is_some() || before.has_spoken();
    match view.live {
        Live::Reporting => reporting(),
        Live::Missing { since } => silent(Some(since)),
        Live::Grace { seen } => match before.condition(READY) {
            Some(("True", _)) => reporting(),
            Some((_, reason)) if reason == EdgeReason::NoHeartbeat.as_str() => {
                silent(seen.or(before.silent_since()))
            }
            _ if has_spoken || seen.is_some() => reporting(),
            _ => never(view.registered),
        },
        Live::Never if has_spoken => silent(before.silent_since()),
        Live::Never => never(view.registered),
    }
}

fn reporting() -> Said {
    let message = "the device reports".to_owned();
    Said { type_: READY, status: "True", reason: REPORTING, message }
}

fn silent(since: Option<Timestamp>) -> Said {
    let message = match since.and_then(whole_second) {
        Some(since) => format!("{SILENT_SINCE}{since}"),
        None => {
            "no heartbeat for three periods; when the last one came is not on record".to_owned()
        }
    };
    Said { type_: READY, status: "Unknown", reason: EdgeReason::NoHeartbeat.as_str(), message }
}

fn never(registered: Option<Timestamp>) -> Said {
    let message = match registered.and_then(whole_second) {
        Some(registered) => format!("no heartbeat yet; the device came in at {registered}"),
        None => "no heartbeat yet".to_owned(),
    };
    Said { type_: READY, status: "Unknown", reason: EdgeReason::NeverReported.as_str(), message }
}

/// Whether the device has carried out its latest configuration. For a minute after there is a new one it is as it was.
fn synced(
    view: &StatusView<'_>,
    before: &Before,
    version: Option<&str>,
    now: Timestamp,
) -> (Said, Option<Timestamp>) {
    let said = |status, reason, message| Said { type_: SYNCED, status, reason, message };
    let problem = problems(view).next();
    if !has_reported(view, before) {
        let message = "the device has not said which configuration it has".to_owned();
        return (said("Unknown", EdgeReason::NeverReported.as_str(), message), None);
    }
    if let Some((_, problem)) = problem.filter(|_| view.held) {
        let message = "the device keeps the configuration it has until the latest can be made";
        return (said("False", problem.reason.as_str(), message.to_owned()), None);
    }
    let carried_out = || {
        let message = "the device has carried out its latest configuration".to_owned();
        said("True", CARRIED_OUT, message)
    };
    let behind = || {
        let has = version.map_or_else(|| "no configuration yet".into(), |v| format!("version {v}"));
        let latest = view.served.map(|served| format!(", and the latest is {}", served.version));
        let message = line(&format!("the device has {has}{}", latest.unwrap_or_default()), LONGEST);
        said("False", EdgeReason::Behind.as_str(), message)
    };
    let over = view.served.map(|served| after(served.since, BEHIND));
    match view.served {
        Some(served) if version == Some(served.version) => return (carried_out(), None),
        Some(_) if over.is_some_and(|over| over <= now) => return (behind(), None),
        _ => {}
    }
    let as_before = match before.condition(SYNCED) {
        Some(("True", _)) => carried_out(),
        Some(("False", _)) => behind(),
        _ => {
            let message = "the device has got its latest configuration a moment ago".to_owned();
            said("Unknown", IN_PROGRESS, message)
        }
    };
    (as_before, over)
}

fn has_reported(view: &StatusView<'_>, before: &Before) -> bool {
    match view.live {
        Live::Reporting | Live::Missing { .. } | Live::Grace { seen: Some(_) } => true,
        Live::Grace { seen: None } | Live::Never => view.report.is_some() || before.has_spoken(),
    }
}

/// Of the device, and then of its workloads, with their names.
fn problems<'a>(view: &'a StatusView<'_>) -> impl Iterator<Item = (Option<&'a str>, &'a Problem)> {
    let of_workload =
        |w: &'a super::status::Wanted<'_>| w.problem.map(|problem| (Some(w.name), problem));
    let of_device = view.problems.iter().map(|problem| (None, problem));
    of_device.chain(view.workloads.iter().filter_map(of_workload))
}

/// Whether all that the device is to have can be sent.
fn configured(view: &StatusView<'_>) -> Said {
    let Some((_, first)) = problems(view).next() else {
        let message = "all that the device is to have can be sent".to_owned();
        return Said { type_: CONFIGURED, status: "True", reason: COMPLETE, message };
    };
    let mut message = String::new();
    if view.held {
        message.push_str(KEEPS);
    }
    let (mut told, count) = (0, problems(view).count());
    for (workload, problem) in problems(view) {
        let of = workload.map(|name| format!("workload {name}: ")).unwrap_or_default();
        let sentence = line(&format!("{of}{}", problem.message), SENTENCE);
        let separator = if told == 0 { "" } else { "; " };
        if message.len() + separator.len() + sentence.len() > LONGEST - "; and 999999 more".len() {
            break;
        }
        message = message + separator + &sentence;
        told += 1;
    }
    if told < count {
        message.push_str(&format!("; and {} more", count - told));
    }
    Said { type_: CONFIGURED, status: "False", reason: first.reason.as_str(), message }
}

/// Only for a device that is to have a bucket.
fn storage(view: &StatusView<'_>) -> Option<Said> {
    let (status, reason, message) = match view.storage? {
        Ok(()) => ("True", AVAILABLE, "the device has its bucket".to_owned()),
        Err(problem) => ("False", problem.reason.as_str(), line(&problem.message, LONGEST)),
    };
    Some(Said { type_: "StorageReady", status, reason, message })
}

/// Only while our agent is asked for what it does not do. Whose agent it is, only it can say; until it does, it is as it was.
fn unsupported(view: &StatusView<'_>, before: &Before) -> Option<Said> {
    let is_ours = match view.report {
        Some(report) => report.agent.as_ref().is_some_and(Agent::is_ours),
        None => before.condition(NOT_SUPPORTED).is_some(),
    };
    if !is_ours || view.unsupported.is_empty() {
        return None;
    }
    let settings = view.unsupported.join(", ");
    let message = line(&format!("the agent does nothing about {settings}"), LONGEST);
    let reason = EdgeReason::NotSupportedByAgent.as_str();
    Some(Said { type_: NOT_SUPPORTED, status: "True", reason, message })
}

/// Only in the last days of the certificate, and after them.
fn certificate(end: Option<Timestamp>, now: Timestamp) -> (Option<Said>, Option<Timestamp>) {
    let Some(end) = end.and_then(whole_second) else { return (None, None) };
    let announced = later(end, -ENDS_SOON);
    if now < announced {
        return (None, Some(announced));
    }
    let (word, look_again) = if now < end { ("ends", Some(end)) } else { ("ended", None) };
    let said = Said {
        type_: "CertificateExpiring",
        status: "True",
        reason: EdgeReason::ExpiresSoon.as_str(),
        message: format!("the certificate of the device {word} at {end}"),
    };
    (Some(said), look_again)
}
