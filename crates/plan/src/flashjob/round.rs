//! One pass over the devices of a job.
//!
//! A [`Round`] looks at each record once. What a device needs next is worked out in `prepare` (until its board is known to
//! be free), in `addressing` (until it has a permit), in `flashing` (from there to its end) and in `duplicates` (for a
//! second name of one board); what is not needed any more, in `clean_up`. Here is what they share: the slots and boards
//! already given away. The answer is a [`Step`], and `collect` makes the plan of them. Every wait has a deadline, and
//! every device that is not final is counted with what it waits for.

use std::collections::{HashMap, HashSet};

use flashjob_api::flashjob::{DeviceState, Reason};
use jiff::Timestamp;

use crate::flashjob::addresses::Waiting;
use crate::flashjob::duplicates::Places;
use crate::flashjob::endpoint::{BoardKey, Endpoint};
use crate::flashjob::facts::{DeviceNamespaces, Pod, Service, View};
use crate::flashjob::ids::Target;
use crate::flashjob::in_use::{is_in_back_off, pod_in_use, takes_node_port};
use crate::flashjob::ledger::{Change, DeviceProgress, Ledger, Outcome, Record};
use crate::flashjob::locks::Lock;
use crate::flashjob::plan::Plan;
use crate::flashjob::results::given_up;
use crate::flashjob::rollout::{self, Turn};
use crate::flashjob::spec::Spec;
use crate::flashjob::step::{Action, Step, Wait};
use crate::flashjob::summary::Summary;
use crate::flashjob::survey::Survey;
use crate::flashjob::waiting;

/// What is said while nothing may start yet.
pub(crate) const RECOVERING: &str = "settling what an earlier run began";
/// What is said of a device that would begin, were it not for the failures of others.
pub(crate) const NO_ROOM: &str = "as many devices failed or are tried again as may fail";

/// One pass over the records of a job.
pub struct Round<'a> {
    pub(crate) view: &'a View<'a>,
    pub(crate) now: Timestamp,
    /// The spec, if it can be carried out.
    pub(crate) spec: Option<&'a Spec>,
    /// What the ledger should say.
    pub(crate) change: Change,
    /// What else is to be done.
    pub(crate) plan: Plan,
    /// How many more Pods may be made.
    pub(crate) slots: usize,
    /// How many more devices may be made ready for a slot.
    pub(crate) ahead: usize,
    /// This Service waits too long for its address: no more of them.
    pub(crate) starved: Option<Waiting>,
    /// A Service has waited for its address for a while, be it that others get theirs meanwhile.
    pub(crate) queued: bool,
    /// A Service of this job has the one node port that boards dial.
    pub(crate) node_port_taken: bool,
    /// A device would use it now, were it free.
    pub(crate) node_port_wanted: bool,
    /// Boards that entries of this job hold.
    pub(crate) locked: HashSet<BoardKey<'a>>,
    /// Pods that may still talk to their board although no attempt is open for them: given up, or of another firmware, or of
    /// a device that has left the job. By the board.
    pub(crate) left_behind: HashMap<BoardKey<'a>, &'a Pod>,
    /// Which entries are at which board; worked out when it is first asked for.
    pub(crate) places: Option<Places>,
    /// Why nothing new may start, for good.
    pub(crate) halt: Option<Reason>,
    /// Whether failures leave room for first attempts.
    pub(crate) room: bool,
    /// The records that have objects, by target.
    pub(crate) at_hand: HashMap<Target, &'a Record>,
    /// The same by place.
    has_objects: Vec<bool>,
    /// Devices whose turn is far away need not be looked for: nobody is told of them now.
    passes_over: bool,
    /// No device waits for anything but an edit or its batch.
    pub(crate) idle: bool,
    /// The first place whose turn has not come.
    bound: usize,
    pub(crate) ledger: &'a Ledger,
    pub(crate) held_locks: Vec<Lock<'static>>,
    pub(crate) summary: Summary,
}

