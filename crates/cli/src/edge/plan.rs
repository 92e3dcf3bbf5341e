//! `kubectl flashjob edge plan`: what applying a file would do, worked out by the crate the operator runs.

mod manifests;

use std::collections::BTreeSet;

use anyhow::Result;
use flashjob_plan::edge::configuration::{Lack, Needs, render_settings};
use flashjob_plan::edge::preview::{
    DevicePreview, Fleet, Manifest, Preview, Refused, preview, render,
};
use flashjob_plan::edge::problem::Problem;
use serde::Serialize;

use crate::args::Connection;
use crate::edge::args::PlanArgs;
use crate::edge::fleet;
use crate::edge::material::LiveMaterial;
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
    for (namespace, needs) in all.iter().filter_map(needs) {
        material.read(&connected.client, namespace, &needs).await?;
    }
    let planned = Planned::new(preview(&fleet, &all), missing(&fleet, &all, &material), &material);
    shell.out(&print(&planned, wanted.output)?)?;
    shell.say(&sentence(&all, &planned));
    Ok(if planned.is_well() { Exit::Done } else { Exit::NotAllDone })
}

fn needs(manifest: &Manifest) -> Option<(&str, Needs)> {
    match manifest {
        Manifest::Workload(facts) => {
            Some((&facts.namespace, Needs::of_workload(facts.spec.as_ref().ok()?)))
        }
        Manifest::Set(set) => {
            Some((&set.namespace, Needs::of_settings(set.settings.as_ref().ok()?)))
        }
    }
}

/// What those manifests need that devices would be sent.
fn missing(fleet: &Fleet, manifests: &[Manifest], material: &LiveMaterial) -> Vec<Trouble> {
    let after = fleet.with(manifests).index();
    let problems = |manifest: &Manifest| -> Vec<Problem> {
        let (_, namespace, name) = manifest.place();
        match manifest {
            _ if after.refused(manifest).is_some() => Vec::new(),
            Manifest::Workload(_) => {
                match after.served(namespace, name).map(|workload| render(workload, material)) {
                    Some(Err(Lack::Problems(problems))) => problems,
                    _ => Vec::new(),
                }
            }
            Manifest::Set(set) => match &set.settings {
                Ok(settings) => render_settings(namespace, settings, None, material).problems,
                Err(_) => Vec::new(),
            },
        }
    };
    let of_manifest = |manifest| {
        let of = move |problem: Problem| Trouble::new(Manifest::place(manifest), &problem);
        problems(manifest).into_iter().map(of).collect::<Vec<_>>()
    };
    manifests.iter().flat_map(of_manifest).collect()
}

impl Planned {
    fn new(preview: Preview, missing: Vec<Trouble>, material: &LiveMaterial) -> Planned {
        let refused = |Refused { kind, namespace, name, problem }: &Refused| {
            Trouble::new((*kind, namespace.as_str(), name.as_str()), problem)
        };
        Planned {
            refused: preview.refused.iter().map(refused).collect(),
            devices: preview.devices.into_iter().map(PlannedDevice::from).collect(),
            missing,
            unknown: material.unreadable(),
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

impl Trouble {
    fn new((kind, namespace, name): (&'static str, &str, &str), problem: &Problem) -> Trouble {
        Trouble {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            reason: problem.reason.as_str(),
            message: problem.message.clone(),
        }
    }

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
