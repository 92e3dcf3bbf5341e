//! From the permit to the end of the attempt: the Pod is made, watched over, and its end recorded.
//!
//! Once a Pod exists the device's Instance is not consulted: the board reboots while it is flashed and may be lost for a
//! while.

use flashjob_api::flashjob::{DeviceState as State, Reason};

use crate::flashjob::access::Address;
use crate::flashjob::end::{self, End};
use crate::flashjob::facts::{Container, Pod, SILENT_END_GRACE, Slot};
use crate::flashjob::finding::is_pinned;
use crate::flashjob::ledger::Record;
use crate::flashjob::plan::{Deletion, NewObject};
use crate::flashjob::pod;
use crate::flashjob::round::{NO_ROOM, Round, SETTLING};
use crate::time::{after, later};

/// How long an attempt may take where neither ledger nor spec says so.
const DEVICE_SECONDS: i64 = 600;
/// How long past its deadline a Pod is left to end by itself.
const OVERDUE_SECONDS: i64 = 60;
/// How long a Pod may take to go before its node is believed lost.
pub(crate) const NODE_LOST_SECONDS: i64 = 300;

impl Round<'_> {
    /// A device whose attempt is under way. Taken out of the job, it is left alone unless its Pod was sent.
    pub(crate) fn attempt(&mut self, index: usize, record: &Record, dropped: bool) {
        if !self.view.settled {
            // Begun by another process. Withdraw the permit; then a fresh list shows whether it has started.
            if record.permit {
                self.change.records.insert(index, Record { permit: false, ..record.clone() });
            }
            return self.waits(record, State::Starting, SETTLING, None);
        }
        let nothing = Slot::default();
        let slot = self
            .view
            .children
            .get(&record.target)
            .and_then(|c| c.pods.get(&record.attempt))
            .unwrap_or(&nothing);
        match (&slot.seen, &slot.refused) {
            _ if slot.busy => {
                self.waits(record, State::Starting, "the flash Pod is being made", None)
            }
            // Gone after its end was seen is no loss: that end is what counts.
            (Some(pod), _) if slot.gone && !pod.over(self.now) => {
                if record.permit || pod.started() {
                    let message =
                        format!("the flash Pod {} vanished before its end was seen", pod.name);
                    self.end(index, record, None, End::failed(Reason::PodLost, message));
                } else {
                    self.withdraw(index, record);
                }
            }
            (Some(pod), _) => self.watch_over(index, record, pod),
            // Edited before its Pod was made: that holds for this attempt, too.
            (None, _) if !record.permit || dropped || self.is_outdated(record) => {
                self.withdraw(index, record);
            }
            (None, Some(refusal)) if self.keeps_waiting(refusal) => {
                self.refused(index, record, refusal);
            }
            (None, _) => self.start(index, record),
        }
    }

    /// The Pod is there: is it over, stuck, or at work?
    fn watch_over(&mut self, index: usize, record: &Record, pod: &Pod) {
        // What was promised when it began: an edit, or a slip in one, ends no flash that is under way.
        let written = record.deadline_seconds.or(self.spec.map(|s| s.device_seconds));
        let limit = written.unwrap_or(DEVICE_SECONDS);
        if pod.over(self.now) {
            return self.end(index, record, Some(pod), end::of(pod));
        }
        if let Some(since) = pod.terminal_since {
            self.plan.look_again_at(later(since, SILENT_END_GRACE));
        }
        if let Some(since) = pod.deleting {
            let lost_at = after(since, NODE_LOST_SECONDS);
            if self.now >= lost_at {
                let message = format!(
                    "the flash Pod {} does not go away; is its node gone? The board stays locked until it is gone",
                    pod.name
                );
                return self.end(index, record, Some(pod), End::failed(Reason::NodeLost, message));
            }
            let state = (State::Flashing, "the flash Pod is being ended");
            return self.waits_until(record, state, Some(since), lost_at);
        }
        if let Container::Running(since) = pod.container {
            let since = since.unwrap_or(pod.first_seen);
            let overdue_at = after(since, limit + OVERDUE_SECONDS);
            if self.now >= overdue_at {
                let message = format!("the flash Pod {} ran past its deadline", pod.name);
                return self.end(index, record, Some(pod), End::failed(Reason::Timeout, message));
            }
            let state = (State::Flashing, "the flash Pod is at work");
            return self.waits_until(record, state, Some(since), overdue_at);
        }
        if !record.permit && !pod.started() {
            // Its permit was withdrawn, so it cannot start: end it and count nothing.
            self.plan.deletes.push(Deletion::of_pod(record.target, record.attempt, pod));
            return self.waits(record, State::Starting, SETTLING, None);
        }
        let give_up_at = after(pod.first_seen, limit);
        let why = end::why_not_started(pod);
        if self.now >= give_up_at {
            return self.end(index, record, Some(pod), End::failed(Reason::NotStarted, why));
        }
        self.waits_until(record, (State::Starting, &why), Some(pod.first_seen), give_up_at);
    }

    /// The permit is acknowledged and nothing has been sent yet: make the Pod when everything is as it should be.
    pub(crate) fn start(&mut self, index: usize, record: &Record) {
        let Some(spec) = self.active() else {
            // Held with nothing sent yet: give the permit back, and with it the address.
            return self.withdraw(index, record);
        };
        if record.tries == 0 && !self.room {
            return if self.starved.is_some() {
                // Others that are tried again come first, and need the address.

                self.withdraw(index, record)
            } else {
                self.waits(record, State::Pending, NO_ROOM, None)
            };
        }
        let instance = match self.find(record) {
            Ok(instance) => instance,
            Err(missing) => return self.missing(index, record, missing),
        };
        if let Some(end) = self.wrong_board(spec, record, instance) {
            return self.end(index, record, None, end);
        }
        if !record.pinned.as_ref().is_some_and(|p| is_pinned(p, spec, instance)) {
            // The board has moved while its permit waited: what is flashed must be what was looked at and locked.
            return self.withdraw(index, record);
        }
        let service = self.view.children.get(&record.target).and_then(|c| c.service.here());
        let Some(address) = spec.access.address(service) else {
            // The Service went away under us, or another is asked for by now; begin again with a new one.
            return self.withdraw(index, record);
        };
        if self.slots == 0 {
            return self.waits(record, State::Pending, "waiting for a free slot", None);
        }
        self.slots -= 1;
        let address = spec.external_ip.as_deref().map_or(address, Address::Given);
        let object = Box::new(pod::pod(self.view.job, spec, (index, record), instance, address));
        let (target, attempt) = (record.target, record.attempt);
        let board = record.pinned.as_ref().map(|p| p.endpoint.clone()).unwrap_or_default();
        self.plan.creates.push(NewObject::Pod { target, attempt, board, object });
        self.waits(record, State::Starting, "the flash Pod is being made", None);
    }

    /// Whether the job is about another firmware by now.
    fn is_outdated(&self, record: &Record) -> bool {
        self.spec.is_some_and(|spec| spec.revision != record.revision)
    }

    /// The attempt never reached the board: close it, count nothing. Its number is used up.
    fn withdraw(&mut self, index: usize, record: &Record) {
        let closed = Record { open: false, permit: false, ..record.clone() };
        self.waits(record, State::Starting, "beginning anew", None);
        self.change.records.insert(index, closed);
    }
}
