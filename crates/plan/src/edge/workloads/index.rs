//! All EdgeDeployments and EdgeWorkloads by namespace and name, and which of them a device is to run.
//!
//! It is fed as `Devices` is: of one object the newer version counts, and a list is the truth. Each version is judged once,
//! when it comes. What is said to have changed is what devices see; a new status or somebody's annotation is no change.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use flashjob_api::edge::EdgeReason;

use super::super::problem::Problem;
use super::accept::{Accepted, accept};
use super::facts::{WorkloadFacts, WorkloadKind};
use super::lookup::{Lookup, Place};

/// A workload and what was found of it.
#[derive(Debug)]
struct Known {
    facts: WorkloadFacts,
    verdict: Result<Arc<Accepted>, Problem>,
}

/// All of one name.
#[derive(Debug, Default)]
struct Slot {
    /// At most one of each kind, the oldest first.
    known: Vec<Known>,
    /// The one that devices run, and where it is filed.
    served: Option<(Arc<Accepted>, Option<Place>)>,
}

#[derive(Debug, Default)]
struct Namespace {
    slots: HashMap<String, Slot>,
    lookup: Lookup,
}

/// A list of one kind in one namespace that is under way.
#[derive(Debug, Default)]
struct Listing {
    /// Names that were in it, and those that were written meanwhile.
    seen: HashSet<String>,
    /// What we have written since it began, with its version.
    written: HashMap<String, u64>,
}

/// A workload as it stands among the others.
#[derive(Debug)]
pub struct Judged<'a> {
    pub facts: &'a WorkloadFacts,
    /// What devices run, or why they do not. Of one that is being deleted it says nothing: no device runs that.
    pub verdict: Result<&'a Arc<Accepted>, Problem>,
}

/// What the devices of a namespace were to run under one name, and what they are to run now.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Change {
    pub namespace: String,
    pub name: String,
    pub before: Option<Arc<Accepted>>,
    pub after: Option<Arc<Accepted>>,
    /// Who ran it and runs it still runs the same.
    is_same_pod: bool,
    /// Why it is refused has changed, or whether it is.
    is_refused_otherwise: bool,
}

impl Change {
    fn new(
        namespace: &str,
        name: &str,
        before: Option<Arc<Accepted>>,
        after: Option<Arc<Accepted>>,
        is_refused_otherwise: bool,
    ) -> Self {
        let both = before.as_ref().zip(after.as_ref());
        let is_same_pod = both.is_some_and(|(before, after)| before.is_same_pod(after));
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Self { namespace, name, before, after, is_same_pod, is_refused_otherwise }
    }

    /// Whether it is a change at all. Who has a workload that is refused keeps what it has: until it is refused no longer, and
    /// also when that is because it was deleted.
    pub fn is_seen_by_devices(&self) -> bool {
        self.before != self.after || self.is_refused_otherwise
    }

    /// Whether it is one for the device of this name and with these labels.
    pub fn concerns(&self, device: &str, labels: &BTreeMap<String, String>) -> bool {
        let runs = |of: &Option<Arc<Accepted>>| {
            of.as_ref().is_some_and(|w| w.target.chooses(device, labels))
        };
        let (did, does) = (runs(&self.before), runs(&self.after));
        did != does || did && !self.is_same_pod
    }
}

/// The index.
#[derive(Debug, Default)]
pub struct Workloads {
    namespaces: HashMap<String, Namespace>,
    lists: HashMap<(WorkloadKind, String), Listing>,
}

impl Workloads {
    /// What a device is to run, in the order of names.
    pub fn for_device(
        &self,
        namespace: &str,
        device: &str,
        labels: &BTreeMap<String, String>,
    ) -> Vec<Arc<Accepted>> {
        let here = self.namespaces.get(namespace);
        here.map(|here| here.lookup.of_device(device, labels)).unwrap_or_default()
    }

    /// What devices run under this name, if any of them does.
    pub fn served(&self, namespace: &str, name: &str) -> Option<&Arc<Accepted>> {
        self.slot(namespace, name)?.served.as_ref().map(|(served, _)| served)
    }

    /// Why devices are not sent the workload of this name, although there is one and nobody has deleted it.
    pub fn refused(&self, namespace: &str, name: &str) -> Option<&Problem> {
        self.slot(namespace, name)?.refusal()
    }

