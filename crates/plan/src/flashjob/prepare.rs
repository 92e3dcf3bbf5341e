//! From Pending to the permit: the device is found, checked, given an address, and then allowed to be flashed.

use flashjob_api::flashjob::{DeviceState as State, Reason, ServiceType};
use jiff::Timestamp;

use crate::flashjob::boards::Lock;
use crate::flashjob::end::End;
use crate::flashjob::facts::{Children, Pod, Refusal, Service};
use crate::flashjob::finding::{is_pinned, pin};
use crate::flashjob::flashing::NODE_LOST_SECONDS;
use crate::flashjob::in_use::pod_in_use;
use crate::flashjob::instances::Instance;
use crate::flashjob::ledger::{self, Outcome, Record};
use crate::flashjob::plan::{Deletion, NewObject};
use crate::flashjob::round::{NO_ROOM, Round};
use crate::flashjob::service;
use crate::flashjob::spec::Spec;
use crate::flashjob::waiting;
use crate::time::after;

/// How long a Service may take to go before nobody is believed to serve its finalizers.
const SERVICE_STUCK_SECONDS: i64 = 300;

impl<'a> Round<'a> {
    /// A device without an attempt: find it, give it an address, then a permit.
    pub(crate) fn prepare(&mut self, index: usize, record: &Record) {
        let none = Children::default();
        let children = self.view.children.get(&record.target).unwrap_or(&none);
        if let Some(pod) = self.pod_in_the_way(record) {
            return self.wait_for_pod(index, record, pod);
        }
        if children.pods.values().any(|slot| pod_in_use(slot, self.now)) {
            return self.waits(record, State::BackOff, "waiting for the earlier Pod to go", None);
        }
        if self.spec.is_some_and(|spec| record.tries > spec.retry_limit) {
            // The limit was lowered, or was not known when the last attempt failed.
            let (outcome, retry_at) = (Some(Outcome::Failed), None);
            self.waits(record, State::Recording, "writing down its result", record.ended);
            self.change.records.insert(index, Record { outcome, retry_at, ..record.clone() });
            return;
        }
        // Before anything else is asked that may change: a held job has nothing to do with the world and can be parked.
        let Some(spec) = self.active() else {
            let failed =
                record.message.as_ref().filter(|_| record.tries > 0 && self.halt.is_none());
            return match failed {
                Some(why) => {
                    let words = format!("tried again when the job goes on: {why}");
                    self.waits(record, State::BackOff, &words, None)
                }
                None => self.waits(record, State::Pending, "the job is held", None),
            };
        };
        self.idle = false;
        if let Some(at) = record.retry_at.filter(|at| *at > self.now) {
            let why = record.message.clone().unwrap_or_default();
            let words = format!("tried again at {}: {why}", at.strftime("%H:%M:%S UTC"));
            return self.waits_until(record, (State::BackOff, &words), record.ended, at);
        }
        let instance = match self.find(record) {
            Ok(instance) => instance,
            Err(missing) => return self.missing(index, record, missing),
        };
        if record.tries == 0 && !self.room {
            return self.waits(record, State::Pending, NO_ROOM, None);
        }
        if let Some(end) = self.wrong_board(spec, record, instance) {
            return self.end(index, record, None, end);
        }
        let Some(pinned) = record.pinned.as_ref().filter(|p| is_pinned(p, spec, instance)) else {
            let found = pin(spec, instance);
            if let Some(twin) = self.twin(index, &found) {
                let found = Record { pinned: Some(found), ..record.clone() };
                let left_out = found.as_twin_of(&twin, self.now);
                self.waits(record, State::Pending, "found; writing that down", None);
                self.change.records.insert(index, left_out);
                return;
            }
            // New, or at another address than before: what is locked must be what is flashed.
            let record = Record { pinned: Some(found), ..record.clone() };
            self.waits(&record, State::Pending, "found; writing that down", None);
            self.change.records.insert(index, record);
            return;
        };
        let (boards, job) = (self.view.boards, &self.view.job.uid);
        let slot = &children.service;
        let mine = slot.busy || slot.here().is_some();
        // Asked when its turn comes: there may be many newer jobs, and devices that wait for their turn.
        if (mine || self.ahead > 0)
            && let Some(newer) = self.superseded_by(&pinned.endpoint)
        {
            let message = format!("{newer} has flashed this device since");
            let (outcome, reason) = (Outcome::Skipped, Some(Reason::Superseded));
            let end = End { outcome, reason, message, digest: None };
            return self.end(index, record, None, end);
        }
        if boards.is_shared(job, &pinned.endpoint) {
            // A Service alone does not say that the board is ours: after a restart, another job may have got it first.
            let may_use = |namespace: &str| self.may_use(namespace, &pinned.endpoint);
            let board = Lock::board(&pinned.endpoint);
            let other = if mine {
                boards.held_by_other(job, &board, may_use)
            } else {
                boards.in_the_way(job, &board, may_use)
            };
            if other.is_some() || !mine {
                self.plan.wants.push(board.into_owned());
            }
            if let Some(other) = other {
                let words = format!("{other} comes first with this device");
                return self.waits(record, State::Blocked, &words, Some(record.turn));
            }
        }
        if !mine && self.claimed.contains(&pinned.endpoint.board()) {
            let words = "another entry of this job is the same device";
            return self.waits(record, State::Blocked, words, Some(record.turn));
        }
        let ready = spec.access.address(slot.here()).is_some();
        match slot.here() {
            _ if slot.busy => {
                self.waits(record, State::Addressing, "waiting for its Service", None);
            }
            Some(Service { deleting: Some(since), name, .. }) => {
                self.wait_for_service_to_go(index, record, name, *since);
            }
            Some(service) if service.shape != spec.access.shape => {
                self.plan.deletes.push(Deletion::of_service(record.target, service));
                let words = "the job asks for another Service by now";
                self.waits(record, State::Addressing, words, None);
            }
            Some(_) if ready => self.permit(index, record, instance),
            Some(service) => self.wait_for_address(index, record, spec, service),
            None if ready && self.ahead == 0 => {
                self.waits(record, State::Pending, "not its turn yet", None);
            }
            None if ready => {
                self.ahead -= 1;
                self.permit(index, record, instance);
            }
            None => self.make_service(index, record, spec, instance, slot.refused.as_ref()),
        }
    }

