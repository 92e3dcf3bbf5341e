//! `kubectl flashjob edge explain`: how a device or a workload is, why, and what to do.

mod of_device;
mod of_workload;

use anyhow::{Result, bail};
use flashjob_plan::edge::tombstone::{self, LABEL, Tombstone};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::args::Connection;
use crate::check::{Observed, soon};
use crate::clock;
use crate::connect::Connected;
use crate::edge::args::ExplainArgs;
use crate::edge::device::{Condition, Device};
use crate::edge::lagging;
use crate::edge::last_seen::LastSeen;
use crate::edge::read::{self, Kind};
use crate::edge::request::Request;
use crate::edge::workload::Workload;
use crate::exit::Exit;
use crate::read::pages_of;
use crate::shell::{Shell, clean};
use crate::table::ago;

/// ConfigMaps with tombstones are large.
const PAGE: u32 = 10;

/// All that is known of one name of a device.
struct Known {
    name: String,
    device: Option<Device>,
    /// By the roll; the error says why that cannot be seen.
    last_seen: Result<Option<Timestamp>, String>,
    /// Only those in the first namespace that is served count; which that is, not everybody may see.
    requests: Vec<Request>,
    /// Empty where there is an EdgeDevice that nobody has deleted: then none counts.
    tombstones: Observed<Vec<Tombstone>>,
}

/// What a name is the name of, as far as the user has said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Device,
    Workload,
    Either,
}

impl Subject {
    /// The kind before the name, as kubectl takes it, and the name.
    fn read(written: &str) -> (Subject, &str) {
        let split = written.split_once('/').map(|(kind, name)| (kind.to_ascii_lowercase(), name));
        match split.as_ref().map(|(kind, name)| (kind.as_str(), *name)) {
            Some(("device" | "edgedevice" | "edgedevices", name)) => (Subject::Device, name),
            Some((
                "workload" | "edgeworkload" | "edgeworkloads" | "edgedeployment"
                | "edgedeployments",
                name,
            )) => (Subject::Workload, name),
            _ => (Subject::Either, written),
        }
    }
}

pub async fn run(to: &Connection, wanted: &ExplainArgs, shell: &Shell) -> Result<Exit> {
    let connected = to.open().await?;
    let only = to.namespace.as_deref();
    let (subject, written) = Subject::read(&wanted.subject);
    let lower = written.to_ascii_lowercase();
    let workloads: Vec<Workload> = match subject {
        Subject::Device => Vec::new(),
        Subject::Workload => read::find_all(&connected, only, written).await?,
        // A device may be called what no workload is, and agents write names in upper case.
        Subject::Either if Workload::name(last(&lower)).is_err() => Vec::new(),
        Subject::Either => read::find_all(&connected, only, &lower).await?,
    };
    // And the other way round.
    let is_no_device = !workloads.is_empty() && Device::name(last(&lower)).is_err();
    let mut lines = Vec::new();
    let mut unseen = "";
    if subject != Subject::Workload && !is_no_device {
        let known = known(&connected, only, written, &wanted.home.operator_namespace).await?;
        lines = explain(&known, clock::now());
        if known.tombstones.is_err() {
            unseen = " Whether there was one that was deleted you may not see";
        }
    }
    if !lines.is_empty() && !workloads.is_empty() {
        let name = clean(written);
        bail!("{name} is a device and a workload; write device/{name} or workload/{name}");
    }
    for found in &workloads {
        let devices = lagging::devices(&connected, found).await?;
        lines.extend(of_workload::lines(found, &devices, clock::now()));
    }
    if lines.is_empty() {
        let name = clean(written);
        match subject {
            Subject::Workload => return Err(read::missing::<Workload>(only, written)),
            Subject::Device => bail!(
                "there is no EdgeDevice {name}, and it has not asked to be let in; `{}` lists them all.{unseen}",
                Device::LISTS
            ),
            Subject::Either => bail!(
                "there is no EdgeDevice {name}, it has not asked to be let in, and there is no workload of that name; `{}` and \
                 `{}` list them all.{unseen}",
                Device::LISTS,
                Workload::LISTS
            ),
        }
    }
    shell.out(&(lines.join("\n") + "\n"))?;
    Ok(Exit::Done)
}

/// The name without a namespace.
fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

async fn known(to: &Connected, only: Option<&str>, written: &str, home: &str) -> Result<Known> {
    let device: Option<Device> = read::find(to, only, written).await?;
    let name = last(written).to_ascii_lowercase();
    let requests: Vec<Request> = read::named(to, None, &name).await?;
    let is_there = device.as_ref().is_some_and(|device| !device.being_deleted);
    let tombstones =
        if is_there { Ok(Vec::new()) } else { soon(tombstones(&to.client, home, &name)).await };
    let last_seen = match &device {
        Some(device) => LastSeen::read(&to.client, home).await.map(|seen| seen.of(device)),
        None => Ok(None),
    };
    Ok(Known { name, device, last_seen, requests, tombstones })
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
        lines.extend(of_device::state(device, now));
        lines.push(match &known.last_seen {
            Ok(Some(at)) => {
                format!("last seen: {} ago, by a record that is written every 5m", ago(*at, now))
            }
            Ok(None) => "last seen: not on record".to_owned(),
            Err(why) => format!("last seen: unknown: {why}"),
        });
        lines.extend(of_device::key(device, now));
    }
    for tombstone in known.tombstones.iter().flatten() {
        lines.extend(of_device::tombstone(tombstone, now));
    }
    for request in &known.requests {
        lines.extend(of_device::request(request, known.device.is_some(), now));
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

#[cfg(test)]
mod tests;
