//! Makes the plan of what the devices need: each step is taken in, and what all of them come to is a part of it.

use flashjob_api::flashjob::{DeviceState, Reason};

use crate::flashjob::facts::View;
use crate::flashjob::in_use::in_use;
use crate::flashjob::ledger::Record;
use crate::flashjob::locks::Lock;
use crate::flashjob::plan::{LedgerPlan, Plan};
use crate::flashjob::round::Round;
use crate::flashjob::status::Standing;
use crate::flashjob::step::{Action, Step, Wait};
use crate::flashjob::waiting;
use crate::time::after;

/// A job whose next reconcile comes sooner is not idle: to read its ledger again would cost more than to keep it.
const SHORT_PAUSE_SECONDS: i64 = 60;

impl Round<'_> {
    /// Takes in what a device needs: the plan has it done, the summary tells of it.
    pub fn take(&mut self, index: usize, record: &Record, step: Step) {
        self.idle &= matches!(step, Step::Left | Step::Final(_) | Step::Duplicate | Step::Idle(_));
        match step {
            Step::Left => {}
            Step::Final(outcome) => {
                if self.is_stuck(record) {
                    self.held_locks.extend(record.lock());
                }
                self.summary.add_final(record, outcome);
            }
            Step::Duplicate => self.summary.add_duplicate(),
            Step::PassedOver => self.summary.add_passed_over(),
            Step::Idle(wait) | Step::Waits(wait) => self.wait(record, wait),
            Step::Acts(wait, action) => {
                let stands = if let Action::Advance(next) = &action { next } else { record };
                self.wait(stands, wait);
                match action {
                    Action::Write(next) | Action::Advance(next) => {
                        self.change.records.insert(index, next);
                    }
                    Action::End(ended) => {
                        self.change.records.insert(index, ended.0);
                        self.plan.ended.push(ended.1);
                    }
                    Action::Create(object) => self.plan.creates.push(object),
                    Action::Delete(deletion) => self.plan.deletes.push(deletion),
                }
            }
        }
    }

    /// A device stands there, and keeps its board while anything of it is there.
    fn wait(&mut self, record: &Record, mut wait: Wait) {
        let children = self.view.children.get(&record.target);
        let holds = record.is_open() || children.is_some_and(|c| in_use(c, self.now));
        if holds || matches!(wait.state, DeviceState::Addressing) {
            self.held_locks.extend(record.lock());
        }
        self.plan.wanted_locks.extend(wait.wanted_lock.take());
        let times = wait.until.into_iter().chain(wait.sooner);
        times.for_each(|at| self.plan.reconcile_at(at));
        let service = children.and_then(|c| c.service.here());
        self.summary.add_waiting(record, wait, service.and_then(|s| s.address.as_ref()));
    }

    /// Given up because of its Service: the board stays ours until that has gone.
    fn is_stuck(&self, record: &Record) -> bool {
        let children = || self.view.children.get(&record.target);
        record.reason() == Some(Reason::ServiceStuck.as_str())
            && children().is_some_and(|c| c.service.here().is_some())
    }

    /// What came of it.
    pub fn into_plan(self) -> Plan {
        let mut plan = self.plan;
        let unchanged = self.change.is_empty();
        let held_up = self.spec.zip(self.starved.as_ref()).filter(|_| self.summary.starved);
        let held_up = held_up.map(|(spec, w)| waiting::held_up(self.view.job, &spec.access, w));
        let Round { view, ledger, summary, halt, .. } = self;
        let job_status = Standing { view, ledger, summary, halt, held_up }.into_status();
        let ended = job_status.completion_time.as_ref().map(|time| time.0);
        plan.finished = unchanged && ended.is_some();
        let soon = after(self.now, SHORT_PAUSE_SECONDS);
        plan.idle = self.idle
            && unchanged
            && is_quiet(self.view)
            && plan.next_reconcile.is_none_or(|at| at > soon);
        if let (Some(ended), Some(ttl)) = (ended, self.spec.and_then(|spec| spec.ttl_seconds)) {
            let at = after(ended, ttl);
            plan.expire = plan.finished && self.now >= at;
            plan.reconcile_at(at.max(self.now));
        }
        plan.status = Some(job_status);
        let mut held = self.held_locks;
        // The end of a Pod frees its board, whatever has become of the attempt, the firmware and the device.
        held.extend(self.left_behind.keys().map(|board| Lock::Board(board.clone()).into_owned()));
        held.extend(self.node_port_taken.then_some(Lock::NodePort));
        held.sort();
        held.dedup();
        plan.held_locks = Some(held);
        plan.wanted_locks.extend(self.node_port_wanted.then_some(Lock::NodePort));
        if !unchanged {
            plan.ledger = LedgerPlan::Update(self.change);
        }
        plan
    }
}

/// Whether nothing of a job is there or under way that something may happen to.
pub(crate) fn is_quiet(view: &View<'_>) -> bool {
    view.recovered && view.trouble.is_none() && view.children.is_empty()
}
