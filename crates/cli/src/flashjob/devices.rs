//! `kubectl flashjob devices`: what Akri has found, and what jobs have to do with it.

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use flashjob_plan::flashjob::instances::Instance;
use jiff::Timestamp;
use serde::Serialize;

use crate::args::Connection;
use crate::connect::Connected;
use crate::exit::Exit;
use crate::flashjob::args::DevicesArgs;
use crate::flashjob::filter::Filter;
use crate::flashjob::fleet::{AtWork, Fleet, Involved, LastResult};
use crate::flashjob::read;
use crate::output::{self, Entry, Listed};
use crate::read::Scope;
use crate::shell::Shell;
use crate::table::{ago, or_dash, table};

/// A device as `-o json` and `-o yaml` print it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedDevice {
    namespace: String,
    name: String,
    uuid: String,
    device: String,
    application: String,
    version: String,
    endpoint: String,
    configuration: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_work: Option<AtWork>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_result: Option<LastResult>,
}

impl ListedDevice {
    fn new(instance: &Instance, involved: Option<&Involved>) -> ListedDevice {
        let involved = involved.cloned().unwrap_or_default();
        ListedDevice {
            namespace: instance.namespace.clone(),
            name: instance.name.clone(),
            uuid: instance.uid.clone(),
            device: instance.device.clone(),
            application: instance.application.clone(),
            version: instance.version.clone(),
            endpoint: instance.endpoint.to_string(),
            configuration: instance.configuration.clone(),
            at_work: involved.at_work,
            last_result: involved.last,
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
    let filter = Filter::of(&wanted.choice, wanted.version.as_ref(), to.namespace.as_ref())?;
    let connected = to.open().await?;
    let namespace = to.namespace.as_deref();
    let changes = read::changes(&connected.client, namespace);
    let list = async || list(&connected, namespace, &filter, wanted).await;
    output::show(wanted.output, wanted.watch, changes, list, shell).await
}

async fn list(
    to: &Connected,
    namespace: Option<&str>,
    filter: &Filter,
    wanted: &DevicesArgs,
) -> Result<Listed<ListedDevice>> {
    let selector = wanted.choice.selector.as_deref().unwrap_or_default();
    let fleet = Fleet::read(&to.client, Scope::of(namespace, to), selector).await?;
    let (chosen, missing) = filter.choose(&fleet.instances, &to.namespace);
    let involved = fleet.involved();
    let path = |i: &Instance| format!("{}/{}", i.namespace, i.name);
    let devices = chosen.into_iter().map(|i| ListedDevice::new(i, involved.get(&path(i))));
    let mut devices: Vec<ListedDevice> = devices.collect();
    if !wanted.choice.is_given() && wanted.version.is_none() {
        devices.extend(away(&fleet, &involved, namespace));
        devices.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    }
    let mut notes = fleet.notes;
    notes.extend(missing.into_iter().map(|(name, why)| format!("{name}: {why}")));
    Ok((devices, notes))
}

/// Devices that jobs are at and Akri does not see now: boards restart while they are flashed.
fn away(
    fleet: &Fleet,
    involved: &HashMap<String, Involved>,
    namespace: Option<&str>,
) -> Vec<ListedDevice> {
    let here: HashSet<(&str, &str)> =
        fleet.instances.iter().map(|i| (i.namespace.as_str(), i.name.as_str())).collect();
    let at_work = involved.iter().filter(|(_, involved)| involved.at_work.is_some());
    let named = at_work.filter_map(|(path, involved)| Some((path.split_once('/')?, involved)));
    let away = named.filter(|(path, _)| {
        !here.contains(path) && namespace.is_none_or(|namespace| namespace == path.0)
    });
    away.map(|((namespace, name), involved)| {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        ListedDevice::new(&Instance { namespace, name, ..Instance::default() }, Some(involved))
    })
    .collect()
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
        let head = ["NAMESPACE", "NAME", "DEVICE", "APPLICATION", "VERSION", "JOB", "LAST RESULT"];
        table(head, &devices.iter().map(|d| columns(d, now)).collect::<Vec<_>>())
    }

    fn wide(devices: &[Self], now: Timestamp) -> String {
        let line = |d: &ListedDevice| {
            let [namespace, name, device, application, version, job, last] = columns(d, now);
            let more = [&d.endpoint, &d.configuration, &d.uuid].map(|text| or_dash(text));
            let [endpoint, configuration, uuid] = more;
            [
                namespace,
                name,
                device,
                application,
                version,
                job,
                last,
                endpoint,
                configuration,
                uuid,
            ]
        };
        let head = [
            "NAMESPACE",
            "NAME",
            "DEVICE",
            "APPLICATION",
            "VERSION",
            "JOB",
            "LAST RESULT",
            "ENDPOINT",
            "CONFIGURATION",
            "UUID",
        ];
        table(head, &devices.iter().map(line).collect::<Vec<_>>())
    }
}

fn columns(device: &ListedDevice, now: Timestamp) -> [String; 7] {
    let job = device.at_work.as_ref().map(|w| format!("{} ({})", w.job, w.state));
    [
        or_dash(&device.namespace),
        or_dash(&device.name),
        or_dash(&device.device),
        or_dash(&device.application),
        or_dash(&device.version),
        or_dash(&job.unwrap_or_default()),
        or_dash(&device.last_result.as_ref().map(|last| result(last, now)).unwrap_or_default()),
    ]
}

/// Such as "Succeeded 0.2.0, 3m ago", "Failed NoCallback 0.2.0, 5h ago".
fn result(last: &LastResult, now: Timestamp) -> String {
    let mut text = last.result.clone();
    for word in [last.reason.as_deref().unwrap_or_default(), &last.version] {
        if !word.is_empty() {
            text = format!("{text} {word}");
        }
    }
    match last.at {
        Some(at) => format!("{text}, {} ago", ago(at, now)),
        None => text,
    }
}

#[cfg(test)]
mod tests;
