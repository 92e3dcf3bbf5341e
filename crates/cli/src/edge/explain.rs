//! `kubectl flashjob edge explain`: how a device is, why, and what to do.

use anyhow::{Result, bail};
use flashjob_api::edge::EdgeReason;
use flashjob_plan::edge::labels;
use flashjob_plan::edge::tombstone::{self, LABEL, Tombstone};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::args::Connection;
use crate::check::{Observed, soon};
use crate::clock;
use crate::edge::SYSTEM;
use crate::edge::args::ExplainArgs;
use crate::edge::device::{Condition, Device, KeyState, days_until};
use crate::edge::read::{self, Kind};
use crate::edge::request::Request;
use crate::exit::Exit;
use crate::read::pages_of;
use crate::shell::{Shell, clean};
use crate::table::{ago, day};

/// ConfigMaps with tombstones are large.
const PAGE: u32 = 10;
/// How much of a fingerprint is shown, as openssl's output is compared.
const FINGERPRINT: usize = 12;

/// All that is known of one name.
struct Known {
    name: String,
    device: Option<Device>,
    /// Only those in the first namespace that is served count; which that is, not everybody may see.
    requests: Vec<Request>,
    /// Empty where there is an EdgeDevice that nobody has deleted: then none counts.
    tombstones: Observed<Vec<Tombstone>>,
}

pub async fn run(to: &Connection, wanted: &ExplainArgs, shell: &Shell) -> Result<Exit> {
    let connected = to.open().await?;
    let written = &wanted.device;
    let device: Option<Device> = read::find(&connected, to.namespace.as_deref(), written).await?;
    let name = written.rsplit('/').next().unwrap_or(written).to_ascii_lowercase();
    let requests: Vec<Request> = read::named(&connected, None, &name).await?;
    let home = &wanted.home.operator_namespace;
    let is_there = device.as_ref().is_some_and(|device| !device.being_deleted);
    let tombstones = if is_there {
        Ok(Vec::new())
    } else {
        soon(tombstones(&connected.client, home, &name)).await
    };
    let known = Known { name, device, requests, tombstones };
    let lines = explain(&known, clock::now());
    if lines.is_empty() {
        let unseen = match known.tombstones {
            Ok(_) => "",
            Err(_) => " Whether there was one that was deleted you may not see",
        };
        bail!(
            "there is no EdgeDevice {}, and it has not asked to be let in; `{}` lists them all.{unseen}",
            clean(written),
            Device::LISTS
        );
    }
    shell.out(&(lines.join("\n") + "\n"))?;
    Ok(Exit::Done)
}

/// What is left of EdgeDevices of this name, as far as it is one of the operator's records.
async fn tombstones(client: &Client, home: &str, name: &str) -> kube::Result<Vec<Tombstone>> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), home);
    let choice = ListParams::default().labels(&format!("{LABEL}=true")).limit(PAGE);
    let of_name = |map: ConfigMap| {
        let read = |(key, text): (&String, &String)| {
            Tombstone::read(text).filter(|read| {
                read.name == name && tombstone::key(&read.namespace, &read.name) == *key
            })
        };
        map.data.iter().flatten().filter_map(read).collect::<Vec<_>>()
    };
    Ok(pages_of(&maps, choice, of_name).await?.concat())
}

/// Sentences, and what to do after each that asks for it. Nothing where nothing is known.
fn explain(known: &Known, now: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(device) = &known.device {
        lines.extend(of_device(device, now));
        lines.extend(of_key(device, now));
    }
    for tombstone in known.tombstones.iter().flatten() {
        lines.extend(of_tombstone(tombstone, now));
    }
    for request in &known.requests {
        lines.extend(of_request(request, known.device.is_some(), now));
    }
    let gone = known.device.as_ref().is_none_or(|device| device.being_deleted);
    if gone && known.tombstones.is_err() && !lines.is_empty() {
        lines.push(format!("{}: whether it is told to disconnect you may not see", known.name));
    }
    lines.iter().map(|line| clean(line)).collect()
}

fn todo(what: impl std::fmt::Display) -> String {
    format!("  What to do: {what}")
}

fn of_device(device: &Device, now: Timestamp) -> Vec<String> {
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

/// Such as "Unknown for 5m, NoHeartbeat: it has missed three heartbeats".
fn words(condition: &Condition, now: Timestamp) -> String {
    let mut text = condition.status.clone();
    if let Some(since) = &condition.last_transition_time {
        text += &format!(" for {}", ago(since.0, now));
    }
    if !condition.reason.is_empty() {
        text += &format!(", {}", condition.reason);
    }
    if !condition.message.is_empty() {
        text += &format!(": {}", condition.message);
    }
    text
}

fn of_key(device: &Device, now: Timestamp) -> Vec<String> {
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

fn of_request(request: &Request, is_in: bool, now: Timestamp) -> Vec<String> {
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

fn of_tombstone(tombstone: &Tombstone, now: Timestamp) -> Vec<String> {
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

#[cfg(test)]
mod tests;
