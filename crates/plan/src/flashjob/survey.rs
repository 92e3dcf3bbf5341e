//! What is under way when a round begins: what it counts before it looks at the first device.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;

use crate::flashjob::end;
use crate::flashjob::endpoint::BoardKey;
use crate::flashjob::facts::{Children, Pod, Service, Slot, View};
use crate::flashjob::ids::Target;
use crate::flashjob::in_use::{in_use, is_in_back_off};
use crate::flashjob::ledger::{Ledger, Outcome, Record};

/// What is under way.
#[derive(Default)]
pub(crate) struct Survey<'a> {
    /// Devices that have what they need for a slot, and no Pod yet.
    pub ahead: usize,
    /// Those of them that were not tried yet.
    pub first_ahead: usize,
    /// First attempts that are seen to have failed, before the ledger says so.
    pub failing: usize,
    /// The Service that has waited longest for an address.
    pub waiting: Option<&'a Service>,
    /// Boards that entries of this job hold.
    pub locked: HashSet<BoardKey<'a>>,
    /// The records that have objects, by target.
    pub at_hand: HashMap<Target, &'a Record>,
    /// The same by place.
    pub has_objects: Vec<bool>,
}

impl<'a> Survey<'a> {
    /// Goes over all devices.
    pub fn of(view: &'a View<'a>, ledger: &'a Ledger, now: Timestamp) -> Survey<'a> {
        let has_objects = Vec::with_capacity(ledger.records.len());
        let mut survey = Survey { has_objects, ..Survey::default() };
        for record in &ledger.records {
            let children = view.children.get(&record.target);
            survey.has_objects.push(children.is_some());
            // Most devices of a large job are at its end, or have nothing yet.
            if record.outcome().is_none() || children.is_some() {
                survey.add(record, children, now);
            }
        }
        survey
    }

    fn add(&mut self, record: &'a Record, children: Option<&'a Children>, now: Timestamp) {
        self.at_hand.extend(children.map(|_| (record.target, record)));
        let slot = children.and_then(|c| c.pods.get(&record.attempt));
        let pod = slot.and_then(Slot::here);
        let over = pod.filter(|pod| record.is_open() && record.tries() == 0 && pod.over(now));
        self.failing +=
            usize::from(over.is_some_and(|pod| end::of(pod).outcome == Outcome::Failed));
        if record.is_open() || children.is_some_and(|c| in_use(c, now)) {
            self.locked.extend(record.pinned.as_ref().map(|p| p.endpoint.board()));
        }
        if record.outcome().is_some() {
            return;
        }
        let service = children.map(|c| &c.service);
        let ready = record.is_open() || service.is_some_and(|s| s.busy || s.here().is_some());
        let sent = record.is_open() && slot.is_some_and(|s| s.busy || s.seen.is_some());
        let next = usize::from(ready && !sent && !is_in_back_off(record, now));
        self.ahead += next;
        self.first_ahead += next * usize::from(record.tries() == 0);
        let waits = service.and_then(Slot::here).filter(|s| s.waits_for_address());
        self.waiting = self.waiting.into_iter().chain(waits).min_by_key(|s| s.first_seen);
    }

    /// The Pods that no open attempt is about and whose end has not been seen, by their boards: given up, or of another
    /// firmware, or of a device that has left the job. That one has not started is no comfort: its node may be late with
    /// the news.
    pub fn left_behind(
        &self,
        view: &'a View<'a>,
        now: Timestamp,
    ) -> HashMap<BoardKey<'a>, &'a Pod> {
        let mut left = HashMap::new();
        for (target, children) in view.children {
            let open = self.at_hand.get(target).filter(|r| r.is_open()).map(|r| r.attempt);
            for (attempt, slot) in &children.pods {
                let pod = slot.here().filter(|pod| open != Some(*attempt) && !pod.over(now));
                left.extend(pod.map(|pod| (pod.endpoint.board(), pod)));
            }
        }
        left
    }
}
