//! EdgeDeviceSets and EdgeDeviceGroups, which are one thing with two names, and what counts for a device in or outside of one.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use flashjob_api::edge::{EdgeReason, Settings};

use super::configuration::{Membership, effective};
use super::labels;
use super::problem::Problem;

/// The two kinds. Of two sets with one name that of the first counts, which is the newer kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SetKind {
    EdgeDeviceSet,
    EdgeDeviceGroup,
}

impl SetKind {
    pub const ALL: [Self; 2] = [Self::EdgeDeviceSet, Self::EdgeDeviceGroup];

    pub fn kind(self) -> &'static str {
        match self {
            Self::EdgeDeviceSet => "EdgeDeviceSet",
            Self::EdgeDeviceGroup => "EdgeDeviceGroup",
        }
    }
}

/// What a set says, or why it cannot be read.
pub type SetSettings = Arc<Result<Settings, String>>;

/// What there is under one name.
type Slot = BTreeMap<SetKind, SetSettings>;

/// All sets. It is fed as the index of workloads is.
#[derive(Debug, Default)]
pub struct Sets {
    /// By namespace and name.
    known: HashMap<String, HashMap<String, Slot>>,
    /// Names that a list which is under way has had so far.
    lists: HashMap<(SetKind, String), HashSet<String>>,
}

/// The set that the labels of a device name.
pub fn set_of(labels: &BTreeMap<String, String>) -> Option<&str> {
    labels.get(labels::SET).map(String::as_str).filter(|set| !set.is_empty())
}

impl Sets {
    /// What the set of this name says.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Result<Settings, String>> {
        let slot = self.known.get(namespace)?.get(name)?;
        slot.values().next().map(Arc::as_ref)
    }

    /// What counts for the device with these labels that says this for itself, and what is wrong with it.
    pub fn settings_of<'a>(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
        own: Option<&'a Result<Settings, String>>,
    ) -> (Cow<'a, Settings>, Vec<Problem>) {
        static NOTHING: LazyLock<Settings> = LazyLock::new(Settings::default);
        let unreadable = |why: String| Problem::new(EdgeReason::InvalidSpec, why);
        let mut problems = Vec::new();
        let own = match own {
            Some(Ok(settings)) => settings,
            Some(Err(why)) => {
                problems.push(unreadable(why.clone()));
                &*NOTHING
            }
            None => &*NOTHING,
        };
        let membership = match set_of(labels).map(|name| (name, self.get(namespace, name))) {
            None => Membership::None,
            Some((name, None)) => Membership::Missing(name),
            Some((_, Some(Ok(settings)))) => Membership::Of(settings),
            Some((_, Some(Err(why)))) => {
                problems.push(unreadable(format!("the set of the device: {why}")));
                Membership::None
            }
        };
        let (settings, missing) = effective(namespace, own, membership);
        problems.extend(missing);
        (settings, problems)
    }

    /// A list of one kind in a namespace begins.
    pub fn begin(&mut self, kind: SetKind, namespace: &str) {
        self.lists.insert((kind, namespace.to_owned()), HashSet::new());
    }

    /// That list is complete. Returns the names of those that are gone.
    pub fn end(&mut self, kind: SetKind, namespace: &str) -> BTreeSet<String> {
        let list = self.lists.remove(&(kind, namespace.to_owned()));
        let Some((seen, here)) = list.zip(self.known.get(namespace)) else {
            return BTreeSet::new();
        };
        let is_gone =
            |(name, slot): &(&String, &Slot)| slot.contains_key(&kind) && !seen.contains(*name);
        let gone: BTreeSet<String> =
            here.iter().filter(is_gone).map(|(name, _)| name.clone()).collect();
        gone.iter().for_each(|name| self.lose(kind, namespace, name));
        gone
    }

    /// This is there. Whether it says something new.
    pub fn see(
        &mut self,
        kind: SetKind,
        namespace: &str,
        name: &str,
        settings: SetSettings,
    ) -> bool {
        if let Some(list) = self.lists.get_mut(&(kind, namespace.to_owned())) {
            list.insert(name.to_owned());
        }
        let here = self.known.entry(namespace.to_owned()).or_default();
        let slot = here.entry(name.to_owned()).or_default();
        let is_new = slot.get(&kind) != Some(&settings);
        slot.insert(kind, settings);
        is_new
    }

    /// It is gone.
    pub fn lose(&mut self, kind: SetKind, namespace: &str, name: &str) {
        let Some(here) = self.known.get_mut(namespace) else { return };
        if let Some(slot) = here.get_mut(name) {
            slot.remove(&kind);
            if slot.is_empty() {
                here.remove(name);
            }
        }
        if here.is_empty() {
            self.known.remove(namespace);
        }
    }
}

#[cfg(test)]
mod tests;
