//! From the board to the permit: the device is given an address that its board can dial, and then allowed to be flashed.

use flashjob_api::flashjob::{DeviceState, Reason, ServiceType};
use jiff::Timestamp;

use crate::flashjob::end::End;
use crate::flashjob::facts::{Refusal, Service, Slot};
use crate::flashjob::instances::Instance;
use crate::flashjob::ledger::{self, Record};
use crate::flashjob::locks::Lock;
use crate::flashjob::plan::{Deletion, NewObject};
use crate::flashjob::round::Round;
use crate::flashjob::service;
use crate::flashjob::spec::Spec;
use crate::flashjob::step::{Action, Step, Wait};
use crate::flashjob::waiting;
use crate::time::after;

/// How long a Service may take to go before nobody is believed to serve its finalizers.
const SERVICE_STUCK_SECONDS: i64 = 300;

impl Round<'_> {
    /// The board is ours to take: is there an address for it to dial?
    pub(crate) fn reach(
        &mut self,
        index: usize,
        record: &Record,
        spec: &Spec,
        instance: &Instance,
        slot: &Slot<Service>,
    ) -> Step {
        let ready = spec.access.address(slot.here()).is_some();
        match slot.here() {
            _ if slot.busy => Wait::new(DeviceState::Addressing, "waiting for its Service").into(),
            Some(Service { deleting: Some(since), name, .. }) => {
                self.wait_for_service_to_go(index, record, name, *since)
            }
            Some(service) if service.spec_hash != spec.access.spec_hash => {
                let why = "the job asks for another Service by now";
                let deletion = Deletion::of_service(record.target, service);
                Wait::new(DeviceState::Addressing, why).then(Action::Delete(deletion))
            }
            Some(_) if ready => self.permit(record, instance),
            Some(service) => self.wait_for_address(index, record, spec, service),
            None if ready && self.ahead == 0 => not_its_turn(),
            None if ready => {
                self.ahead -= 1;
                self.permit(record, instance)
            }
            None => self.make_service(index, record, spec, instance, slot.refused.as_ref()),
        }
    }

    /// Everything is there: the next attempt may begin as soon as the ledger says so.
    fn permit(&mut self, record: &Record, instance: &Instance) -> Step {
        let found = || Some(ledger::message(&instance.version));
        let previous = record.previous.clone().or_else(found);
        let open = record.opened(previous, self.spec.map(|spec| spec.device_seconds));
        self.lock_board(record);
        Wait::new(DeviceState::Starting, "writing its permit").then(Action::Advance(open))
    }

    fn wait_for_service_to_go(
        &self,
        index: usize,
        record: &Record,
        name: &str,
        since: Timestamp,
    ) -> Step {
        let stuck_at = after(since, SERVICE_STUCK_SECONDS);
        if self.now >= stuck_at {
            let message = format!(
                "the earlier Service {name} does not go away; does somebody serve its finalizers? The board stays locked \
                 until it is gone"
            );
            return self.end(index, record, None, End::failed(Reason::ServiceStuck, message));
        }
        let why = format!("waiting for the earlier Service {name} to go");
        Wait::new(DeviceState::Addressing, why).since(since).until(stuck_at).into()
    }

    fn wait_for_address(
        &self,
        index: usize,
        record: &Record,
        spec: &Spec,
        service: &Service,
    ) -> Step {
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
        let wait = Wait::new(DeviceState::Addressing, spec.access.awaited());
        wait.since(service.first_seen).until(give_up_at).into()
    }

    fn make_service(
        &mut self,
        index: usize,
        record: &Record,
        spec: &Spec,
        instance: &Instance,
        refusal: Option<&Refusal>,
    ) -> Step {
        if let Some(refusal) = refusal.filter(|r| self.keeps_waiting(r)) {
            return self.refused(index, record, refusal);
        }
        if self.ahead == 0 {
            return not_its_turn();
        }
        match spec.access.kind {
            ServiceType::LoadBalancer if self.starved.is_some() => {
                let wait = Wait::new(DeviceState::Pending, "other Services wait for an address");
                return Wait { starved: true, ..wait }.into();
            }
            ServiceType::NodePort if self.node_port_taken => {
                let why = "another device of this job has node port 4433";
                return Wait::new(DeviceState::Pending, why).into();
            }
            ServiceType::NodePort => {
                self.node_port_wanted = true;
                let (locks, job) = (self.view.locks, &self.view.job.uid);
                if let Some(other) = locks.in_the_way(job, &Lock::NodePort, |_| true) {
                    let why = format!("{other} comes first with node port 4433");
                    return Wait::new(DeviceState::Pending, why).into();
                }
                self.node_port_taken = true;
            }
            _ => {}
        }
        self.ahead -= 1;
        self.lock_board(record);
        let object = service::service(self.view.job, spec, record.target, &instance.uid);
        let object = NewObject::Service { target: record.target, object: Box::new(object) };
        Wait::new(DeviceState::Addressing, "waiting for its Service").then(Action::Create(object))
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
    pub(crate) fn refused(&self, index: usize, record: &Record, refusal: &Refusal) -> Step {
        let reason = if refusal.conflict { Reason::NameConflict } else { Reason::CreateRefused };
        let give_up_at = self.gives_up_at(refusal);
        if give_up_at.is_some_and(|at| self.now >= at) {
            let end = End::failed(reason, refusal.message.clone());
            return self.end(index, record, None, end);
        }
        let until = give_up_at.map_or(refusal.retry_at, |at| at.min(refusal.retry_at));
        // The server's no has a name; that it cannot be reached has none.
        let why = if refusal.definite {
            format!("{reason}: {}", refusal.message)
        } else {
            refusal.message.clone()
        };
        Wait::new(DeviceState::BackOff, why).since(refusal.since).until(until).into()
    }
}

fn not_its_turn() -> Step {
    Wait::new(DeviceState::Pending, "not its turn yet").into()
}
