//! From Pending to the permit: the device is found, checked, given an address, and then allowed to be flashed.

use std::borrow::Cow;

use flashjob_api::flashjob::instance::same_board;
use flashjob_api::flashjob::{DeviceState as State, Reason, ServiceType};
use jiff::Timestamp;

use crate::flashjob::access::NODE_PORT;
use crate::flashjob::end::End;
use crate::flashjob::endpoint::normal;
use crate::flashjob::facts::{Children, Pod, Refusal, Service, View};
use crate::flashjob::flashing::NODE_LOST_SECONDS;
use crate::flashjob::in_use::pod_in_use;
use crate::flashjob::instances::{Found, Instance, Instances};
use crate::flashjob::ledger::{self, Outcome, Pinned, Record};
use crate::flashjob::plan::{Deletion, NewObject};
use crate::flashjob::round::{NO_ROOM, Round};
use crate::flashjob::selector::Selector;
use crate::flashjob::service;
use crate::flashjob::spec::Spec;
use crate::flashjob::waiting;
use crate::time::after;

/// How long a Service may take to go before nobody is believed to serve its finalizers.
const SERVICE_STUCK_SECONDS: i64 = 300;

/// Why there is no Instance to go on with.
pub(crate) enum Missing {
    Unknown,
    NotListed,
    Offline,
    NoEndpoint,
    Several(String),
}

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
        let (boards, job) = (self.view.boards, self.view.job.uid.as_str());
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
            let other = match mine {
                true => boards.held_by_other(job, &pinned.endpoint, may_use),
                false => boards.in_the_way(job, &pinned.endpoint, may_use),
            };
            if other.is_some() || !mine {
                self.plan.wants.push(pinned.endpoint.clone());
            }
            if let Some(other) = other {
                let words = format!("{other} comes first with this device");
                return self.waits(record, State::Blocked, &words, Some(record.turn));
            }
        }
        if !mine && self.claimed.contains(&normal(&pinned.endpoint)) {
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
                self.plan.deletes.push(Deletion::of_service(&record.target, service));
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
        let board = record.pinned.as_ref().map(|p| Cow::Owned(normal(&p.endpoint).into_owned()));
        self.claimed.extend(board);
    }

    /// A Pod that may still talk to this device's board, whichever attempt, firmware or entry it was made for.
    fn pod_in_the_way(&self, record: &Record) -> Option<&'a Pod> {
        // There is rarely one, and it is asked for every device.
        let pinned = record.pinned.as_ref().filter(|_| !self.left_behind.is_empty())?;
        self.left_behind.get(&normal(&pinned.endpoint)).copied()
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
                self.plan.wants.push(NODE_PORT.to_owned());
                let other = self.view.boards.in_the_way(&self.view.job.uid, NODE_PORT, |_| true);
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
        let object = service::service(self.view.job, spec, &record.target, &instance.uid);
        let target = record.target.clone();
        self.plan.creates.push(NewObject::Service { target, object: Box::new(object) });
        self.waits(record, State::Addressing, "waiting for its Service", None);
    }

    /// Whether a refused create has to wait longer, or has waited too long.
    fn keeps_waiting(&self, refusal: &Refusal) -> bool {
        self.now < refusal.retry_at || self.gives_up_at(refusal).is_some_and(|at| self.now >= at)
    }

    fn gives_up_at(&self, refusal: &Refusal) -> Option<Timestamp> {
        let limit = self.spec.map_or(600, |s| s.device_seconds);
        refusal.definite.then(|| after(refusal.since, limit))
    }

    /// The API server did not take an object: again later, and in the end not at all. This is no attempt.
    pub(crate) fn refused(&mut self, index: usize, record: &Record, refusal: &Refusal) {
        let reason = if refusal.conflict { Reason::NameConflict } else { Reason::CreateRefused };
        let give_up_at = self.gives_up_at(refusal);
        if give_up_at.is_some_and(|at| self.now >= at) {
            return self.end(index, record, None, End::failed(reason, refusal.message.clone()));
        }
        if self.now < refusal.retry_at {
            let until = give_up_at.map_or(refusal.retry_at, |at| at.min(refusal.retry_at));
            // The server's no has a name; that it cannot be reached has none.
            let words = match refusal.definite {
                true => format!("{reason}: {}", refusal.message),
                false => refusal.message.clone(),
            };
            let state = (State::BackOff, words.as_str());
            return self.waits_until(record, state, Some(refusal.since), until);
        }
        self.start(index, record);
    }

    /// The board guard: firmware for one type of board never reaches another, nor a board that the job may not use. What a
    /// selector says of the type counts for those it has chosen.
    pub(crate) fn wrong_board(
        &self,
        spec: &Spec,
        record: &Record,
        instance: &Instance,
    ) -> Option<End> {
        let wrong = |message: String| Some(End::failed(Reason::WrongDevice, message));
        let selected = spec.selector.as_ref().filter(|_| record.selected);
        for wanted in spec.device.iter().chain(selected.and_then(Selector::device)) {
            if !same_board(wanted, &instance.device) {
                let unknown = instance.device.is_empty();
                let what = if unknown { "a board of unknown type" } else { &instance.device };
                return wrong(format!("the firmware is for {wanted}, this device is {what}"));
            }
        }
        // An address in the spec must not lead around the bounds of namespaces.
        let endpoint = spec.host_endpoint.as_ref()?;
        if self.may_use(&self.view.job.namespace, endpoint) {
            return None;
        }
        wrong(format!(
            "spec.hostEndpoint {endpoint} is a board of a namespace this job may not use"
        ))
    }

    /// Whether jobs of a namespace may use the board at an address: Akri shows it where they may find devices, or nowhere.
    fn may_use(&self, namespace: &str, endpoint: &str) -> bool {
        let Some(instances) = self.view.instances.filter(|all| !all.listing) else {
            // The next one to be listed may say so.
            return true;
        };
        let mut shown_in = instances.namespaces_at(endpoint).peekable();
        let reach = &self.view.settings.device_namespaces;
        shown_in.peek().is_none() || shown_in.any(|shown| reach.allows(namespace, shown))
    }

    /// Finds the device's Instance, or says what is missing.
    pub(crate) fn find(&self, record: &Record) -> Result<&'a Instance, Missing> {
        let Some(instances) = self.view.instances else { return Err(Missing::Unknown) };
        let (own, reach) = (&self.view.job.namespace, &self.view.settings.device_namespaces);
        // Whose board an address in the spec is may be the next thing to be listed.
        let anywhere = self.spec.is_some_and(|spec| spec.host_endpoint.is_some());
        let instance = match &record.pinned {
            _ if instances.listing && anywhere => return Err(Missing::NotListed),
            // What a ledger says leads no further than what a spec says.
            Some(pinned) => instances
                .find_again(&pinned.namespace, &pinned.name, &pinned.endpoint)
                .filter(|instance| reach.allows(own, &instance.namespace))
                .ok_or(if instances.listing { Missing::NotListed } else { Missing::Offline })?,
            None if instances.listing => return Err(Missing::NotListed),
            None => look_up(self.view, instances, &record.device)?,
        };
        if instance.endpoint.is_empty() {
            return Err(Missing::NoEndpoint);
        }
        Ok(instance)
    }

    pub(crate) fn missing(&mut self, index: usize, record: &Record, missing: Missing) {
        let words = match missing {
            Missing::Several(paths) => {
                let message = format!("{} fits {paths}; write namespace/name", record.device);
                return self.end(
                    index,
                    record,
                    None,
                    End::failed(Reason::AmbiguousDevice, message),
                );
            }
            Missing::Unknown => {
                return self.waits(
                    record,
                    State::Offline,
                    "Akri's Instances cannot be read yet",
                    None,
                );
            }
            Missing::NotListed => {
                let words = "Akri's Instances are being listed";
                return self.waits(record, State::Pending, words, None);
            }
            Missing::Offline => "no Akri Instance for this device now",
            Missing::NoEndpoint => "its Akri Instance has no HOST_ENDPOINT",
        };
        let limit = self.spec.map_or(300, |s| s.offline_seconds);
        let since = self.missing_since(record);
        let give_up_at = after(since, limit);
        if self.now >= give_up_at {
            let message = format!("{words}, and none for {limit} s");
            return self.end(index, record, None, End::failed(Reason::DeviceNotFound, message));
        }
        self.waits_until(record, (State::Offline, words), Some(since), give_up_at);
    }

    /// A device is missed from its turn on, and one that was there since from the moment it was lost: a board that restarts
    /// late in a long rollout is not one that was away all the time.
    fn missing_since(&self, record: &Record) -> Timestamp {
        let lost = self.view.instances.zip(record.pinned.as_ref());
        let lost = lost.and_then(|(all, pinned)| all.away_since(&pinned.namespace, &pinned.name));
        lost.map_or(self.turn_of(record), |lost| lost.max(self.turn_of(record)))
    }
}