    /// Everything is there: the next attempt may begin as soon as the ledger says so.
    fn permit(&mut self, index: usize, record: &Record, instance: &Instance) {
        let attempt = record.attempt.saturating_add(1);
        let found = || Some(ledger::message(&instance.version));
        let previous = record.previous.clone().or_else(found);
        let deadline_seconds = self.spec.map(|spec| spec.device_seconds);
        let (open, permit) = (true, true);
        let open = Record { attempt, previous, open, permit, deadline_seconds, ..record.clone() };
        self.claim(record);
        self.waits(&open, State::Starting, "writing its permit", None);
        self.change.records.insert(index, open);
    }

    /// The board is taken for the rest of this look.
    fn claim(&mut self, record: &Record) {
        let board = record.pinned.as_ref().map(|p| p.endpoint.board().into_owned());
        self.claimed.extend(board);
    }

    /// A Pod that may still talk to this device's board, whichever attempt, firmware or entry it was made for.
    fn pod_in_the_way(&self, record: &Record) -> Option<&'a Pod> {
        // There is rarely one, and it is asked for every device.
        let pinned = record.pinned.as_ref().filter(|_| !self.left_behind.is_empty())?;
        self.left_behind.get(&pinned.endpoint.board()).copied()
    }

    /// The end of a Pod frees its board, not the wish for its end. One that never goes is on a node that is gone: others do
    /// not wait for that, and the board stays locked.
    fn wait_for_pod(&mut self, index: usize, record: &Record, pod: &Pod) {
        let since = pod.deleting.or(record.ended).unwrap_or(record.turn);
        let lost_at = after(since, NODE_LOST_SECONDS);
        if self.now >= lost_at {
            let message = format!(
                "the earlier flash Pod {} does not go away; is its node gone? The board stays locked until it is gone",
                pod.name
            );
            return self.end(index, record, None, End::failed(Reason::NodeLost, message));
        }
        let words = format!("waiting for the earlier Pod {} to go", pod.name);
        self.waits_until(record, (State::BackOff, &words), Some(since), lost_at);
    }

    fn wait_for_service_to_go(
        &mut self,
        index: usize,
        record: &Record,
        name: &str,
        since: Timestamp,
    ) {
        let stuck_at = after(since, SERVICE_STUCK_SECONDS);
        if self.now >= stuck_at {
            let message = format!(
                "the earlier Service {name} does not go away; does somebody serve its finalizers? The board stays locked \
                 until it is gone"
            );
            return self.end(index, record, None, End::failed(Reason::ServiceStuck, message));
        }
        let words = format!("waiting for the earlier Service {name} to go");
        self.waits_until(record, (State::Addressing, &words), Some(since), stuck_at);
    }

    fn wait_for_address(&mut self, index: usize, record: &Record, spec: &Spec, service: &Service) {
        let give_up_at = waiting::of(self.view, service).until;
        if self.now >= give_up_at {
            let class = spec.access.load_balancer_class.as_ref();
            let class = class.map_or(String::new(), |class| format!(" for class {class}"));
            let message = format!(
                "Service {} got no address in {} s; is there a load balancer{class} with a free address?",
                service.name, spec.address_seconds
            );
            return self.end(index, record, None, End::failed(Reason::AddressTimeout, message));
        }
        let words = spec.access.awaited();
        self.waits_until(record, (State::Addressing, &words), Some(service.first_seen), give_up_at);
    }

    fn make_service(
        &mut self,
        index: usize,
        record: &Record,
        spec: &Spec,
        instance: &Instance,
        refusal: Option<&Refusal>,
    ) {
        if let Some(refusal) = refusal.filter(|r| self.keeps_waiting(r)) {
            return self.refused(index, record, refusal);
        }
        if self.ahead == 0 {
            return self.waits(record, State::Pending, "not its turn yet", None);
        }
        match spec.access.kind {
            ServiceType::LoadBalancer if self.starved.is_some() => {
                let behind = self.starved.as_ref();
                let words = behind.map(|w| waiting::held_up(self.view.job, &spec.access, w));
                self.summary.held_up = words;
                let words = "other Services wait for an address";
                return self.waits(record, State::Pending, words, None);
            }
            ServiceType::NodePort if self.node_port_taken => {
                let words = "another device of this job has node port 4433";
                return self.waits(record, State::Pending, words, None);
            }
            ServiceType::NodePort => {
                self.plan.wants.push(Lock::NodePort);
                let (boards, job) = (self.view.boards, &self.view.job.uid);
                let other = boards.in_the_way(job, &Lock::NodePort, |_| true);
                if let Some(other) = other {
                    let words = format!("{other} comes first with node port 4433");
                    return self.waits(record, State::Pending, &words, None);
                }
                self.node_port_taken = true;
            }
            _ => {}
        }
        self.ahead -= 1;
        self.claim(record);
        let object = service::service(self.view.job, spec, record.target, &instance.uid);
        let target = record.target;
        self.plan.creates.push(NewObject::Service { target, object: Box::new(object) });
        self.waits(record, State::Addressing, "waiting for its Service", None);
    }

    /// Whether a refused create has to wait longer, or has waited too long.
    pub(crate) fn keeps_waiting(&self, refusal: &Refusal) -> bool {
        self.now < refusal.retry_at || self.gives_up_at(refusal).is_some_and(|at| self.now >= at)
    }

    fn gives_up_at(&self, refusal: &Refusal) -> Option<Timestamp> {
        let limit = self.spec.map_or(600, |s| s.device_seconds);
        refusal.definite.then(|| after(refusal.since, limit))
    }

    /// The API server did not take an object, and that [holds](Round::keeps_waiting): again later, and in the end not at all.
    /// This is no attempt.
    pub(crate) fn refused(&mut self, index: usize, record: &Record, refusal: &Refusal) {
        let reason = if refusal.conflict { Reason::NameConflict } else { Reason::CreateRefused };
        let give_up_at = self.gives_up_at(refusal);
        if give_up_at.is_some_and(|at| self.now >= at) {
            return self.end(index, record, None, End::failed(reason, refusal.message.clone()));
        }
        let until = give_up_at.map_or(refusal.retry_at, |at| at.min(refusal.retry_at));
        // The server's no has a name; that it cannot be reached has none.
        let words = if refusal.definite {
            format!("{reason}: {}", refusal.message)
        } else {
            refusal.message.clone()
        };
        let state = (State::BackOff, words.as_str());
        self.waits_until(record, state, Some(refusal.since), until);
    }
}
