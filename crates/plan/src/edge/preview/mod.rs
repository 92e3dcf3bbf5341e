//! What devices would be told if manifests were applied: the index that the operator asks, asked before and after.
//!
//! ```text
//!   EdgeDevices, workloads, sets ──▶ Fleet ──┬──────────────────▶ Index ──┐
//!   manifests ──▶ Manifest ──────────────────┴─▶ Fleet::with ──▶ Index ──┼▶ preview
//!                     └──▶ needs ──▶ Secrets, ConfigMaps ── Material ────┘
//! ```

mod index;
mod ports;

use std::collections::BTreeSet;

use super::configuration::{Lack, Material, Needs, render_settings};
use super::problem::Problem;
use super::workloads::WorkloadFacts;
pub use index::{Device, Fleet, Index, Set, render};
pub use ports::Collision;

/// An object in a file that somebody is about to apply.
#[derive(Clone, Debug, PartialEq)]
pub enum Manifest {
    Workload(WorkloadFacts),
    Set(Set),
}

impl Manifest {
    /// Kind, namespace and name.
    pub fn place(&self) -> (&'static str, &str, &str) {
        match self {
            Self::Workload(facts) => (facts.kind.kind(), &facts.namespace, &facts.name),
            Self::Set(set) => (set.kind.kind(), &set.namespace, &set.name),
        }
    }
}

/// What would follow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    /// Those that a manifest is for, or was for until now, by namespace and name.
    pub devices: Vec<DevicePreview>,
    /// Manifests that no device would be sent.
    pub refused: Vec<Finding>,
    /// What the others need and is not there.
    pub missing: Vec<Finding>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DevicePreview {
    pub namespace: String,
    pub name: String,
    /// The names of what it is to run, in order.
    pub before: Vec<String>,
    pub after: Vec<String>,
    /// What it is to run before and after, and is another pod.
    pub changed: Vec<String>,
    /// It would be told to behave otherwise.
    pub has_other_settings: bool,
    /// Ports that two of its containers would have.
    pub collisions: Vec<Collision>,
}

impl DevicePreview {
    pub fn changes(&self) -> bool {
        self.before != self.after || !self.changed.is_empty() || self.has_other_settings
    }
}

/// What is wrong with a manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    pub problem: Problem,
}

impl Finding {
    fn new(manifest: &Manifest, problem: Problem) -> Self {
        let (kind, namespace, name) = manifest.place();
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned(), problem }
    }
}

/// What has to be read for a preview, by namespace: what manifests name, and what members of their sets are told by now.
pub fn needs<'a>(fleet: &'a Fleet, manifests: &'a [Manifest]) -> Vec<(&'a str, Needs)> {
    let mut all = Vec::new();
    for manifest in manifests {
        let (_, namespace, name) = manifest.place();
        let here = |needs| (namespace, needs);
        match manifest {
            Manifest::Workload(facts) => {
                let spec = facts.spec.as_ref().ok();
                all.extend(spec.map(|spec| here(Needs::of_workload(spec))));
            }
            Manifest::Set(new) => {
                let sets = fleet.sets.iter().filter(|set| set.name == name).chain([new]);
                let sets = sets.filter(|set| set.namespace == namespace);
                let members = fleet
                    .devices
                    .iter()
                    .filter(|device| device.namespace == namespace && device.set() == Some(name));
                let settings = sets
                    .map(|set| &*set.settings)
                    .chain(members.filter_map(|device| device.settings.as_ref()));
                all.extend(settings.flatten().map(|settings| here(Needs::of_settings(settings))));
            }
        }
    }
    all
}

/// Compares the fleet as it is with the fleet after these were applied.
pub fn preview(fleet: &Fleet, manifests: &[Manifest], material: &dyn Material) -> Preview {
    let both = Both { before: fleet.index(), after: fleet.with(manifests).index(), material };
    let mut devices: Vec<_> =
        fleet.devices.iter().filter_map(|device| both.of_device(device, manifests)).collect();
    devices.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let mut preview = Preview { devices, ..Preview::default() };
    for manifest in manifests {
        let finding = |problem| Finding::new(manifest, problem);
        match both.after.refused(manifest) {
            Some(problem) => preview.refused.push(finding(problem)),
            None => preview.missing.extend(both.missing(manifest).into_iter().map(finding)),
        }
    }
    preview
}

/// The fleet as it is, and as it would be.
struct Both<'a> {
    before: Index,
    after: Index,
    material: &'a dyn Material,
}

impl Both<'_> {
    /// `None` if none of the manifests concerns it.
    fn of_device(&self, device: &Device, manifests: &[Manifest]) -> Option<DevicePreview> {
        let (did, does) = (self.before.workloads_of(device), self.after.workloads_of(device));
        let here = manifests.iter().filter(|manifest| manifest.place().1 == device.namespace);
        let named: BTreeSet<&str> = here
            .clone()
            .filter(|manifest| matches!(manifest, Manifest::Workload(_)))
            .map(|manifest| manifest.place().2)
            .collect();
        let mut is_in = here.filter(|manifest| {
            matches!(manifest, Manifest::Set(_)) && device.set() == Some(manifest.place().2)
        });
        let runs = did.iter().chain(&does).any(|workload| named.contains(workload.name.as_str()));
        if !runs && is_in.next().is_none() {
            return None;
        }
        let changed = does.iter().filter(|new| {
            let old = did.iter().find(|old| old.name == new.name);
            old.is_some_and(|old| !old.is_same_pod(new))
        });
        Some(DevicePreview {
            namespace: device.namespace.clone(),
            name: device.name.clone(),
            before: did.iter().map(|workload| workload.name.clone()).collect(),
            after: does.iter().map(|workload| workload.name.clone()).collect(),
            changed: changed.map(|workload| workload.name.clone()).collect(),
            has_other_settings: self.has_other_settings(device),
            collisions: ports::collisions(&does),
        })
    }

    /// Settings that say the same in other words are no others.
    fn has_other_settings(&self, device: &Device) -> bool {
        let (before, after) = (self.before.settings_of(device).0, self.after.settings_of(device).0);
        let render = |settings| render_settings(&device.namespace, settings, None, self.material);
        before != after && {
            let (before, after) = (render(&before), render(&after));
            before.unread || after.unread || before.configuration != after.configuration
        }
    }

    /// What a manifest needs that would be sent.
    fn missing(&self, manifest: &Manifest) -> Vec<Problem> {
        let (_, namespace, name) = manifest.place();
        match manifest {
            Manifest::Workload(_) => {
                let served = self.after.served(namespace, name);
                match served.map(|workload| render(workload, self.material)) {
                    Some(Err(Lack::Problems(problems))) => problems,
                    _ => Vec::new(),
                }
            }
            Manifest::Set(set) => match &*set.settings {
                Ok(settings) => render_settings(namespace, settings, None, self.material).problems,
                Err(_) => Vec::new(),
            },
        }
    }
}

#[cfg(test)]
mod tests;
