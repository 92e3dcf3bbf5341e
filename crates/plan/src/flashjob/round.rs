//! One pass over the devices of a job.
//!
//! A [`Round`] looks at each record once. What a device needs next is worked out in `prepare` (until it has a permit), in
//! `flashing` (from there to its end) and in `twins` (for a second name of one board); what is not needed any more, in
//! `clean_up`. Here is what they share: the slots and boards already given away, the change of the ledger, and where each
//! device stands. Every wait has a deadline, and every device that is not final is counted with what it waits for.

use std::collections::{HashMap, HashSet};

use flashjob_api::flashjob::{DeviceState as State, Reason};
use jiff::Timestamp;

use crate::flashjob::addresses::Waiting;
use crate::flashjob::boards::Lock;
use crate::flashjob::end;
use crate::flashjob::endpoint::{Board, Endpoint};
use crate::flashjob::facts::{DeviceNamespaces, Pod, Service, Slot, View};
use crate::flashjob::ids::Target;
use crate::flashjob::in_use::{in_use, pod_in_use, rests, takes_node_port};
use crate::flashjob::ledger::{Change, Ledger, Outcome, Record};
use crate::flashjob::plan::{LedgerPlan, Plan};
use crate::flashjob::rollout::{self, Turn};
use crate::flashjob::spec::Spec;
use crate::flashjob::status::{self, Summary};
use crate::flashjob::twins::Places;
use crate::flashjob::waiting;
use crate::time::after;

