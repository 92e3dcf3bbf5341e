//! `kubectl flashjob edge devices`: whether they report, what they run, and how long their certificates are good.

use anyhow::Result;
use flashjob_api::edge::EdgeDevice;
use jiff::Timestamp;
use kube::api::ListParams;
use serde::Serialize;

use crate::args::Connection;
use crate::clock;
use crate::connect::Connected;
use crate::edge::args::DevicesArgs;
use crate::edge::device::{Condition, Device, KeyState, days_until, state};
use crate::edge::last_seen::LastSeen;
use crate::edge::read;
use crate::exit::Exit;
use crate::output::{self, Entry, Listed};
use crate::read::{Scope, changes_of};
use crate::shell::Shell;
use crate::table::{ago, or_dash, table};

/// A device as `-o json` and `-o yaml` print it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedDevice {
    namespace: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<Timestamp>,
    being_deleted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    synced: Option<Condition>,
    /// By the roll, which is written every five minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_seen: Option<Timestamp>,
    phase: String,
    /// Such as "2/3".
    workloads: String,
    certificate: Certificate,
    set: String,
    hostname: String,
    architecture: String,
    model: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Certificate {
    key: &'static str,
    /// Any box with the registration certificate may register as this device.
    may_register: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ends: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    days_left: Option<i64>,
}

impl ListedDevice {
    fn new(device: Device, last_seen: Option<Timestamp>, now: Timestamp) -> ListedDevice {
        let condition = |type_: &str| device.condition(type_).cloned();
        ListedDevice {
            ready: condition("Ready"),
            synced: condition("Synced"),
            last_seen,
            certificate: Certificate::of(&device, now),
            namespace: device.namespace,
            name: device.name,
            created: device.since,
            being_deleted: device.being_deleted,
            phase: device.phase,
            workloads: device.running,
            set: device.set,
            hostname: device.hostname,
            architecture: device.architecture,
            model: device.model,
        }
    }
}

impl Certificate {
    fn of(device: &Device, now: Timestamp) -> Certificate {
        let (key, ca) = match device.key() {
            KeyState::InUse(key) => ("in use", Some(key.ca.0.clone())),
            KeyState::Awaited => ("awaited", None),
            KeyState::NotOnRecord => ("not on record", None),
            KeyState::Unreadable => ("unreadable", None),
        };
        let ends = device.certificate_ends().filter(|_| ca.is_some());
        Certificate {
            key,
            may_register: device.unclaimed,
            ca,
            ends,
            days_left: ends.map(|end| days_until(end, now)),
        }
    }

    /// For the table: how long it is good, or why nobody can say that.
    fn cell(&self) -> String {
        let reset = if self.may_register { ", reset" } else { "" };
        match self.days_left {
            Some(days) if days < 0 => format!("ended{reset}"),
            Some(days) => format!("{days}d{reset}"),
            None => self.key.to_owned(),
        }
    }
}

pub async fn run(to: &Connection, wanted: &DevicesArgs, shell: &Shell) -> Result<Exit> {
    tokio::select! {
        end = show(to, wanted, shell) => end,
        _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
    }
}

async fn show(to: &Connection, wanted: &DevicesArgs, shell: &Shell) -> Result<Exit> {
    let connected = to.open().await?;
    let named = to.namespace.as_deref();
    let changes = changes_of::<EdgeDevice>(&connected.client, named);
    let list = async || list(&connected, Scope::of(named, &connected), wanted).await;
    output::show(wanted.list.output, wanted.list.watch, changes, list, shell).await
}

async fn list(
    to: &Connected,
    scope: Scope<'_>,
    wanted: &DevicesArgs,
) -> Result<Listed<ListedDevice>> {
    let labels = wanted.list.selector.as_deref().unwrap_or_default();
    let mut notes = Vec::new();
    let devices: Vec<Device> =
        read::list(to, scope, &ListParams::default().labels(labels), &mut notes).await?;
    let roll = LastSeen::read(&to.client, &wanted.home.operator_namespace).await;
    // Where nobody is listed, nobody is missed.
    let seen = roll.unwrap_or_else(|why| {
        notes.extend((!devices.is_empty()).then(|| format!("LAST SEEN is unknown: {why}")));
        LastSeen::default()
    });
    let now = clock::now();
    let listed = |device: Device| {
        let last_seen = seen.of(&device);
        ListedDevice::new(device, last_seen, now)
    };
    Ok((devices.into_iter().map(listed).collect(), notes))
}

impl Entry for ListedDevice {
    const LIST: &'static str = "devices";

    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// Each is heard of all the time.
    fn is_same(&self, before: &Self) -> bool {
        ListedDevice { last_seen: before.last_seen, ..self.clone() } == *before
    }

    fn table(devices: &[Self], now: Timestamp) -> String {
        let head = [
            "NAMESPACE",
            "NAME",
            "READY",
            "LAST SEEN",
            "SYNCED",
            "WORKLOADS",
            "CERTIFICATE",
            "AGE",
        ];
        table(head, &devices.iter().map(|device| columns(device, now)).collect::<Vec<_>>())
    }

    fn wide(devices: &[Self], now: Timestamp) -> String {
        let head = [
            "NAMESPACE",
            "NAME",
            "READY",
            "LAST SEEN",
            "SYNCED",
            "WORKLOADS",
            "CERTIFICATE",
            "AGE",
            "PHASE",
            "SET",
            "HOSTNAME",
            "ARCHITECTURE",
            "MODEL",
            "CA",
        ];
        let line = |device: &Self| {
            let [namespace, name, ready, last_seen, synced, workloads, certificate, age] =
                columns(device, now);
            let more = [&device.phase, &device.set, &device.hostname, &device.architecture];
            let [phase, set, hostname, architecture] = more.map(|text| or_dash(text));
            let ca = or_dash(device.certificate.ca.as_deref().unwrap_or_default());
            [
                namespace,
                name,
                ready,
                last_seen,
                synced,
                workloads,
                certificate,
                age,
                phase,
                set,
                hostname,
                architecture,
                or_dash(&device.model),
                ca,
            ]
        };
        table(head, &devices.iter().map(line).collect::<Vec<_>>())
    }
}

fn columns(device: &ListedDevice, now: Timestamp) -> [String; 8] {
    let ready = if device.being_deleted {
        "being deleted".to_owned()
    } else {
        state(device.ready.as_ref())
    };
    let time = |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), |at| ago(at, now));
    [
        or_dash(&device.namespace),
        or_dash(&device.name),
        or_dash(&ready),
        time(device.last_seen),
        or_dash(&state(device.synced.as_ref())),
        or_dash(&device.workloads),
        device.certificate.cell(),
        time(device.created),
    ]
}

#[cfg(test)]
mod tests;
