//! All that says what devices are to have, as a list of objects and as it is asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use flashjob_api::edge::{EdgeReason, Settings};

use super::Manifest;
use super::read::{Device, Set, SetKind};
use crate::edge::configuration::{
    Fragment, Lack, Material, Membership, WorkloadInput, effective, fragment,
};
use crate::edge::labels;
use crate::edge::problem::Problem;
use crate::edge::workloads::{Accepted, WorkloadFacts, Workloads};

/// What there is, in one or more namespaces.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    pub devices: Vec<Device>,
    pub workloads: Vec<WorkloadFacts>,
    pub sets: Vec<Set>,
}

impl Fleet {
    pub fn index(&self) -> Index {
        let mut workloads = Workloads::default();
        for facts in &self.workloads {
            drop(workloads.see(facts.clone()));
        }
        let key = |set: &Set| (set.namespace.clone(), set.name.clone(), set.kind);
        let sets = self.sets.iter().map(|set| (key(set), set.settings.clone())).collect();
        Index { workloads, sets }
    }

    /// The same after these were applied. What is there already stays the same object, with its age.
    pub fn with(&self, manifests: &[Manifest]) -> Fleet {
        let mut fleet = self.clone();
        for manifest in manifests {
            match manifest {
                Manifest::Workload(new) => {
                    let is_it = |old: &&mut WorkloadFacts| {
                        old.kind == new.kind
                            && old.namespace == new.namespace
                            && old.name == new.name
                    };
                    match fleet.workloads.iter_mut().find(is_it) {
                        Some(old) => {
                            old.labels.clone_from(&new.labels);
                            old.annotations.clone_from(&new.annotations);
                            old.spec.clone_from(&new.spec);
                        }
                        None => fleet.workloads.push(new.clone()),
                    }
                }
                Manifest::Set(new) => {
                    let is_it = |old: &Set| {
                        old.kind == new.kind
                            && old.namespace == new.namespace
                            && old.name == new.name
                    };
                    fleet.sets.retain(|old| !is_it(old));
                    fleet.sets.push((**new).clone());
                }
            }
        }
        fleet
    }
}

/// By name.
pub type Rendered = BTreeMap<String, Result<Arc<Fragment>, Lack>>;

/// A workload as it would be sent.
pub fn render(workload: &Accepted, material: &dyn Material) -> Result<Arc<Fragment>, Lack> {
    let input = WorkloadInput {
        namespace: &workload.namespace,
        name: &workload.name,
        labels: &workload.labels,
        annotations: &workload.annotations,
        spec: &workload.spec,
    };
    fragment(&input, material).map(Arc::new)
}

#[derive(Debug)]
pub struct Index {
    workloads: Workloads,
    sets: BTreeMap<(String, String, SetKind), Result<Settings, String>>,
}

impl Index {
    /// What a device is to run, in the order of names.
    pub fn workloads_of(&self, device: &Device) -> Vec<Arc<Accepted>> {
        self.workloads.for_device(&device.namespace, &device.name, &device.labels)
    }

    /// What devices run under this name, if any of them does.
    pub fn served(&self, namespace: &str, name: &str) -> Option<&Arc<Accepted>> {
        self.workloads.served(namespace, name)
    }

    /// The workloads of a device, rendered. One that cannot be sent any more is among them for those that have it by now.
    pub fn rendered(&self, device: &Device, material: &dyn Material) -> Rendered {
        let of = |workload: &Arc<Accepted>| (workload.name.clone(), render(workload, material));
        let mut rendered: Rendered = self.workloads_of(device).iter().map(of).collect();
        for label in device.labels.keys() {
            let Some(name) = label.strip_prefix(labels::WORKLOAD) else { continue };
            if let Some(problem) = self.workloads.refused(&device.namespace, name) {
                let lack = || Err(Lack::Problems(vec![problem.clone()]));
                rendered.entry(name.to_owned()).or_insert_with(lack);
            }
        }
        rendered
    }

    /// What counts for a device, and what is wrong with it.
    pub fn settings_of(&self, device: &Device) -> (Settings, Vec<Problem>) {
        let Device { namespace, settings, .. } = device;
        let mut problems = Vec::new();
        let mut unreadable =
            |why: String| problems.push(Problem::new(EdgeReason::InvalidSpec, why));
        let own = settings.clone().unwrap_or_else(|why| {
            unreadable(why);
            Settings::default()
        });
        let key = |name: &str, kind| (namespace.clone(), name.to_owned(), kind);
        let set = |name| SetKind::ALL.into_iter().find_map(|kind| self.sets.get(&key(name, kind)));
        let membership = match device.set().map(|name| (name, set(name))) {
            None => Membership::None,
            Some((name, None)) => Membership::Missing(name),
            Some((_, Some(Ok(settings)))) => Membership::Of(settings),
            Some((_, Some(Err(why)))) => {
                unreadable(format!("the set of the device: {why}"));
                Membership::None
            }
        };
        let (settings, missing) = effective(namespace, &own, membership);
        problems.extend(missing);
        (settings.into_owned(), problems)
    }

    /// Why no device would be sent this.
    pub fn refused(&self, manifest: &Manifest) -> Option<Problem> {
        match manifest {
            Manifest::Workload(WorkloadFacts { kind, namespace, name, .. }) => {
                let mut judged = self.workloads.of_name(namespace, name);
                judged.find(|judged| judged.facts.kind == *kind)?.verdict.err()
            }
            Manifest::Set(set) => {
                let why = set.settings.as_ref().err()?;
                Some(Problem::new(EdgeReason::InvalidSpec, why.clone()))
            }
        }
    }
}