/// What is said while nothing may start yet.
pub(crate) const SETTLING: &str = "settling what an earlier run began";
/// What is said of a device that would begin, were it not for the failures of others.
pub(crate) const NO_ROOM: &str = "as many devices failed or are tried again as may fail";
/// A job whose next look comes sooner is not idle: to read its ledger again would cost more than to keep it.
const SHORT_PAUSE_SECONDS: i64 = 60;

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
    /// Boards that entries of this job hold.
    pub(crate) claimed: HashSet<Board<'a>>,
    /// Pods that may still talk to their board although no attempt is open for them: given up, or of another firmware, or of
    /// a device that has left the job. By the board.
    pub(crate) left_behind: HashMap<Board<'a>, &'a Pod>,
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
    pub(crate) claims: Vec<Lock<'static>>,
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
        let mut ahead = 0;
        let mut first_ahead = 0;
        let mut waiting: Option<&Service> = None;
        let mut claimed = HashSet::new();
        let mut failing = 0;
        let mut at_hand = HashMap::new();
        let mut has_objects = vec![false; ledger.records.len()];
        for (record, has_objects) in ledger.records.iter().zip(&mut has_objects) {
            let children = view.children.get(&record.target);
            *has_objects = children.is_some();
            if record.outcome.is_some() && children.is_none() {
                continue;
            }
            at_hand.extend(children.map(|_| (record.target, record)));
            let pod = children.and_then(|c| c.pods.get(&record.attempt)).and_then(Slot::here);
            let over = pod.filter(|pod| record.open && record.tries == 0 && pod.over(now));
            failing += usize::from(over.is_some_and(|pod| end::of(pod).outcome == Outcome::Failed));
            if record.open || children.is_some_and(|c| in_use(c, now)) {
                claimed.extend(record.pinned.as_ref().map(|p| p.endpoint.board()));
            }
            if record.outcome.is_some() {
                continue;
            }
            let service = children.map(|c| &c.service);
            let ready = record.open || service.is_some_and(|s| s.busy || s.here().is_some());
            let sent = children.and_then(|c| c.pods.get(&record.attempt));
            let sent = record.open && sent.is_some_and(|s| s.busy || s.seen.is_some());
            let next = usize::from(ready && !sent && !rests(record, now));
            ahead += next;
            first_ahead += next * usize::from(record.tries == 0);
            let waits = service.and_then(Slot::here).filter(|s| s.waits_for_address());
            waiting = waiting.into_iter().chain(waits).min_by_key(|s| s.first_seen);
        }
        let left_behind = left_behind(view, &at_hand, now);
        let room = spec.is_some_and(|spec| rollout::has_room(spec, ledger, failing));
        if !room {
            // First attempts wait for room, and take no place from those that are tried again.
            ahead -= first_ahead;
        }
        let waiting = waiting.map(|service| waiting::of(view, service));
        let (own, uid) = (waiting.as_ref(), &view.job.uid);
        let pool = spec.map_or("", |spec| &spec.access.pool);
        let starved_at = view.addresses.starved_at(Some(uid), own, &view.job.namespace, pool);
        let queued_at = view.addresses.queued_at(Some(uid), own, pool);
        let starved = starved_at.filter(|(at, _)| *at <= now).map(|(_, longest)| longest.clone());
        let mut plan = Plan::default();
        let turns = starved_at.map(|(at, _)| at).into_iter().chain(queued_at);
        turns.filter(|at| *at > now).for_each(|at| plan.look_again_at(at));
        plan.waiting = waiting;
        let passes_over =
            !view.status_due && left_behind.is_empty() && !view.boards.are_any_shared();
        let mut round = Round {
            view,
            ledger,
            now,
            spec,
            change: Change::default(),
            plan,
            claims: Vec::new(),
            summary: Summary::new(view),
            slots: max_parallel.saturating_sub(at_work),
            ahead: max_parallel.saturating_sub(ahead),
            starved,
            queued: queued_at.is_some_and(|at| at <= now),
            node_port_taken: takes_node_port(view),
            claimed,
            left_behind,
            places: None,
            halt: spec.and_then(|spec| rollout::halt(spec, ledger)),
            room,
            idle: true,
            bound: rollout::bound(spec, ledger),
            at_hand,
            has_objects,
            passes_over,
        };
        round.passes_over &= round.active().is_some();
        round
    }

    /// Looks at one device.
    pub fn step(&mut self, index: usize, record: &Record, dropped: bool) {
        let current = record.revision == self.ledger.header.revision;
        let began = record.outcome.is_some() || record.tries > 0;
        if dropped && !record.open && !(current && began) {
            // Taken out: nothing more is done for it.
            return;
        }
        self.summary.counts.total += 1;
        if record.open {
            self.idle = false;
            return self.attempt(index, record, dropped);
        }
        if !current {
            let revision = &self.ledger.header.revision;
            let mut renewed = record.renewed(&self.view.job.uid, revision, self.now);
            renewed.nonce = self.spec.and_then(|spec| spec.nonce.clone());
            self.change.records.entry(index).or_insert(renewed);
            return self.waits(record, State::Pending, "not its turn yet", None);
        }
        match record.outcome {
            Some(_) if !dropped && record.twin => self.stand_in(index, record),
            Some(Outcome::Failed) if !dropped && self.asked_again(record) => {
                let mut renewed = record.renewed(&self.view.job.uid, &record.revision, self.now);
                renewed.nonce = self.spec.and_then(|spec| spec.nonce.clone());
                self.change.records.entry(index).or_insert(renewed);
                self.waits(record, State::Pending, "asked for again", None);
            }
            Some(outcome) => {
                // Given up because of it: the board stays ours until the Service has gone.
                let stuck = record.reason.as_deref() == Some(Reason::ServiceStuck.as_str());
                let children = || self.view.children.get(&record.target);
                if stuck && children().is_some_and(|c| c.service.here().is_some()) {
                    self.claims.extend(record.lock());
                }
                self.summary.count_final(record, outcome);
            }
            None if dropped => {
                // Taken out between two attempts: how the last one failed is its result.
                let (outcome, retry_at) = (Some(Outcome::Failed), None);
                self.waits(record, State::Recording, "writing down its result", record.ended);
                self.change.records.insert(index, Record { outcome, retry_at, ..record.clone() });
            }
            None if !self.view.settled => self.waits(record, State::Pending, SETTLING, None),
            None if index >= self.bound && record.tries == 0 => {
                self.waits(record, State::Pending, "its batch has not begun", None);
            }
            None if self.is_passed_over(index, record) => {
                self.idle = false;
                self.summary.counts.pending += 1;
            }
            None => self.prepare(index, record),
        }
    }

    /// Whether nothing can come of a closer look now: the device has nothing yet, nothing more may be made ready, and its
    /// state is not told either. The next look whose status is due comes within seconds, and passes over nobody.
    fn is_passed_over(&self, index: usize, record: &Record) -> bool {
        self.passes_over
            && self.ahead == 0
            && record.tries == 0
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
    pub(crate) fn rests(&self, record: &Record) -> bool {
        rests(record, self.now)
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
        self.view.boards.flashed_by_newer(&self.view.job.uid, endpoint, since, own)
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
            Turn::Wait(until) => self.plan.look_again_at(until),
            // An edit's header comes first.
            Turn::Next(header) => {
                self.change.header.get_or_insert(*header);
            }
        }
    }

    /// What came of it.
    pub fn into_plan(self) -> Plan {
        let mut plan = self.plan;
        let settled = self.change.is_empty();
        let job_status = status::of_job(self.view, self.ledger, self.summary, self.halt);
        let ended = job_status.completion_time.as_ref().map(|time| time.0);
        plan.finished = settled && ended.is_some();
        let soon = after(self.now, SHORT_PAUSE_SECONDS);
        plan.idle = self.idle
            && settled
            && is_quiet(self.view)
            && plan.look_again.is_none_or(|at| at > soon);
        if let (Some(ended), Some(ttl)) = (ended, self.spec.and_then(|spec| spec.ttl_seconds)) {
            let at = after(ended, ttl);
            plan.expire = plan.finished && self.now >= at;
            plan.look_again_at(at.max(self.now));
        }
        plan.status = Some(job_status);
        let mut claims = self.claims;
        // The end of a Pod frees its board, whatever has become of the attempt, the firmware and the device.
        claims.extend(self.left_behind.keys().map(|board| Lock::Board(board.clone()).into_owned()));
        claims.extend(self.node_port_taken.then_some(Lock::NodePort));
        claims.sort();
        claims.dedup();
        plan.claims = Some(claims);
        if !settled {
            plan.ledger = LedgerPlan::Update(self.change);
        }
        plan
    }
}

/// Whether nothing of a job is there or under way that something may happen to.
pub(crate) fn is_quiet(view: &View<'_>) -> bool {
    view.settled && view.trouble.is_none() && view.children.is_empty()
}

/// The Pods that no open attempt is about and whose end has not been seen. That one has not started is no comfort: its node
/// may be late with the news.
fn left_behind<'a>(
    view: &'a View<'_>,
    at_hand: &HashMap<Target, &Record>,
    now: Timestamp,
) -> HashMap<Board<'a>, &'a Pod> {
    let mut left = HashMap::new();
    for (target, children) in view.children {
        let open = at_hand.get(target).filter(|r| r.open).map(|r| r.attempt);
        for (attempt, slot) in &children.pods {
            let pod = slot.here().filter(|pod| open != Some(*attempt) && !pod.over(now));
            left.extend(pod.map(|pod| (pod.endpoint.board(), pod)));
        }
    }
    left
}
