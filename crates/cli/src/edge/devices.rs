//! `kubectl flashjob edge devices`: whether they report, what they run, and how long their certificates are good.

use anyhow::Result;
use flashjob_api::edge::EdgeDevice;
use jiff::Timestamp;
use kube::api::ListParams;
use serde::Serialize;

use crate::args::Connection;
use crate::clock;
use crate::connect::Connected;
use crate::edge::args::ListArgs;
use crate::edge::device::{Condition, Device, KeyState, days_until};
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
    fn new(device: Device, now: Timestamp) -> ListedDevice {
        let condition = |type_: &str| device.condition(type_).cloned();
        ListedDevice {
            ready: condition("Ready"),
            synced: condition("Synced"),
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

pub async fn run(to: &Connection, wanted: &ListArgs, shell: &Shell) -> Result<Exit> {
    tokio::select! {
        end = show(to, wanted, shell) => end,
        _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
    }
}

async fn show(to: &Connection, wanted: &ListArgs, shell: &Shell) -> Result<Exit> {
    let connected = to.open().await?;
    let named = to.namespace.as_deref();
    let changes = changes_of::<EdgeDevice>(&connected.client, named);
    let list = async || list(&connected, Scope::of(named, &connected), wanted).await;
    output::show(wanted.output, wanted.watch, changes, list, shell).await
}

async fn list(to: &Connected, scope: Scope<'_>, wanted: &ListArgs) -> Result<Listed<ListedDevice>> {
    let choice = ListParams::default().labels(wanted.selector.as_deref().unwrap_or_default());
    let mut notes = Vec::new();
    let devices = read::list(to, scope, &choice, &mut notes).await?;
    let now = clock::now();
    Ok((devices.into_iter().map(|device| ListedDevice::new(device, now)).collect(), notes))
}

impl Entry for ListedDevice {
    const LIST: &'static str = "devices";

    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn table(devices: &[Self], now: Timestamp) -> String {
        let head = ["NAMESPACE", "NAME", "READY", "SYNCED", "WORKLOADS", "CERTIFICATE", "AGE"];
        table(head, &devices.iter().map(|device| columns(device, now)).collect::<Vec<_>>())
    }

    fn wide(devices: &[Self], now: Timestamp) -> String {
        let head = [
            "NAMESPACE",
            "NAME",
            "READY",
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
            let [namespace, name, ready, synced, workloads, certificate, age] =
                columns(device, now);
            let more = [&device.phase, &device.set, &device.hostname, &device.architecture];
            let [phase, set, hostname, architecture] = more.map(|text| or_dash(text));
            let ca = or_dash(device.certificate.ca.as_deref().unwrap_or_default());
            [
                namespace,
                name,
                ready,
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

fn columns(device: &ListedDevice, now: Timestamp) -> [String; 7] {
    let ready = if device.being_deleted {
        "being deleted".to_owned()
    } else {
        state(device.ready.as_ref())
    };
    [
        or_dash(&device.namespace),
        or_dash(&device.name),
        or_dash(&ready),
        or_dash(&state(device.synced.as_ref())),
        or_dash(&device.workloads),
        device.certificate.cell(),
        device.created.map_or_else(|| "-".to_owned(), |since| ago(since, now)),
    ]
}

/// Such as "True", "Unknown NoHeartbeat".
fn state(condition: Option<&Condition>) -> String {
    match condition {
        None => String::new(),
        Some(Condition { status, reason, .. }) if status == "True" || reason.is_empty() => {
            status.clone()
        }
        Some(Condition { status, reason, .. }) => format!("{status} {reason}"),
    }
}

#[cfg(test)]
mod tests;
