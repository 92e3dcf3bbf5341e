//! One device's way: Pending → Offline? → Blocked? → Addressing → Flashing → Succeeded | Skipped | Failed.
//!
//! A [`Round`] goes once over the records of a job. Each step looks at one record and its objects, and adds to the plan
//! what this device needs next; slots and claims already given away are kept in the round. Every wait has a deadline,
//! and every device that is not final is listed with what it waits for.

use std::collections::HashSet;

use flashjob_api::{InFlight, Reason};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::attempt::{self, End};
use crate::facts::{Children, Pod, Refusal, Slot, View};
use crate::instances::{Found, Instance};
use crate::ledger::{self, Change, Ledger, Outcome, Pinned, Record};
use crate::plan::{AttemptEnd, LedgerPlan, NewObject, Plan};
use crate::spec::Spec;
use crate::status::{self, Summary};
use crate::{pod, service};

/// How long a Service may wait for its address before no more Services are made.
const STARVED_AFTER: SignedDuration = SignedDuration::from_secs(5);
/// How long past its deadline a Pod is left to end by itself.
const OVERDUE: SignedDuration = SignedDuration::from_secs(60);
/// How long a Pod may take to go before its node is believed lost.
const NODE_LOST_AFTER: SignedDuration = SignedDuration::from_secs(300);
/// The longest pause before a retry.
const LONGEST_BACKOFF_SECONDS: i64 = 300;

/// One pass over the records of a job.
pub struct Round<'a> {
    view: &'a View<'a>,
    ledger: &'a Ledger,
    now: Timestamp,
    spec: Option<&'a Spec>,
    /// What the ledger should say.
    pub change: Change,
    /// What else is to be done.
    pub plan: Plan,
    summary: Summary,
    slots: usize,
    services_ahead: usize,
    starved: bool,
    claimed: HashSet<String>,
}

/// Where a device is that has no result yet.
enum State {
    Pending,
    Offline,
    Blocked,
    Addressing,
    Starting,
    Flashing,
    Recording,
    BackOff,
}

