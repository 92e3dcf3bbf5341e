//! What devices would be told if manifests were applied: the index that the operator asks, asked before and after.
//!
//! ```text
//!   EdgeDevices, workloads, sets ──▶ Fleet ──┬──────────────────▶ Index ──┐
//!   manifests ──▶ Manifest ──────────────────┴─▶ Fleet::with ──▶ Index ──┴▶ preview
//! ```
//!
//! Whether Secrets and ConfigMaps are there is for who can read them: see `configuration::fragment`.

mod index;
mod ports;
mod read;

use std::collections::BTreeSet;

use super::problem::Problem;
use super::workloads::WorkloadFacts;
pub use index::{Fleet, Index, Rendered, render};
pub use ports::Collision;
pub use read::{Device, Set, SetKind, workload};

/// An object in a file that somebody is about to apply.
#[derive(Clone, Debug, PartialEq)]
pub enum Manifest {
    Workload(WorkloadFacts),
    Set(Box<Set>),
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
    pub refused: Vec<Refused>,
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

#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    pub problem: Problem,
}

/// Compares the fleet as it is with the fleet after these were applied.
pub fn preview(fleet: &Fleet, manifests: &[Manifest]) -> Preview {
    let (before, after) = (fleet.index(), fleet.with(manifests).index());
    let mut devices: Vec<_> =
        fleet.devices.iter().filter_map(|d| of_device(d, &before, &after, manifests)).collect();
    devices.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    let refused = manifests.iter().filter_map(|manifest| {
        let problem = after.refused(manifest)?;
        let (kind, namespace, name) = manifest.place();
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Some(Refused { kind, namespace, name, problem })
    });
    Preview { devices, refused: refused.collect() }
}

/// `None` if none of the manifests concerns it.
fn of_device(
    device: &Device,
    before: &Index,
    after: &Index,
    manifests: &[Manifest],
) -> Option<DevicePreview> {
    let (did, does) = (before.workloads_of(device), after.workloads_of(device));
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
        has_other_settings: before.settings_of(device).0 != after.settings_of(device).0,
        collisions: ports::collisions(&does),
    })
}

#[cfg(test)]
mod tests;
