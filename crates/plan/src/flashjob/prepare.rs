//! From Pending to its board: the device is found, checked, and locked. What follows is in `addressing`.

use flashjob_api::flashjob::{DeviceState, Reason};

use crate::flashjob::end::End;
use crate::flashjob::facts::{Children, Pod};
use crate::flashjob::finding::{is_pinned, pin};
use crate::flashjob::flashing::NODE_LOST_SECONDS;
use crate::flashjob::in_use::pod_in_use;
use crate::flashjob::instances::Instance;
use crate::flashjob::ledger::{Failed, Outcome, Pinned, Record};
use crate::flashjob::locks::Lock;
use crate::flashjob::results::given_up;
use crate::flashjob::round::{NO_ROOM, Round};
use crate::flashjob::spec::Spec;
use crate::flashjob::step::{Action, Step, Wait};
use crate::time::after;

impl<'a> Round<'a> {
    /// A device without an attempt: find it and its board, give it an address, then a permit.
    pub(crate) fn prepare(
        &mut self,
        index: usize,
        record: &Record,
        failed: Option<&Failed>,
    ) -> Step {
        if let Some(pod) = self.pod_in_the_way(record) {
            return self.wait_for_pod(index, record, pod);
        }
        let children = self.view.children.get(&record.target);
        if children.is_some_and(|c| c.pods.values().any(|slot| pod_in_use(slot, self.now))) {
            return Wait::new(DeviceState::BackOff, "waiting for the earlier Pod to go").into();
        }
        if let (Some(spec), Some(failed)) = (self.spec, failed)
            && failed.tries.get() > spec.retry_limit
        {
            // The limit was lowered, or was not known when the last attempt failed.
            return given_up(record, failed);
        }
        // Before anything else is asked that may change: a held job has nothing to do with the world and can be parked.
        let Some(spec) = self.active() else { return Step::Idle(self.wait_held(failed)) };
        if let Some(Failed { ended, retry_at: Some(at), .. }) = failed
            && *at > self.now
        {
            let said = ended.message.as_deref().unwrap_or_default();
            let why = format!("tried again at {}: {said}", at.strftime("%H:%M:%S UTC"));
            return Wait::new(DeviceState::BackOff, why).since(ended.at).until(*at).into();
        }
        let instance = match self.find(record) {
            Ok(instance) => instance,
            Err(missing) => return self.missing(index, record, missing),
        };
        if failed.is_none() && !self.room {
            return Wait::new(DeviceState::Pending, NO_ROOM).into();
        }
        if let Some(end) = self.wrong_board(spec, record, instance) {
            return self.end(index, record, None, end);
        }
        match record.pinned.as_ref().filter(|p| is_pinned(p, spec, instance)) {
            Some(pinned) => self.take_board(index, record, pinned, spec, instance),
            None => self.pin_down(index, record, pin(spec, instance)),
        }
    }

    /// The job is suspended or halted, or its ledger does not say yet what it is about.
    fn wait_held(&self, failed: Option<&Failed>) -> Wait {
        let failed = failed.filter(|_| self.halt.is_none());
        match failed.and_then(|failed| failed.ended.message.as_ref()) {
            Some(said) => {
                let why = format!("tried again when the job goes on: {said}");
                Wait::new(DeviceState::BackOff, why)
            }
            None => Wait::new(DeviceState::Pending, "the job is held"),
        }
    }

    /// The device is new, or at another address than before: what is locked must be what is flashed.
    fn pin_down(&mut self, index: usize, record: &Record, found: Pinned) -> Step {
        let wait = Wait::new(DeviceState::Pending, "found; writing that down");
        let first = self.first_entry(index, &found);
        let record = Record { pinned: Some(found), ..record.clone() };
        match first {
            Some(first) => wait.then(Action::Write(record.as_duplicate_of(&first, self.now))),
            None => wait.then(Action::Advance(record)),
        }
    }

    /// The device is known: is its board free?
    fn take_board(
        &mut self,
        index: usize,
        record: &Record,
        pinned: &Pinned,
        spec: &Spec,
        instance: &Instance,
    ) -> Step {
        let none = Children::default();
        let slot = &self.view.children.get(&record.target).unwrap_or(&none).service;
        let mine = slot.busy || slot.here().is_some();
        // Asked when its turn comes: there may be many newer jobs, and devices that wait for their turn.
        if (mine || self.ahead > 0)
            && let Some(newer) = self.superseded_by(&pinned.endpoint)
        {
            let message = format!("{newer} has flashed this device since");
            let (outcome, reason) = (Outcome::Skipped, Some(Reason::Superseded));
            return self.end(index, record, None, End { outcome, reason, message, digest: None });
        }
        let (locks, job) = (self.view.locks, &self.view.job.uid);
        let mut wanted_lock = None;
        if locks.is_shared(job, &pinned.endpoint) {
            // A Service alone does not say that the board is ours: after a restart, another job may have got it first.
            let may_use = |namespace: &str| self.may_use(namespace, &pinned.endpoint);
            let board = Lock::board(&pinned.endpoint);
            let other = if mine {
                locks.held_by_other(job, &board, may_use)
            } else {
                locks.in_the_way(job, &board, may_use)
            };
            wanted_lock = (other.is_some() || !mine).then(|| board.into_owned());
            if let Some(other) = other {
                let why = format!("{other} comes first with this device");
                let wait = Wait::new(DeviceState::Blocked, why).since(record.turn);
                return Wait { wanted_lock, ..wait }.into();
            }
        }
        let mut step = if !mine && self.locked.contains(&pinned.endpoint.board()) {
            let why = "another entry of this job is the same device";
            Wait::new(DeviceState::Blocked, why).since(record.turn).into()
        } else {
            self.reach(index, record, spec, instance, slot)
        };
        if let (Some(wait), Some(board)) = (step.wait_mut(), wanted_lock) {
            wait.wanted_lock = Some(board);
        }
        step
    }

    /// The board is taken for the rest of this round.
    pub(crate) fn lock_board(&mut self, record: &Record) {
        let board = record.pinned.as_ref().map(|p| p.endpoint.board().into_owned());
        self.locked.extend(board);
    }

    /// A Pod that may still talk to this device's board, whichever attempt, firmware or entry it was made for.
    fn pod_in_the_way(&self, record: &Record) -> Option<&'a Pod> {
        // There is rarely one, and it is asked for every device.
        let pinned = record.pinned.as_ref().filter(|_| !self.left_behind.is_empty())?;
        self.left_behind.get(&pinned.endpoint.board()).copied()
    }

    /// The end of a Pod frees its board, not the wish for its end. One that never goes is on a node that is gone: others do
    /// not wait for that, and the board stays locked.
    fn wait_for_pod(&self, index: usize, record: &Record, pod: &Pod) -> Step {
        let ended = record.ended().and_then(|ended| ended.at);
        let since = pod.deleting.or(ended).unwrap_or(record.turn);
        let lost_at = after(since, NODE_LOST_SECONDS);
        if self.now >= lost_at {
            let message = format!(
                "the earlier flash Pod {} does not go away; is its node gone? The board stays locked until it is gone",
                pod.name
            );
            return self.end(index, record, None, End::failed(Reason::NodeLost, message));
        }
        let why = format!("waiting for the earlier Pod {} to go", pod.name);
        Wait::new(DeviceState::BackOff, why).since(since).until(lost_at).into()
    }
}