impl<'a> Round<'a> {
    /// Counts what is under way already.
    pub fn new(view: &'a View<'a>, ledger: &'a Ledger, now: Timestamp) -> Round<'a> {
        let spec = view.job.spec.as_ref().ok();
        let max_parallel = spec.map_or(0, |spec| spec.max_parallel);
        let mut at_work = 0;
        let mut ahead = 0;
        let mut starved = false;
        let mut claimed = HashSet::new();
        for record in ledger.records.iter().filter(|r| r.outcome.is_none() || r.open) {
            let children = view.children.get(&record.target);
            if record.open && children.is_some_and(|c| holds_slot(c, record.attempt, now)) {
                at_work += 1;
            }
            if record.open || children.is_some_and(|c| in_use(c, now)) {
                claimed.extend(record.pinned.as_ref().map(|p| p.endpoint.clone()));
            }
            if let Some(service) = children.map(|c| &c.service) {
                ahead += usize::from(!record.open && (service.busy || service.here().is_some()));
                starved |= service
                    .here()
                    .is_some_and(|s| s.address.is_none() && now >= s.created + STARVED_AFTER);
            }
        }
        Round {
            view,
            ledger,
            now,
            spec,
            change: Change::default(),
            plan: Plan::default(),
            summary: Summary::default(),
            slots: max_parallel.saturating_sub(at_work),
            services_ahead: max_parallel.saturating_sub(ahead),
            starved,
            claimed,
        }
    }

    /// Looks at one device.
    pub fn step(&mut self, index: usize, record: &Record) {
        if record.dropped {
            return;
        }
        self.summary.counts.total += 1;
        if record.open {
            return self.attempt(index, record);
        }
        if record.revision != self.ledger.header.revision {
            let revision = &self.ledger.header.revision;
            let renewed = record.renewed(&self.view.job.uid, revision, self.now);
            self.change.records.entry(index).or_insert(renewed);
            return self.waits(record, State::Pending, "not its turn yet", None);
        }
        match record.outcome {
            Some(outcome) => self.summary.count_final(record, outcome),
            None => self.prepare(index, record),
        }
    }

    /// A device whose attempt is under way.
    fn attempt(&mut self, index: usize, record: &Record) {
        if !self.view.settled {
            // Begun by another process. Withdraw the permit; then a fresh list shows whether it has started.
            if record.permit {
                self.change.records.insert(index, Record { permit: false, ..record.clone() });
            }
            return self.waits(record, State::Starting, "settling what an earlier run began", None);
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
            (Some(pod), _) if slot.gone => {
                if record.permit || pod.started() {
                    let message =
                        format!("the flash Pod {} vanished before its end was seen", pod.name);
                    self.end(index, record, None, End::failed(Reason::PodLost, message));
                } else {
                    self.withdraw(index, record);
                }
            }
            (Some(pod), _) => self.watch_over(index, record, pod),
            (None, _) if !record.permit => self.withdraw(index, record),
            (None, Some(refusal)) => self.refused(index, record, refusal),
            (None, None) => self.start(index, record),
        }
    }

    /// The Pod is there: is it over, stuck, or at work?
    fn watch_over(&mut self, index: usize, record: &Record, pod: &Pod) {
        let limit = SignedDuration::from_secs(self.spec.map_or(600, |s| s.device_seconds));
        if pod.over(self.now) {
            return self.end(index, record, Some(pod), attempt::end(pod));
        }
        if let Some(since) = pod.terminal_since {
            self.plan.look_again_at(since + crate::facts::SILENT_END_GRACE);
        }
        if let Some(since) = pod.deleting {
            let lost_at = since + NODE_LOST_AFTER;
            if self.now >= lost_at {
                let message =
                    format!("the flash Pod {} does not go away; is its node gone?", pod.name);
                return self.end(index, record, Some(pod), End::failed(Reason::NodeLost, message));
            }
            self.plan.look_again_at(lost_at);
            return self.waits(
                record,
                State::Flashing,
                "the flash Pod is being ended",
                Some(since),
            );
        }
        if let crate::facts::Container::Running(since) = pod.container {
            let since = since.unwrap_or(pod.created);
            let overdue_at = since + limit + OVERDUE;
            if self.now >= overdue_at {
                let message = format!("the flash Pod {} ran past its deadline", pod.name);
                return self.end(index, record, Some(pod), End::failed(Reason::Timeout, message));
            }
            self.plan.look_again_at(overdue_at);
            return self.waits(record, State::Flashing, "the flash Pod is at work", Some(since));
        }
        if !record.permit && !pod.started() {
            // Its permit was withdrawn, so it cannot start: end it and count nothing.
            self.plan.deletes.push(crate::plan::Deletion {
                target: record.target.clone(),
                kind: crate::plan::Kind::Pod(record.attempt),
                name: pod.name.clone(),
                uid: pod.uid.clone(),
            });
            return self.waits(record, State::Starting, "settling what an earlier run began", None);
        }
        let give_up_at = pod.created + limit;
        let why = attempt::why_not_started(pod);
        if self.now >= give_up_at {
            return self.end(index, record, Some(pod), End::failed(Reason::NotStarted, why));
        }
        self.plan.look_again_at(give_up_at);
        self.waits(record, State::Starting, &why, Some(pod.created));
    }

    /// The permit is acknowledged and nothing has been sent yet: make the Pod when everything is as it should be.
    fn start(&mut self, index: usize, record: &Record) {
        let Some(spec) = self.spec.filter(|s| !s.suspend) else {
            return self.waits(record, State::Pending, "the job is held", None);
        };
        let instance = match self.find(record) {
            Ok(instance) => instance,
            Err(missing) => return self.missing(index, record, missing),
        };
        if let Some(end) = wrong_board(spec, instance) {
            return self.end(index, record, None, end);
        }
        let service = self.view.children.get(&record.target).and_then(|c| c.service.here());
        let Some(address) = service.and_then(|s| s.address.as_ref()) else {
            // The Service went away under us; begin again with a new one.
            return self.withdraw(index, record);
        };
        if self.slots == 0 {
            return self.waits(record, State::Pending, "waiting for a free slot", None);
        }
        self.slots -= 1;
        let address = spec.external_ip.as_ref().unwrap_or(address);
        let object = Box::new(pod::pod(self.view.job, spec, (index, record), instance, address));
        let (target, attempt) = (record.target.clone(), record.attempt);
        self.plan.creates.push(NewObject::Pod { target, attempt, object });
        self.waits(record, State::Starting, "the flash Pod is being made", None);
    }

    /// A device without an attempt: find it, give it an address, then a permit.
    fn prepare(&mut self, index: usize, record: &Record) {
        let none = Children::default();
        let children = self.view.children.get(&record.target).unwrap_or(&none);
        if children.pods.values().any(|slot| pod_in_use(slot, self.now)) {
            return self.waits(record, State::BackOff, "waiting for the earlier Pod to go", None);
        }
        if let Some(at) = record.retry_at.filter(|at| *at > self.now) {
            self.plan.look_again_at(at);
            let why = record.message.clone().unwrap_or_default();
            let words = format!("tried again later: {why}");
            return self.waits(record, State::BackOff, &words, record.ended);
        }
        let instance = match self.find(record) {
            Ok(instance) => instance,
            Err(missing) => return self.missing(index, record, missing),
        };
        let Some(spec) = self.spec.filter(|s| !s.suspend) else {
            return self.waits(record, State::Pending, "the job is held", None);
        };
        if let Some(end) = wrong_board(spec, instance) {
            return self.end(index, record, None, end);
        }
        let endpoint = instance.endpoint.clone();
        let Some(pinned) = &record.pinned else {
            let pinned = Pinned {
                namespace: instance.namespace.clone(),
                name: instance.name.clone(),
                endpoint,
            };
            let record = Record { pinned: Some(pinned), ..record.clone() };
            self.waits(&record, State::Pending, "found; writing that down", None);
            self.change.records.insert(index, record);
            return;
        };
        if let Some(holder) = self.view.claims.get(&pinned.endpoint) {
            let words = format!("{holder} is flashing this device");
            return self.waits(record, State::Blocked, &words, None);
        }
        let slot = &children.service;
        let mine = slot.busy || slot.here().is_some();
        if !mine && self.claimed.contains(&pinned.endpoint) {
            let words = "another entry of this job is the same device";
            return self.waits(record, State::Blocked, words, None);
        }
        match slot.here() {
            _ if slot.busy => {
                self.waits(record, State::Addressing, "waiting for its Service", None)
            }
            Some(service) if service.deleting => {
                self.waits(
                    record,
                    State::Addressing,
                    "waiting for the earlier Service to go",
                    None,
                );
            }
            Some(service) if service.address.is_some() => {
                let attempt = record.attempt + 1;
                let open = Record { attempt, open: true, permit: true, ..record.clone() };
                self.waits(&open, State::Starting, "writing its permit", None);
                self.change.records.insert(index, open);
            }
            Some(service) => {
                let since = self
                    .view
                    .addresses_moved
                    .map_or(service.created, |moved| moved.max(service.created));
                let give_up_at = since + SignedDuration::from_secs(spec.address_seconds);
                if self.now >= give_up_at {
                    let message = format!(
                        "Service {} got no address in {} s; is there a load balancer with a free address?",
                        service.name, spec.address_seconds
                    );
                    return self.end(
                        index,
                        record,
                        None,
                        End::failed(Reason::AddressTimeout, message),
                    );
                }
                self.plan.look_again_at(give_up_at);
                let starved_at = service.created + STARVED_AFTER;
                if starved_at > self.now {
                    self.plan.look_again_at(starved_at);
                }
                let since = Some(service.created);
                self.waits(record, State::Addressing, "waiting for an address", since);
            }
            None => self.make_service(index, record, spec, instance, slot.refused.as_ref()),
        }
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
        if self.starved || self.services_ahead == 0 {
            return self.waits(record, State::Pending, "not its turn yet", None);
        }
        self.services_ahead -= 1;
        self.claimed.insert(instance.endpoint.clone());
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
        let limit = SignedDuration::from_secs(self.spec.map_or(600, |s| s.device_seconds));
        refusal.definite.then(|| refusal.since + limit)
    }

    /// The API server did not take an object: again later, and in the end not at all. This is no attempt.
    fn refused(&mut self, index: usize, record: &Record, refusal: &Refusal) {
        if let Some(at) = self.gives_up_at(refusal) {
            if self.now >= at {
                let reason =
                    if refusal.conflict { Reason::NameConflict } else { Reason::CreateRefused };
                return self.end(index, record, None, End::failed(reason, refusal.message.clone()));
            }
            self.plan.look_again_at(at);
        }
        if self.now < refusal.retry_at {
            self.plan.look_again_at(refusal.retry_at);
            return self.waits(record, State::BackOff, &refusal.message, Some(refusal.since));
        }
        self.start(index, record);
    }

    /// Finds the device's Instance, or says what is missing.
    fn find(&self, record: &Record) -> Result<&'a Instance, Missing> {
        let Some(instances) = self.view.instances else { return Err(Missing::Unknown) };
        if let Some(pinned) = &record.pinned {
            return instances
                .find_again(&pinned.namespace, &pinned.name, &pinned.endpoint)
                .ok_or(Missing::Offline);
        }
        let own = &self.view.job.namespace;
        let reachable = |n: &str| self.view.settings.device_namespaces.allows(own, n);
        match instances.find(&record.device, own, reachable) {
            Found::One(instance) if instance.deleting => Err(Missing::Offline),
            Found::One(instance) if instance.endpoint.is_empty() => Err(Missing::NoEndpoint),
            Found::One(instance) => Ok(instance),
            Found::Nothing => Err(Missing::Offline),
            Found::Several(paths) => Err(Missing::Several(paths.join(", "))),
        }
    }

