//! From the permit to the end of the attempt: the Pod is made, watched over, and its end recorded.
//!
//! Once a Pod exists the device's Instance is not consulted: the board reboots while it is flashed and may be lost for a
//! while.

use flashjob_api::flashjob::{DeviceState, Reason};

use crate::flashjob::access::Address;
use crate::flashjob::end::{self, End};
use crate::flashjob::facts::{Container, Pod, SILENT_END_GRACE, Slot};
use crate::flashjob::finding::is_pinned;
use crate::flashjob::ledger::Record;
use crate::flashjob::plan::{Deletion, NewObject};
use crate::flashjob::pod;
use crate::flashjob::round::{NO_ROOM, RECOVERING, Round};
use crate::flashjob::step::{Action, Step, Wait};
use crate::time::{after, later};

/// How long an attempt may take where neither ledger nor spec says so.
const DEVICE_SECONDS: i64 = 600;
/// How long past its deadline a Pod is left to end by itself.
const OVERDUE_SECONDS: i64 = 60;
/// How long a Pod may take to go before its node is believed lost.
pub(crate) const NODE_LOST_SECONDS: i64 = 300;

impl Round<'_> {
    /// A device whose attempt is under way. Taken out of the job, it is left alone unless its Pod was sent.
    pub(crate) fn attempt(&mut self, index: usize, record: &Record, dropped: bool) -> Step {
        if !self.view.recovered {
            // Begun by another process. Withdraw the permit; then a fresh list shows whether it has started.
            let wait = Wait::new(DeviceState::Starting, RECOVERING);
            if !record.has_permit() {
                return wait.into();
            }
            return wait.then(Action::Write(record.without_permit()));
        }
        let nothing = Slot::default();
        let children = self.view.children.get(&record.target);
        let slot = children.and_then(|c| c.pods.get(&record.attempt)).unwrap_or(&nothing);
        match (&slot.seen, &slot.refused) {
            _ if slot.busy => {
                Wait::new(DeviceState::Starting, "the flash Pod is being made").into()
            }
            // Gone after its end was seen is no loss: that end is what counts.
            (Some(pod), _) if slot.gone && !pod.over(self.now) => {
                if !record.has_permit() && !pod.started() {
                    return withdraw(record);
                }
                let message =
                    format!("the flash Pod {} vanished before its end was seen", pod.name);
                self.end(index, record, None, End::failed(Reason::PodLost, message))
            }
            (Some(pod), _) => self.watch_over(index, record, pod),
            // Edited before its Pod was made: that holds for this attempt, too.
            (None, _) if !record.has_permit() || dropped || self.is_outdated(record) => {
                withdraw(record)
            }
            (None, Some(refusal)) if self.keeps_waiting(refusal) => {
                self.refused(index, record, refusal)
            }
            (None, _) => self.start(index, record),
        }
    }

    /// The Pod is there: is it over, or does something have to be seen of it soon?
    fn watch_over(&self, index: usize, record: &Record, pod: &Pod) -> Step {
        if pod.over(self.now) {
            return self.end(index, record, Some(pod), end::of(pod));
        }
        let mut step = self.wait_for_end(index, record, pod);
        if let (Some(wait), Some(since)) = (step.wait_mut(), pod.terminal_since) {
            wait.sooner = Some(later(since, SILENT_END_GRACE));
        }
        step
    }

    /// The Pod is not over: is it stuck, or at work?
    fn wait_for_end(&self, index: usize, record: &Record, pod: &Pod) -> Step {
        // What was promised when it began: an edit, or a slip in one, ends no flash that is under way.
        let written = record.deadline_seconds.or(self.spec.map(|s| s.device_seconds));
        let limit = written.unwrap_or(DEVICE_SECONDS);
        let failed =
            |reason, message| self.end(index, record, Some(pod), End::failed(reason, message));
        if let Some(since) = pod.deleting {
            let lost_at = after(since, NODE_LOST_SECONDS);
            if self.now >= lost_at {
                let message = format!(
                    "the flash Pod {} does not go away; is its node gone? The board stays locked until it is gone",
                    pod.name
                );
                return failed(Reason::NodeLost, message);
            }
            let wait = Wait::new(DeviceState::Flashing, "the flash Pod is being ended");
            return wait.since(since).until(lost_at).into();
        }
        if let Container::Running(since) = pod.container {
            let since = since.unwrap_or(pod.first_seen);
            let overdue_at = after(since, limit + OVERDUE_SECONDS);
            if self.now >= overdue_at {
                let message = format!("the flash Pod {} ran past its deadline", pod.name);
                return failed(Reason::Timeout, message);
            }
            let wait = Wait::new(DeviceState::Flashing, "the flash Pod is at work");
            return wait.since(since).until(overdue_at).into();
        }
        if !record.has_permit() && !pod.started() {
            // Its permit was withdrawn, so it cannot start: end it and count nothing.
            let deletion = Deletion::of_pod(record.target, record.attempt, pod);
            return Wait::new(DeviceState::Starting, RECOVERING).then(Action::Delete(deletion));
        }
        let give_up_at = after(pod.first_seen, limit);
        let why = end::why_not_started(pod);
        if self.now >= give_up_at {
            return failed(Reason::NotStarted, why);
        }
        Wait::new(DeviceState::Starting, why).since(pod.first_seen).until(give_up_at).into()
    }

    /// The permit is acknowledged and nothing has been sent yet: make the Pod when everything is as it should be.
    pub(crate) fn start(&mut self, index: usize, record: &Record) -> Step {
        let Some(spec) = self.active() else {
            // Held with nothing sent yet: give the permit back, and with it the address.
            return withdraw(record);
        };
        if record.tries() == 0 && !self.room {
            // Others that are tried again come first, and may need the address.
            let starved = self.starved.is_some();
            let wait = || Wait::new(DeviceState::Pending, NO_ROOM).into();
            return if starved { withdraw(record) } else { wait() };
        }
        let instance = match self.find(record) {
            Ok(instance) => instance,
            Err(missing) => return self.missing(index, record, missing),
        };
        if let Some(end) = self.wrong_board(spec, record, instance) {
            return self.end(index, record, None, end);
        }
        if !record.pinned.as_ref().is_some_and(|p| is_pinned(p, spec, instance)) {
            // The board has moved while its permit waited: what is flashed must be what was found and locked.
            return withdraw(record);
        }
        let service = self.view.children.get(&record.target).and_then(|c| c.service.here());
        let Some(address) = spec.access.address(service) else {
            // The Service went away under us, or another is asked for by now; begin again with a new one.
            return withdraw(record);
        };
        if self.slots == 0 {
            return Wait::new(DeviceState::Pending, "waiting for a free slot").into();
        }
        self.slots -= 1;
        let address = spec.external_ip.as_deref().map_or(address, Address::Given);
        let object = Box::new(pod::pod(self.view.job, spec, (index, record), instance, address));
        let (target, attempt) = (record.target, record.attempt);
        let board = record.pinned.as_ref().map(|p| p.endpoint.clone()).unwrap_or_default();
        let object = NewObject::Pod { target, attempt, board, object };
        Wait::new(DeviceState::Starting, "the flash Pod is being made").then(Action::Create(object))
    }

    /// Whether the job is about another firmware by now.
    fn is_outdated(&self, record: &Record) -> bool {
        self.spec.is_some_and(|spec| spec.revision != record.revision)
    }
}

/// The attempt never reached the board: close it, count nothing. Its number is used up.
fn withdraw(record: &Record) -> Step {
    Wait::new(DeviceState::Starting, "beginning anew").then(Action::Write(record.closed()))
}