/// Finds what a user wrote, for a device that was not found before.
pub(crate) fn look_up<'a>(
    view: &View<'_>,
    instances: &'a Instances,
    written: &str,
) -> Result<&'a Instance, Missing> {
    let own = &view.job.namespace;
    let reachable = |n: &str| view.settings.device_namespaces.allows(own, n);
    match instances.find(written, own, reachable) {
        Found::One(instance) if instance.deleting => Err(Missing::Offline),
        Found::One(instance) => Ok(instance),
        Found::Nothing => Err(Missing::Offline),
        Found::Several(paths) => Err(Missing::Several(paths.join(", "))),
    }
}

/// What a device is from now on: this Instance, at the address that will be flashed.
pub(crate) fn pin(spec: &Spec, instance: &Instance) -> Pinned {
    Pinned {
        namespace: instance.namespace.clone(),
        name: instance.name.clone(),
        endpoint: spec.host_endpoint.clone().unwrap_or_else(|| instance.endpoint.clone()),
    }
}

/// Whether that is what [`pin`] would say, without a copy for every device that waits.
pub(crate) fn is_pinned(pinned: &Pinned, spec: &Spec, instance: &Instance) -> bool {
    pinned.namespace == instance.namespace
        && pinned.name == instance.name
        && &pinned.endpoint == spec.host_endpoint.as_ref().unwrap_or(&instance.endpoint)
}