    fn missing(&mut self, index: usize, record: &Record, missing: Missing) {
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
            Missing::Offline => "no Akri Instance for this device now",
            Missing::NoEndpoint => "its Akri Instance has no HOST_ENDPOINT",
        };
        let limit = self.spec.map_or(300, |s| s.offline_seconds);
        let give_up_at = record.turn + SignedDuration::from_secs(limit);
        let held = self.spec.is_none_or(|s| s.suspend);
        if self.now >= give_up_at && !held {
            let message = format!("{words}, and none for {limit} s");
            return self.end(index, record, None, End::failed(Reason::DeviceNotFound, message));
        }
        if !held {
            self.plan.look_again_at(give_up_at);
        }
        self.waits(record, State::Offline, words, Some(record.turn));
    }

    /// The attempt never reached the board: close it, count nothing. Its number is used up.
    fn withdraw(&mut self, index: usize, record: &Record) {
        let closed = Record { open: false, permit: false, ..record.clone() };
        self.waits(record, State::Starting, "beginning anew", None);
        self.change.records.insert(index, closed);
    }

    /// Records the end of an attempt, or of the device's whole way.
    fn end(&mut self, index: usize, record: &Record, pod: Option<&Pod>, end: End) {
        let message = ledger::message(&end.message);
        let mut next = Record {
            open: false,
            permit: false,
            retry_at: None,
            ended: Some(self.now),
            reason: end.reason.map(|r| r.as_str().to_owned()),
            message: Some(message.clone()).filter(|m| !m.is_empty()),
            ..record.clone()
        };
        // Only an attempt whose Pod was made counts, and only such a one is made again.
        let made = record.open && (pod.is_some() || end.reason == Some(Reason::PodLost));
        let failed = made && end.outcome == Outcome::Failed;
        next.tries += u32::from(failed);
        let limit = self.spec.map_or(2, |s| s.retry_limit);
        if failed && end.reason.is_some_and(Reason::is_retried) && next.tries <= limit {
            let first = self.spec.map_or(10, |s| s.backoff_seconds);
            let doubled = first.saturating_mul(1 << next.tries.saturating_sub(1).min(10));
            let pause = SignedDuration::from_secs(doubled.min(LONGEST_BACKOFF_SECONDS));
            next.retry_at = Some(self.now + pause);
            next.turn = self.now + pause;
        } else {
            next.outcome = Some(end.outcome);
        }
        if made {
            self.plan.ended.push(AttemptEnd {
                index,
                device: record.device.clone(),
                endpoint: record.pinned.as_ref().map(|p| p.endpoint.clone()).unwrap_or_default(),
                attempt: record.attempt,
                result: end.result().to_owned(),
                message,
                seconds: pod.map(|p| self.now.duration_since(p.created).as_secs()),
            });
        }
        self.waits(record, State::Recording, "writing down its result", Some(self.now));
        self.change.records.insert(index, next);
    }

    /// Notes where a device is that has no result yet.
    fn waits(&mut self, record: &Record, state: State, why: &str, since: Option<Timestamp>) {
        let children = self.view.children.get(&record.target);
        let address = children.and_then(|c| c.service.here()).and_then(|s| s.address.clone());
        let (count, name) = {
            let counts = &mut self.summary.counts;
            match state {
                State::Pending => (&mut counts.pending, "Pending"),
                State::Offline => (&mut counts.offline, "Offline"),
                State::Blocked => (&mut counts.blocked, "Blocked"),
                State::Addressing => (&mut counts.waiting, "Addressing"),
                State::BackOff => (&mut counts.waiting, "BackOff"),
                State::Starting => (&mut counts.flashing, "Starting"),
                State::Flashing => (&mut counts.flashing, "Flashing"),
                State::Recording => (&mut counts.flashing, "Recording"),
            }
        };
        *count += 1;
        let claims = record.open || children.is_some_and(|c| in_use(c, self.now));
        if let Some(pinned) = record.pinned.as_ref()
            && (claims || matches!(state, State::Addressing))
        {
            self.plan.claims.push(pinned.endpoint.clone());
        }
        // Devices whose turn has not come are counted, not listed.
        let listed = !matches!(state, State::Pending) || record.open;
        if !listed || self.summary.in_flight.len() >= status::SHOWN {
            return;
        }
        let pinned = record.pinned.as_ref();
        self.summary.in_flight.push(InFlight {
            uuid: record.device.clone(),
            instance: pinned.map(|p| format!("{}/{}", p.namespace, p.name)),
            host_endpoint: pinned.map(|p| p.endpoint.clone()),
            external_ip: address,
            state: name.to_owned(),
            message: Some(ledger::message(why)).filter(|m| !m.is_empty()),
            attempt: i32::try_from(record.attempt).unwrap_or(i32::MAX),
            since: since.map(Time),
        });
    }

    /// Writes down when the last device got its result, with that result where one ConfigMap holds both.
    pub fn record_completion(&mut self) {
        let final_now = |(index, record): (usize, &Record)| {
            let next = self.change.records.get(&index).unwrap_or(record);
            next.dropped || next.outcome.is_some()
        };
        let in_one_write = self.ledger.shards() == 1 || self.change.records.is_empty();
        let header = self.change.header.as_ref().unwrap_or(&self.ledger.header);
        let all_final = self.ledger.records.iter().enumerate().all(final_now)
            && self.change.records.keys().all(|index| *index < self.ledger.records.len());
        let completed = match header.completed {
            None if all_final && in_one_write => Some(self.now),
            Some(_) if !all_final => None,
            unchanged => unchanged,
        };
        if completed != header.completed {
            let mut header = header.clone();
            header.completed = completed;
            self.change.header = Some(header);
        }
    }

    /// What came of it.
    pub fn into_plan(self) -> Plan {
        let mut plan = self.plan;
        let settled = self.change.is_empty();
        let job_status = status::of_job(self.view.job, self.ledger, self.summary);
        plan.finished = settled && job_status.completion_time.is_some();
        plan.status = Some(job_status);
        plan.claims.sort();
        plan.claims.dedup();
        if !settled {
            plan.ledger = LedgerPlan::Update(self.change);
        }
        plan
    }
}