impl<'a> Round<'a> {
    /// Counts what is under way already.
    pub fn new(view: &'a View<'a>, ledger: &'a Ledger, now: Timestamp) -> Round<'a> {
        let spec = view.job.spec.as_ref().ok();
        let max_parallel = spec.map_or(0, |spec| spec.max_parallel);
        // A Pod that was given up but has not ended still takes its slot.
        let pods = view.children.values().flat_map(|children| children.pods.values());
        let at_work = pods.filter(|slot| pod_in_use(slot, now)).count();
        let survey = Survey::of(view, ledger, now);
        let room = spec.is_some_and(|spec| rollout::has_room(spec, ledger, survey.failing));
        // Without room first attempts wait, and take no place from those that are tried again.
        let ahead = if room { survey.ahead } else { survey.ahead - survey.first_ahead };
        let left_behind = survey.left_behind(view, now);
        let passes_over =
            !view.status_due && left_behind.is_empty() && !view.locks.are_any_shared();
        let mut round = Round {
            view,
            ledger,
            now,
            spec,
            change: Change::default(),
            plan: Plan::default(),
            held_locks: Vec::new(),
            summary: Summary::new(view),
            slots: max_parallel.saturating_sub(at_work),
            ahead: max_parallel.saturating_sub(ahead),
            starved: None,
            queued: false,
            node_port_taken: takes_node_port(view),
            node_port_wanted: false,
            locked: survey.locked,
            left_behind,
            places: None,
            halt: spec.and_then(|spec| rollout::halt(spec, ledger)),
            room,
            idle: true,
            bound: rollout::bound(spec, ledger),
            at_hand: survey.at_hand,
            has_objects: survey.has_objects,
            passes_over,
        };
        round.passes_over &= round.active().is_some();
        round.ask_for_addresses(survey.waiting);
        round
    }

    /// Are there addresses for more Services than those that wait for theirs?
    fn ask_for_addresses(&mut self, waiting: Option<&Service>) {
        let (view, now) = (self.view, self.now);
        let waiting = waiting.map(|service| waiting::of(view, service));
        let (own, uid) = (waiting.as_ref(), Some(&view.job.uid));
        let pool = self.spec.map_or("", |spec| &spec.access.pool);
        let starved_at = view.addresses.starved_at(uid, own, &view.job.namespace, pool);
        let queued_at = view.addresses.queued_at(uid, own, pool);
        self.starved = starved_at.filter(|(at, _)| *at <= now).map(|(_, longest)| longest.clone());
        self.queued = queued_at.is_some_and(|at| at <= now);
        let turns = starved_at.map(|(at, _)| at).into_iter().chain(queued_at);
        turns.filter(|at| *at > now).for_each(|at| self.plan.reconcile_at(at));
        self.plan.waiting = waiting;
    }

    /// Looks at one device: what does it need? What it takes of slots and places is taken, all else is in the answer, for
    /// [`Round::take`].
    pub fn step(&mut self, index: usize, record: &Record, dropped: bool) -> Step {
        let current = record.revision == self.ledger.header.revision;
        let began = record.outcome().is_some() || record.tries() > 0;
        if dropped && !record.is_open() && !(current && began) {
            return Step::Left;
        }
        match &record.progress {
            DeviceProgress::Open { .. } => self.attempt(index, record, dropped),
            _ if !current => self.renew(record, &self.ledger.header.revision, "not its turn yet"),
            DeviceProgress::Duplicate { .. } if dropped => Step::Final(Outcome::Skipped),
            DeviceProgress::Duplicate { .. } => self.stand_in(index, record),
            DeviceProgress::Final { outcome: Outcome::Failed, .. }
                if !dropped && self.asked_again(record) =>
            {
                self.renew(record, &record.revision, "asked for again")
            }
            DeviceProgress::Final { outcome, .. } => Step::Final(*outcome),
            // Taken out between two attempts.
            DeviceProgress::Waiting(Some(failed)) if dropped => given_up(record, failed),
            DeviceProgress::Waiting(_) if !self.view.recovered => {
                Wait::new(DeviceState::Pending, RECOVERING).into()
            }
            DeviceProgress::Waiting(None) if index >= self.bound => {
                Step::Idle(Wait::new(DeviceState::Pending, "its batch has not begun"))
            }
            DeviceProgress::Waiting(None) if self.is_passed_over(index, record) => Step::PassedOver,
            DeviceProgress::Waiting(failed) => self.prepare(index, record, failed.as_ref()),
        }
    }

    /// The device begins anew, with this revision.
    fn renew(&self, record: &Record, revision: &str, why: &'static str) -> Step {
        let mut renewed = record.renewed(&self.view.job.uid, revision, self.now);
        renewed.nonce = self.spec.and_then(|spec| spec.nonce.clone());
        Wait::new(DeviceState::Pending, why).then(Action::Write(renewed))
    }

    /// Whether nothing can come of going into it now: the device has nothing yet, nothing more may be made ready, and its
    /// state is not told either. The next reconcile whose status is due comes within seconds, and passes over nobody.
    fn is_passed_over(&self, index: usize, record: &Record) -> bool {
        self.passes_over
            && self.ahead == 0
            && record.pinned.is_some()
            && self.has_objects.get(index) == Some(&false)
    }

    /// The spec, if anything may start now. A job that was held starts again once its clocks are set, one with another
    /// firmware once the ledger says so: what is flashed must be what is written down.
    pub(crate) fn active(&self) -> Option<&'a Spec> {
        let written = &self.ledger.header.revision;
        self.spec.filter(|spec| !self.held() && spec.revision == *written)
    }

    /// Whether a device waits for its next attempt.
    pub(crate) fn is_in_back_off(&self, record: &Record) -> bool {
        is_in_back_off(record, self.now)
    }

    /// Whether nothing new may start although the spec can be carried out.
    pub(crate) fn held(&self) -> bool {
        let suspended = self.spec.is_some_and(|spec| spec.suspend);
        suspended || self.halt.is_some() || self.ledger.header.suspended.is_some()
    }

    /// When the device's turn came: with its batch, or with its next attempt.
    pub(crate) fn turn_of(&self, record: &Record) -> Timestamp {
        record.turn.max(self.ledger.header.released_at)
    }

    /// A newer job that has flashed the board since this job's firmware was set.
    pub(crate) fn superseded_by(&self, endpoint: &Endpoint) -> Option<String> {
        let since = self.ledger.header.revised;
        let own = self.view.settings.device_namespaces == DeviceNamespaces::Own;
        self.view.locks.flashed_by_newer(&self.view.job.uid, endpoint, since, own)
    }

    /// Whether a new nonce asks for this failed device.
    fn asked_again(&self, record: &Record) -> bool {
        let nonce = self.spec.and_then(|spec| spec.nonce.as_ref());
        nonce.is_some() && record.nonce.as_ref() != nonce
    }

    /// Begins the next batch when this one is over.
    pub fn take_turns(&mut self) {
        let Some(spec) = self.active() else { return };
        match rollout::turn(spec, self.ledger, self.now) {
            Turn::Same => {}
            Turn::Wait(until) => self.plan.reconcile_at(until),
            // An edit's header comes first.
            Turn::Next(header) => {
                self.change.header.get_or_insert(*header);
            }
        }
    }
}
