//! Two entries of a job that are one device: two Instances with one address, in whatever namespaces and however written, or
//! one Instance written twice, such as under the uid it had and the uid it has.
//!
//! The first entry is flashed. The other one, its duplicate, is left out; it is done when the first is, and takes the first one's
//! place when that has left the job without having been flashed.

use std::collections::HashMap;

use flashjob_api::flashjob::DeviceState;

use crate::flashjob::endpoint::BoardKey;
use crate::flashjob::ledger::{Outcome, Pinned, Record};
use crate::flashjob::round::Round;
use crate::flashjob::step::{Action, Step, Wait};

/// Which entries are at which board, and which are which Instance: with it a job of 100,000 devices that are all found at
/// once is looked through once, not once for each.
#[derive(Default)]
pub(crate) struct Places {
    by_board: HashMap<BoardKey<'static>, Vec<usize>>,
    by_instance: HashMap<(String, String), Vec<usize>>,
}

impl Places {
    /// Where the entries of a ledger are.
    pub(crate) fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Places {
        let mut places = Places::default();
        for (index, record) in records.into_iter().enumerate() {
            if let Some(pinned) = &record.pinned {
                places.add(index, pinned);
            }
        }
        places
    }

    /// An entry was found there.
    pub(crate) fn add(&mut self, index: usize, pinned: &Pinned) {
        self.by_board.entry(pinned.endpoint.board().into_owned()).or_default().push(index);
        let instance = (pinned.namespace.clone(), pinned.name.clone());
        self.by_instance.entry(instance).or_default().push(index);
    }

    /// The entries that are the same device, as far as that is known.
    pub(crate) fn at(&self, pinned: &Pinned) -> impl Iterator<Item = usize> {
        let instance = (pinned.namespace.clone(), pinned.name.clone());
        let board = self.by_board.get(pinned.endpoint.board().as_str());
        let lists = [board, self.by_instance.get(&instance)];
        lists.into_iter().flatten().flatten().copied()
    }
}

impl Round<'_> {
    /// Another entry of this job that is the same device, as written: one that will be flashed, or one that has been in
    /// this revision, be it that it was taken out since. What this very round has found counts, too.
    pub(crate) fn first_entry(&mut self, index: usize, pinned: &Pinned) -> Option<String> {
        let records = &self.ledger.records;
        let places = self.places.get_or_insert_with(|| Places::of(records));
        let first = places.at(pinned).find_map(|place| {
            let now = self.change.records.get(&place).or_else(|| records.get(place))?;
            let same = now.pinned.as_ref().is_some_and(|at| at.is_same_device(pinned));
            (place != index && same && stays(now, &self.ledger.header.revision)).then_some(now)
        });
        let first = first.map(|record| record.device.clone());
        if first.is_none() {
            places.add(index, pinned);
        }
        first
    }

    /// A device that was left out: is the entry that stands for it done, under way, or gone?
    pub(crate) fn stand_in(&mut self, index: usize, record: &Record) -> Step {
        let revision = &self.ledger.header.revision;
        let records = &self.ledger.records;
        let places = self.places.get_or_insert_with(|| Places::of(records));
        // Of several duplicates the first takes the place, and then stands for the others.
        let stands_for_it = |place: &usize| {
            let other = records.get(*place);
            *place != index
                && other
                    .is_some_and(|r| stays(r, revision) && (!r.is_duplicate() || *place < index))
        };
        let others = || record.pinned.iter().flat_map(|p| places.at(p)).filter(stands_for_it);
        let is_first = |place: &usize| records.get(*place).is_some_and(|r| !r.is_duplicate());
        let first = others().find(is_first).or_else(|| others().next());
        match first.and_then(|place| records.get(place)) {
            Some(first) if !first.is_duplicate() && is_done_in(first, revision) => {
                Step::Final(Outcome::Skipped)
            }
            // It shares what became of the other.
            Some(_) => Step::Duplicate,
            None => {
                let next = record.begun_anew(&self.view.job.uid, &record.revision, self.now);
                Wait::new(DeviceState::Pending, "not its turn yet").then(Action::Write(next))
            }
        }
    }
}

/// Whether an entry stands for its device: it is in the job, is being flashed, or has been in this revision.
fn stays(record: &Record, revision: &str) -> bool {
    !record.dropped || record.is_open() || (is_done_in(record, revision) && !record.is_duplicate())
}

fn is_done_in(record: &Record, revision: &str) -> bool {
    record.revision == revision && record.is_done()
}
