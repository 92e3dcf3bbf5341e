//! Two entries of a job that are one device: two Instances of one namespace with one address, or one Instance written twice.
//!
//! The first entry is flashed. The other one, its twin, is left out; it is done when the first is, and takes the first one's
//! place when that has left the job without having been flashed.

use crate::ledger::{Outcome, Pinned, Record};
use crate::round::Round;
use crate::waiting::State;

impl Round<'_> {
    /// Another entry of this job that is the same device, as written. What this very round has found counts, too.
    pub(crate) fn twin(&self, index: usize, pinned: &Pinned) -> Option<String> {
        let known = self.ledger.records.iter().enumerate();
        let found = self.change.records.iter().map(|(place, record)| (*place, record));
        let mut others = known.chain(found).filter(|(other, r)| *other != index && !r.dropped);
        let twin = others.find(|(_, r)| is_at(r, pinned));
        twin.map(|(_, record)| record.device.clone())
    }

    /// A device that was left out: is the entry that stands for it done, under way, or gone?
    pub(crate) fn stand_in(&mut self, index: usize, record: &Record) {
        let revision = &self.ledger.header.revision;
        let is_done = |r: &Record| {
            let done = matches!(r.outcome, Some(Outcome::Succeeded | Outcome::Skipped));
            &r.revision == revision && done && !r.twin
        };
        // Of several twins the first takes the place, and then stands for the others.
        let stands_for_it = |(place, r): &(usize, &Record)| {
            let stays = !r.dropped || r.open || is_done(r);
            let same = record.pinned.as_ref().is_some_and(|pinned| is_at(r, pinned));
            *place != index && same && stays && (!r.twin || *place < index)
        };
        let others = self.ledger.records.iter().enumerate().filter(stands_for_it);
        match others.min_by_key(|(_, r)| r.twin) {
            Some((_, first)) if is_done(first) => {
                self.summary.count_final(record, Outcome::Skipped);
            }
            Some(_) => self.summary.counts.skipped += 1,
            None => {
                let next = Record { twin: false, ..record.clone() };
                let next = next.renewed(&self.view.job.uid, &record.revision, self.now);
                self.waits(record, State::Pending, "not its turn yet", None);
                self.change.records.entry(index).or_insert(next);
            }
        }
    }
}

fn is_at(record: &Record, pinned: &Pinned) -> bool {
    let at = record.pinned.as_ref();
    at.is_some_and(|at| at.namespace == pinned.namespace && at.endpoint == pinned.endpoint)
}
