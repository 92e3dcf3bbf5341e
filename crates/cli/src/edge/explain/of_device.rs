//! How a device is: whether it reports, what it runs, which key speaks for it, and what became of its request.

use flashjob_api::edge::EdgeReason;
use flashjob_plan::edge::labels;
use flashjob_plan::edge::tombstone::Tombstone;
use jiff::Timestamp;

use super::{todo, words};
use crate::edge::SYSTEM;
use crate::edge::device::{Device, KeyState, days_until};
use crate::edge::read::Kind;
use crate::edge::request::Request;
use crate::table::{ago, day};

/// How much of a fingerprint is shown, as openssl's output is compared.
const FINGERPRINT: usize = 12;

pub fn state(device: &Device, now: Timestamp) -> Vec<String> {
    let path = device.path();
    let runs = match device.running.as_str() {
        "" => String::new(),
        running => format!("; {running} workloads run"),
    };
    let how = match device.condition("Ready") {
        _ if device.being_deleted => "it is being deleted".to_owned(),
        None => "nothing is on record yet of whether it reports".to_owned(),
        Some(ready) if ready.status == "True" => "it reports".to_owned(),
        Some(_) => "it does not report".to_owned(),
    };
    let mut lines = vec![format!("{path}: {how}{runs}")];
    if device.being_deleted {
        lines.push(todo(format!(
            "wait; if it lasts, see whether the operator works: {}; others may hold it back, too, by finalizers",
            SYSTEM.check
        )));
    }
    for condition in &device.conditions {
        lines.push(format!("{}: {}", condition.type_, words(condition, now)));
        lines.extend(EdgeReason::parse(&condition.reason).map(|reason| todo(reason.advice())));
    }
    for workload in device.workloads.iter().filter(|w| w.phase.as_deref() != Some("Running")) {
        let phase = workload.phase.as_deref().unwrap_or("unknown");
        let since = workload.last_transition_time.as_ref();
        let since = since.map(|time| format!(" for {}", ago(time.0, now))).unwrap_or_default();
        let message = workload.message.as_deref().map(|text| format!(": {text}"));
        let message = message.unwrap_or_default();
        lines.push(format!("workload {}: {phase}{since}{message}", workload.name));
    }
    lines
}

pub fn key(device: &Device, now: Timestamp) -> Vec<String> {
    let Device { name, namespace, .. } = device;
    let reset = format!("kubectl flashjob edge reset {name} -n {namespace}");
    let mut lines = Vec::new();
    match device.key() {
        KeyState::InUse(key) => {
            let short: String = key.key.as_str().chars().take(FINGERPRINT).collect();
            let mut line = format!(
                "key: {short}… in use since {}, with a certificate of the CA {}",
                day(key.since),
                key.ca.0
            );
            let left = device.certificate_ends().map(|end| (end, days_until(end, now)));
            if let Some((end, days)) = left {
                let verb = if days < 0 { "ended" } else { "ends" };
                line += &format!(
                    "; the last certificate it was given {verb} on {} ({days} days)",
                    day(end)
                );
            }
            lines.push(line);
            if left.is_some_and(|(_, days)| days < 14) {
                lines.push(todo(EdgeReason::ExpiresSoon.advice()));
            }
        }
        KeyState::Awaited => {
            let given = device.keys.as_ref().ok().and_then(|keys| keys.next.as_ref());
            let given =
                given.map(|next| format!("; a certificate was made on {}", day(next.since)));
            lines.push(format!(
                "key: no box has used a certificate yet{}",
                given.unwrap_or_default()
            ));
            lines.push(todo("start the box with a bundle (kubectl flashjob edge bundle), and look at its agent's log"));
        }
        KeyState::NotOnRecord => {
            lines.push(
                "key: none on record: Flotta has let it in, or somebody has made it by hand. The first certificate of ours that \
                 it uses is written down"
                    .to_owned(),
            );
            lines.push(todo(format!("if it has none: {reset}")));
        }
        KeyState::Unreadable => {
            lines.push(
                "key: the annotation management.project-flotta.io/keys cannot be read, so the device is refused (keys_unreadable)"
                    .to_owned(),
            );
            lines.push(todo(format!("{reset}, and have its box register")));
        }
    }
    if device.unclaimed && !matches!(device.key(), KeyState::Awaited) {
        lines.push(format!(
            "reset: any box with the registration certificate may register as it; to end that: kubectl label edgedevice {name} \
             -n {namespace} {}-",
            labels::UNCLAIMED
        ));
    }
    lines
}

pub fn request(request: &Request, is_in: bool, now: Timestamp) -> Vec<String> {
    let Request { name, namespace, .. } = request;
    let since = request.since.map(|since| format!(" {} ago", ago(since, now))).unwrap_or_default();
    let target = match request.target_namespace.as_str() {
        "" => String::new(),
        target => format!(" for namespace {target}"),
    };
    let message = match request.message.as_str() {
        _ if request.declined => "the device is refused",
        "" => "the operator has not looked at it yet",
        message => message,
    };
    let path = request.path();
    let mut lines =
        vec![format!("request {path}, made{since}{target}: {}: {message}", request.state())];
    let answer = |verb: &str| format!("kubectl flashjob edge {verb} {name} -n {namespace}");
    let advice = match request {
        Request { declined: true, .. } if is_in => None,
        Request { declined: true, .. } => {
            Some(format!("if it may come in after all: {}", answer("approve")))
        }
        Request { approved: false, .. } if !is_in => {
            Some(format!("{}, or: {}", answer("approve"), answer("decline")))
        }
        Request { approved: true, .. } if !is_in => Some(format!(
            "wait; if it lasts, see whether its namespace is served: {}",
            SYSTEM.check
        )),
        _ => None,
    };
    lines.extend(advice.map(todo));
    lines
}

pub fn tombstone(tombstone: &Tombstone, now: Timestamp) -> Vec<String> {
    let Tombstone { namespace, name, deleted, until, fetched, .. } = tombstone;
    let told = match fetched {
        Some(at) => format!("its box was told to disconnect on {}", day(*at)),
        None if tombstone.is_over(now) => {
            format!("its box has not asked, and its last certificate ended on {}", day(*until))
        }
        None => format!(
            "its box is told to disconnect, and to remove all it runs, when it next asks; that is kept until {}",
            day(*until)
        ),
    };
    vec![format!("{namespace}/{name} was deleted on {}; {told}", day(*deleted))]
}
