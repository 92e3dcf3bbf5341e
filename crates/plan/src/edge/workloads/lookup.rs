//! The accepted workloads of one namespace, so filed that a device finds its own without a look at all of them.
//!
//! Each is filed once: under the device it names, under one label that all its devices have, or under neither, and then
//! every device asks it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::accept::{Accepted, Target};

/// By name.
type Named = BTreeMap<String, Arc<Accepted>>;

#[derive(Debug, Default)]
pub(super) struct Lookup {
    by_device: HashMap<String, Named>,
    /// By key and value.
    by_label: HashMap<String, HashMap<String, Named>>,
    others: Named,
}

/// Where a workload is filed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Device(String),
    Label(String, String),
    Others,
}

impl Lookup {
    /// Files it. `None`: it is for nobody.
    pub fn insert(&mut self, workload: &Arc<Accepted>) -> Option<Place> {
        let place = self.place(&workload.target)?;
        let named = match &place {
            Place::Device(device) => self.by_device.entry(device.clone()).or_default(),
            Place::Label(key, value) => {
                self.by_label.entry(key.clone()).or_default().entry(value.clone()).or_default()
            }
            Place::Others => &mut self.others,
        };
        named.insert(workload.name.clone(), workload.clone());
        Some(place)
    }

    /// Takes the one of this name from where it was filed.
    pub fn remove(&mut self, place: &Place, name: &str) {
        let take = |named: &mut Named| {
            named.remove(name);
            named.is_empty()
        };
        match place {
            Place::Device(device) => {
                if self.by_device.get_mut(device).is_some_and(take) {
                    self.by_device.remove(device);
                }
            }
            Place::Label(key, value) => {
                let Some(values) = self.by_label.get_mut(key) else { return };
                if values.get_mut(value).is_some_and(take) {
                    values.remove(value);
                }
                if values.is_empty() {
                    self.by_label.remove(key);
                }
            }
            Place::Others => drop(take(&mut self.others)),
        }
    }

    /// Under the label that the fewest are filed under: many may say `env=prod`, and few the same site.
    fn place(&self, target: &Target) -> Option<Place> {
        let selector = match target {
            Target::Nobody => return None,
            Target::Device(device) => return Some(Place::Device(device.clone())),
            Target::Selector(selector) => selector,
        };
        let filed = |(key, value): &(&str, &str)| self.labelled(key, value).map_or(0, Named::len);
        let label = selector.pairs().min_by_key(filed);
        Some(label.map_or(Place::Others, |(key, value)| Place::Label(key.into(), value.into())))
    }

    fn labelled(&self, key: &str, value: &str) -> Option<&Named> {
        self.by_label.get(key)?.get(value)
    }

    /// The workloads of a device, in the order of their names.
    pub fn of_device(&self, name: &str, labels: &BTreeMap<String, String>) -> Vec<Arc<Accepted>> {
        let by_label = labels.iter().filter_map(|(key, value)| self.labelled(key, value));
        let filed = self.by_device.get(name).into_iter().chain(by_label).chain([&self.others]);
        let chosen = filed.flat_map(Named::values).filter(|w| w.target.chooses(name, labels));
        let mut chosen: Vec<_> = chosen.cloned().collect();
        chosen.sort_by(|one, other| one.name.cmp(&other.name));
        chosen
    }
}