enum Missing {
    Unknown,
    Offline,
    NoEndpoint,
    Several(String),
}

/// The board guard: firmware for one type of board never reaches another.
fn wrong_board(spec: &Spec, instance: &Instance) -> Option<End> {
    let wanted = spec.device.as_ref()?;
    let plain = |text: &str| text.replace(['-', '_'], "").to_lowercase();
    if plain(wanted) == plain(&instance.device) {
        return None;
    }
    let what =
        if instance.device.is_empty() { "a board of unknown type" } else { &instance.device };
    let message = format!("the firmware is for {wanted}, this device is {what}");
    Some(End::failed(Reason::WrongDevice, message))
}

/// A slot of maxParallel is held from sending the Pod until the end of its container is seen.
fn holds_slot(children: &Children, attempt: u32, now: Timestamp) -> bool {
    children.pods.get(&attempt).is_some_and(|slot| pod_in_use(slot, now))
}

fn pod_in_use(slot: &Slot<Pod>, now: Timestamp) -> bool {
    slot.busy || slot.here().is_some_and(|pod| !pod.over(now))
}

fn in_use(children: &Children, now: Timestamp) -> bool {
    let service = &children.service;
    service.busy
        || service.here().is_some()
        || children.pods.values().any(|slot| pod_in_use(slot, now))
}
