//! All that says what devices are to have, as a list of objects and as it is asked.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use flashjob_api::edge::{EdgeReason, Settings};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::Manifest;
use crate::edge::configuration::{
    Fragment, Lack, Material, Placed, Rendered, WorkloadInput, fragment, workloads_of,
};
use crate::edge::problem::Problem;
use crate::edge::read;
use crate::edge::sets::{SetKind, SetSettings, Sets, set_of};
use crate::edge::workloads::{Accepted, WorkloadFacts, Workloads};

/// An EdgeDevice.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    /// What it says for itself, or why that cannot be read; `None`: nothing.
    pub settings: Option<Result<Settings, String>>,
}

impl Device {
    pub fn read(meta: &ObjectMeta, spec: &Value) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self {
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            uid: text(&meta.uid),
            labels: meta.labels.as_ref().map(read::device_labels).unwrap_or_default(),
            settings: read::device_settings(spec),
        }
    }

    /// The set that its label names.
    pub fn set(&self) -> Option<&str> {
        set_of(&self.labels)
    }

    fn placed(&self) -> Placed<'_> {
        Placed { namespace: &self.namespace, name: &self.name, labels: &self.labels }
    }
}

/// An EdgeDeviceSet or EdgeDeviceGroup.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    pub kind: SetKind,
    pub namespace: String,
    pub name: String,
    /// What it says for its members, or why that cannot be read.
    pub settings: SetSettings,
}

impl Set {
    pub fn read(kind: SetKind, meta: &ObjectMeta, spec: &Value) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let settings = Arc::new(read::settings(spec));
        Self { kind, namespace: text(&meta.namespace), name: text(&meta.name), settings }
    }
}

/// What there is, in one or more namespaces.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    pub devices: Vec<Device>,
    pub workloads: Vec<WorkloadFacts>,
    pub sets: Vec<Set>,
}

impl Fleet {
    pub fn index(&self) -> Index {
        let (mut workloads, mut sets) = (Workloads::default(), Sets::default());
        for facts in &self.workloads {
            drop(workloads.see(facts.clone()));
        }
        for Set { kind, namespace, name, settings } in &self.sets {
            sets.see(*kind, namespace, name, settings.clone());
        }
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
                // Of one set the last counts that is seen.
                Manifest::Set(new) => fleet.sets.push(new.clone()),
            }
        }
        fleet
    }
}

/// A workload as it would be sent.
pub fn render(workload: &Accepted, material: &dyn Material) -> Result<Arc<Fragment>, Lack> {
    fragment(&WorkloadInput::from(workload), material).map(Arc::new)
}

#[derive(Debug)]
pub struct Index {
    workloads: Workloads,
    sets: Sets,
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

    /// The workloads of a device as they are sent. What it has by now, its labels say.
    pub fn rendered(&self, device: &Device, material: &dyn Material) -> Rendered {
        workloads_of(&self.workloads, device.placed(), [], |workload| render(workload, material))
    }

    /// What counts for a device, and what is wrong with it.
    pub fn settings_of<'a>(&self, device: &'a Device) -> (Cow<'a, Settings>, Vec<Problem>) {
        self.sets.settings_of(&device.namespace, &device.labels, device.settings.as_ref())
    }

    /// Why no device would be sent this.
    pub fn refused(&self, manifest: &Manifest) -> Option<Problem> {
        match manifest {
            Manifest::Workload(WorkloadFacts { kind, namespace, name, .. }) => {
                let mut judged = self.workloads.of_name(namespace, name);
                judged.find(|judged| judged.facts.kind == *kind)?.verdict.err()
            }
            Manifest::Set(set) => {
                let why = Result::as_ref(&set.settings).err()?;
                Some(Problem::new(EdgeReason::InvalidSpec, why.clone()))
            }
        }
    }
}
