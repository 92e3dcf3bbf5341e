//! `kubectl flashjob edge plan`: what applying a file would do, worked out by the crate the operator runs.

mod manifests;

use std::collections::BTreeSet;

use anyhow::Result;
use flashjob_plan::edge::preview::{
    DevicePreview, Finding, Fleet, Manifest, Preview, needs, preview,
};
use serde::Serialize;

use crate::args::Connection;
use crate::edge::args::PlanArgs;
use crate::edge::fleet;
use crate::exit::Exit;
use crate::output::{Format, print_as};
use crate::shell::{Shell, clean};
use crate::table::{counted, or_dash, table};
use manifests::Manifests;

/// What would follow, as `-o json` and `-o yaml` print it.
#[derive(Debug, Serialize)]
struct Planned {
    devices: Vec<PlannedDevice>,
    refused: Vec<Trouble>,
    /// What accepted manifests need and is not there.
    missing: Vec<Trouble>,
    /// What they need and the user may not read, such as "Secret default/password".
    unknown: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PlannedDevice {
    namespace: String,
    name: String,
    before: Vec<String>,
    after: Vec<String>,
    /// What it runs before and after, and is another pod.
    changed: Vec<String>,
    other_settings: bool,
    collisions: Vec<PlannedCollision>,
}

#[derive(Debug, Serialize)]
struct PlannedCollision {
    port: u64,
    protocol: String,
    workloads: Vec<String>,
}

/// Something that is wrong with a manifest.
#[derive(Debug, PartialEq, Serialize)]
struct Trouble {
    kind: &'static str,
    namespace: String,
    name: String,
    reason: &'static str,
    message: String,
}

pub async fn run(to: &Connection, wanted: &PlanArgs, shell: &Shell) -> Result<Exit> {
    let connected = to.open().await?;
    let Manifests { all, mut material, notes } =
        Manifests::read(&wanted.filename, &connected.namespace, to.namespace.as_deref())?;
    notes.iter().for_each(|note| shell.note(note));
    let namespaces: BTreeSet<&str> = all.iter().map(|manifest| manifest.place().1).collect();
    let mut fleet = Fleet::default();
    for namespace in namespaces {
        let here = fleet::read(&connected, namespace).await?;
        fleet.devices.extend(here.devices);
        fleet.workloads.extend(here.workloads);
        fleet.sets.extend(here.sets);
    }
    for (namespace, needs) in needs(&fleet, &all) {
        material.read(&connected.client, namespace, &needs).await?;
    }
    let planned = Planned::new(preview(&fleet, &all, &material), material.unreadable());
    shell.out(&print(&planned, wanted.output)?)?;
    shell.say(&sentence(&all, &planned));
    Ok(if planned.is_well() { Exit::Done } else { Exit::NotAllDone })
}

impl Planned {
    fn new(preview: Preview, unknown: Vec<String>) -> Planned {
        let troubles = |found: Vec<Finding>| found.into_iter().map(Trouble::from).collect();
        Planned {
            devices: preview.devices.into_iter().map(PlannedDevice::from).collect(),
            refused: troubles(preview.refused),
            missing: troubles(preview.missing),
            unknown,
        }
    }

    fn is_well(&self) -> bool {
        let collide = self.devices.iter().any(|device| !device.collisions.is_empty());
        self.refused.is_empty() && self.missing.is_empty() && !collide
    }
}

impl From<DevicePreview> for PlannedDevice {
    fn from(device: DevicePreview) -> PlannedDevice {
        let collisions = device.collisions.into_iter().map(|collision| PlannedCollision {
            port: collision.port,
            protocol: collision.protocol,
            workloads: collision.workloads,
        });
        PlannedDevice {
            namespace: device.namespace,
            name: device.name,
            before: device.before,
            after: device.after,
            changed: device.changed,
            other_settings: device.has_other_settings,
            collisions: collisions.collect(),
        }
    }
}

impl PlannedDevice {
    fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Such as "+web -db ~log settings".
    fn change(&self) -> String {
        let marked = |mark: &'static str, names: Vec<&String>| {
            names.into_iter().map(move |name| format!("{mark}{name}")).collect::<Vec<_>>()
        };
        let new = self.after.iter().filter(|name| !self.before.contains(name)).collect();
        let gone = self.before.iter().filter(|name| !self.after.contains(name)).collect();
        let mut words = marked("+", new);
        words.extend(marked("-", gone));
        words.extend(marked("~", self.changed.iter().collect()));
        words.extend(self.other_settings.then(|| "settings".to_owned()));
        words.join(" ")
    }
}

impl From<Finding> for Trouble {
    fn from(found: Finding) -> Trouble {
        let Finding { kind, namespace, name, problem } = found;
        let reason = problem.reason.as_str();
        Trouble { kind, namespace, name, reason, message: problem.message }
    }
}

impl Trouble {
    fn line(&self, word: &str) -> String {
        let Trouble { kind, namespace, name, reason, message } = self;
        format!("{word:<8} {kind} {namespace}/{name}: {reason}: {message}")
    }
}

fn print(planned: &Planned, output: Format) -> Result<String> {
    print_as(planned, output, |planned| {
        let line = |device: &PlannedDevice| {
            let names = |names: &[String]| or_dash(&names.join(","));
            let (before, after) = (names(&device.before), names(&device.after));
            [clean(&device.path()), before, after, or_dash(&device.change())]
        };
        let mut text = String::new();
        if !planned.devices.is_empty() {
            let lines: Vec<_> = planned.devices.iter().map(line).collect();
            text += &table(["DEVICE", "BEFORE", "AFTER", "CHANGE"], &lines);
        }
        let troubles = troubles(planned);
        if !text.is_empty() && !troubles.is_empty() {
            text.push('\n');
        }
        text.extend(troubles.iter().map(|line| clean(line) + "\n"));
        text
    })
}

/// A line for each thing that is wrong, or that nobody can say.
fn troubles(planned: &Planned) -> Vec<String> {
    let mut lines: Vec<String> =
        planned.refused.iter().map(|trouble| trouble.line("refused")).collect();
    lines.extend(planned.missing.iter().map(|trouble| trouble.line("missing")));
    for device in &planned.devices {
        for PlannedCollision { port, protocol, workloads } in &device.collisions {
            let who = workloads.join(", ");
            let path = device.path();
            lines.push(format!("{:<8} {path}: {port}/{protocol} is wanted twice: {who}", "port"));
        }
    }
    lines.extend(
        planned.unknown.iter().map(|what| format!("{:<8} {what}: you may not read it", "?")),
    );
    lines
}

/// Such as "2 objects: 5 devices, 3 of them change."
fn sentence(manifests: &[Manifest], planned: &Planned) -> String {
    let changing = planned.devices.iter().filter(|device| !device.change().is_empty()).count();
    let devices = counted(planned.devices.len(), "device");
    let objects = counted(manifests.len(), "object");
    format!("{objects}: {devices}, {changing} of them change.")
}

#[cfg(test)]
mod tests;
