//! Ends every object that no open attempt needs. An attempt stays open until its result is acknowledged, so nothing here
//! is ended before its result is safe.

use flashjob_api::flashjob::ServiceType;

use crate::flashjob::in_use::pod_in_use;
use crate::flashjob::ledger::Record;
use crate::flashjob::plan::{Deletion, Kind};
use crate::flashjob::round::Round;

impl Round<'_> {
    /// Plans the end of what is not needed any more.
    pub(crate) fn clean_up(&mut self) {
        let children = self.view.children;
        for (target, children) in children {
            let record = self.at_hand.get(target).copied();
            for (attempt, slot) in &children.pods {
                let wanted = record.is_some_and(|r| r.is_open() && r.attempt == *attempt);
                if wanted || slot.busy {
                    continue;
                }
                match slot.here() {
                    Some(pod) if pod.deleting.is_none() => {
                        self.plan.deletes.push(Deletion::of_pod(*target, *attempt, pod));
                    }
                    Some(_) => {}
                    None => self.plan.forget.push((*target, Kind::Pod(*attempt))),
                }
            }
            let slot = &children.service;
            // Its address goes to nobody else while a board may still dial it.
            let at_work = children.pods.values().any(|pod| pod_in_use(pod, self.now));
            if slot.busy || at_work || record.is_some_and(|r| self.needs_service(r)) {
                continue;
            }
            match slot.here() {
                Some(service) if service.deleting.is_none() => {
                    self.plan.deletes.push(Deletion::of_service(*target, service));
                }
                Some(_) => {}
                None => self.plan.forget.push((*target, Kind::Service)),
            }
        }
    }

    /// Whether a device keeps its Service: through its attempts, and between them if nobody else is waiting for what the
    /// Service holds.
    fn needs_service(&self, record: &Record) -> bool {
        let current = record.revision == self.ledger.header.revision;
        let due = record.outcome().is_none() && !record.dropped && current;
        if record.is_open() || !due {
            return record.is_open();
        }
        let Some(spec) = self.active() else { return false };
        let (locks, job) = (self.view.locks, &self.view.job.uid);
        let shared = record.pinned.as_ref().is_some_and(|p| locks.is_shared(job, &p.endpoint));
        let others_wait = self.queued || shared || spec.access.kind == ServiceType::NodePort;
        let waits_long = self.is_in_back_off(record) || (record.tries() == 0 && !self.room);
        !(waits_long && others_wait)
    }
}