    /// The workloads of this name, at most one of each kind.
    pub fn of_name(&self, namespace: &str, name: &str) -> impl Iterator<Item = Judged<'_>> {
        self.slot(namespace, name).into_iter().flat_map(Slot::judged)
    }

    /// The workloads of all namespaces.
    pub fn all(&self) -> impl Iterator<Item = Judged<'_>> {
        self.namespaces.values().flat_map(|here| here.slots.values()).flat_map(Slot::judged)
    }

    /// A list of one kind in a namespace begins.
    pub fn begin(&mut self, kind: WorkloadKind, namespace: &str) {
        self.lists.insert((kind, namespace.to_owned()), Listing::default());
    }

    /// That list is complete. Returns what is not in it, in the order of names. It stays until somebody has found out that it was
    /// deleted, see [`lose`](Self::lose): it is gone from the list, too, when it is its CRD that was.
    pub fn end(&mut self, kind: WorkloadKind, namespace: &str) -> Vec<WorkloadFacts> {
        let list = self.lists.remove(&(kind, namespace.to_owned()));
        let Some((list, here)) = list.zip(self.namespaces.get(namespace)) else {
            return Vec::new();
        };
        let unseen = here.slots.iter().filter(|(name, _)| !list.seen.contains(*name));
        let known = unseen.flat_map(|(_, slot)| &slot.known).map(|known| &known.facts);
        let mut missing: Vec<_> = known.filter(|facts| facts.kind == kind).cloned().collect();
        missing.sort_by(|one, other| one.name.cmp(&other.name));
        missing
    }

    /// A watch, a list or a live read says that this is there.
    pub fn see(&mut self, facts: WorkloadFacts) -> Change {
        let listing = self.lists.get_mut(&(facts.kind, facts.namespace.clone()));
        let in_list = listing.is_some();
        let mut is_old = false;
        if let Some(list) = listing {
            list.seen.insert(facts.name.clone());
            let written = list.written.get(&facts.name);
            is_old = written.is_some_and(|written| *written > facts.resource_version);
        }
        self.put(facts, |known, new| is_old || !in_list && known.is_newer_than(new))
    }

    /// The answer to a write of ours.
    pub fn wrote(&mut self, facts: WorkloadFacts) -> Change {
        if let Some(list) = self.lists.get_mut(&(facts.kind, facts.namespace.clone())) {
            list.seen.insert(facts.name.clone());
            list.written.insert(facts.name.clone(), facts.resource_version);
        }
        // A watch may have been faster.
        self.put(facts, Known::is_newer_than)
    }

    /// This very object is gone.
    pub fn lose(&mut self, kind: WorkloadKind, namespace: &str, name: &str, uid: &str) -> Change {
        self.change(namespace, name, |slot| {
            slot.known.retain(|known| known.facts.kind != kind || known.facts.uid != uid);
        })
    }

    fn put(
        &mut self,
        facts: WorkloadFacts,
        keep: impl FnOnce(&Known, &WorkloadFacts) -> bool,
    ) -> Change {
        let (namespace, name) = (facts.namespace.clone(), facts.name.clone());
        self.change(&namespace, &name, |slot| {
            let known = slot.known.iter().find(|known| known.facts.kind == facts.kind);
            if known.is_some_and(|known| keep(known, &facts)) {
                return;
            }
            slot.known.retain(|known| known.facts.kind != facts.kind);
            slot.known.push(Known::judge(facts, slot.served.as_ref().map(|(served, _)| served)));
            slot.known.sort_by_key(|known| (known.facts.created, known.facts.kind));
        })
    }

    fn change(&mut self, namespace: &str, name: &str, change: impl FnOnce(&mut Slot)) -> Change {
        let here = self.namespaces.entry(namespace.to_owned()).or_default();
        let slot = here.slots.entry(name.to_owned()).or_default();
        let refusal = slot.refusal().cloned();
        change(slot);
        let is_refused_otherwise = slot.refusal() != refusal.as_ref();
        let before = slot.served.as_ref().map(|(served, _)| served.clone());
        let after = slot.holder().and_then(|known| known.verdict.as_ref().ok()).cloned();
        let change = Change::new(namespace, name, before, after, is_refused_otherwise);
        if change.is_seen_by_devices() {
            if let Some((_, Some(place))) = slot.served.take() {
                here.lookup.remove(&place, name);
            }
            slot.served = change.after.clone().map(|after| {
                let place = here.lookup.insert(&after);
                (after, place)
            });
        }
        if slot.known.is_empty() {
            here.slots.remove(name);
        }
        if here.slots.is_empty() {
            self.namespaces.remove(namespace);
        }
        change
    }

    fn slot(&self, namespace: &str, name: &str) -> Option<&Slot> {
        self.namespaces.get(namespace)?.slots.get(name)
    }
}

impl Slot {
    /// The one that has the name: the oldest. One that cannot be sent has it too, or a mistake in an edit would put another
    /// pod in its place.
    fn holder(&self) -> Option<&Known> {
        self.known.iter().find(|known| !known.facts.being_deleted)
    }

    fn refusal(&self) -> Option<&Problem> {
        self.holder()?.verdict.as_ref().err()
    }

    fn judged(&self) -> impl Iterator<Item = Judged<'_>> {
        let holder = self.holder().map(|known| &known.facts);
        self.known.iter().map(move |known| {
            let facts = &known.facts;
            let other = holder.filter(|h| h.kind != facts.kind && !facts.being_deleted);
            let verdict = match other {
                Some(other) => Err(conflict(other)),
                None => known.verdict.as_ref().map_err(Clone::clone),
            };
            Judged { facts, verdict }
        })
    }
}

fn conflict(holder: &WorkloadFacts) -> Problem {
    let WorkloadFacts { kind, name, .. } = holder;
    let why = format!(
        "metadata.name: the {kind} {name} is older and has the name; only that is sent to devices"
    );
    Problem::new(EdgeReason::NameConflict, why)
}

impl Known {
    /// What is equal to what devices run stays that very thing, and with it all that was made from it. Of one that is not
    /// sent the spec is not kept: it may be very large.
    fn judge(mut facts: WorkloadFacts, served: Option<&Arc<Accepted>>) -> Self {
        let verdict = accept(&facts).map(|new| match served {
            Some(served) if **served == new => served.clone(),
            _ => Arc::new(new),
        });
        facts.spec = match &verdict {
            Ok(accepted) => Ok(accepted.spec.clone()),
            Err(problem) => Err(problem.message.clone()),
        };
        Self { facts, verdict }
    }

    fn is_newer_than(&self, new: &WorkloadFacts) -> bool {
        self.facts.uid == new.uid && self.facts.resource_version > new.resource_version
    }
}

#[cfg(test)]
mod tests;
