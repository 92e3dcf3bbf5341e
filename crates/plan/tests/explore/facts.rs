//! What the operator knows of the objects of the small world: the real [`Index`], shown what has happened.
//!
//! A state of the world is small and says what was seen last; here that is told to an index as a watch would have told it.
//! When something leaves the watch, the index says whether it is gone or has to be read live, and the read finds nothing.

use flashjob_plan::flashjob::children::{Child, Owner};
use flashjob_plan::flashjob::endpoint::Endpoint;
use flashjob_plan::flashjob::facts::{self, Container, PodPhase};
use flashjob_plan::flashjob::ids::{JobUid, Target};
use flashjob_plan::flashjob::index::Index;
use flashjob_plan::flashjob::ledger::Record;
use flashjob_plan::flashjob::{Job, Kind};

use crate::operator::at;
use crate::state::{Device, Phase, Pod, Real, Service, Write};

/// One device's part of an index.
pub struct Known<'a> {
    index: &'a mut Index,
    owner: Owner,
    target: Target,
    board: Endpoint,
}

impl Known<'_> {
    /// That of this device of a job.
    pub fn of<'a>(index: &'a mut Index, job: &Job, record: &Record) -> Known<'a> {
        let board = record.pinned.as_ref().map(|p| p.endpoint.clone()).unwrap_or_default();
        Known { index, owner: Owner::of(job), target: record.target, board }
    }

    /// All that the operator knows of the device's objects.
    pub fn tell(&mut self, device: &Device, spec_hash: &str) {
        self.tell_service(device.service, spec_hash);
        for pod in &device.pods {
            self.tell_pod(pod);
        }
    }

    fn tell_service(&mut self, service: Service, spec_hash: &str) {
        let (uid, kind) = (self.owner.uid.clone(), Kind::Service);
        let made = match service {
            Service::None => return,
            Service::Sent => return self.index.set_busy(&uid, self.target, kind, true),
            Service::Bare(made) => made,
            Service::Ready | Service::Ending | Service::Gone => 0,
        };
        let address = (!matches!(service, Service::Bare(_))).then(|| "192.0.2.1".to_owned());
        let facts = facts::Service {
            version: 1,
            name: "service".into(),
            uid: "service".into(),
            spec_hash: spec_hash.to_owned(),
            address,
            ..facts::Service::default()
        };
        let child = self.child(0, facts);
        self.index.see_service(child.clone(), at(made));
        if matches!(service, Service::Ending | Service::Gone) {
            self.index.deleting(&uid, self.target, kind, "service");
        }
        if service == Service::Gone {
            self.index.set_busy(&uid, self.target, kind, false);
            if let Some(unconfirmed) = self.index.service_left(&child) {
                self.index.service_checked(&unconfirmed, None);
            }
        }
    }

    fn tell_pod(&mut self, pod: &Pod) {
        let attempt = pod.attempt.into();
        if let Some(seen) = pod.seen {
            self.see(attempt, seen);
            if pod.gone {
                self.leave(attempt, seen);
            }
        }
        if pod.write != Write::None {
            self.index.set_busy(&self.owner.uid, self.target, Kind::Pod(attempt), true);
        }
    }

    /// A watch has shown all of a Pod's life until now.
    fn see(&mut self, attempt: u32, pod: Real) {
        let began = Real { phase: Phase::Waiting, deleting: None, ..pod };
        self.index.see_pod(self.child(attempt, pod_facts(began, &self.board)), at(pod.created));
        if pod.phase != Phase::Waiting {
            let runs = Real { phase: Phase::Running, ..began };
            self.index.see_pod(self.child(attempt, pod_facts(runs, &self.board)), at(pod.running));
        }
        let now = pod.deleting.unwrap_or(pod.running);
        self.index.see_pod(self.child(attempt, pod_facts(pod, &self.board)), at(now));
    }

    /// A Pod leaves the watch, and a live read does not find it.
    fn leave(&mut self, attempt: u32, seen: Real) {
        let child = self.child(attempt, pod_facts(seen, &self.board));
        if let Some(unconfirmed) = self.index.pod_left(&child, at(seen.created)) {
            self.index.pod_checked(&unconfirmed, attempt, None);
        }
    }

    fn child<T>(&self, attempt: u32, facts: T) -> Child<T> {
        Child { owner: self.owner.clone(), target: self.target, attempt, facts }
    }
}

/// The operator sees a Pod as it is, or that it has left: what it knows then.
pub fn learn(pod: &mut Pod) {
    let mut index = Index::default();
    let owner = Owner { uid: JobUid::from("job"), namespace: String::new(), name: String::new() };
    let target = Target::read("000000000000").unwrap();
    let mut known = Known { index: &mut index, owner, target, board: Endpoint::default() };
    known.tell_pod(pod);
    let attempt = pod.attempt.into();
    match (pod.real, pod.seen) {
        (Some(real), _) => known.see(attempt, real),
        (None, Some(seen)) => known.leave(attempt, seen),
        (None, None) => return,
    }
    let slot = &index.children(&"job".into())[&target].pods[&attempt];
    pod.gone = slot.gone;
    let version = slot.seen.as_ref().map(|seen| seen.version);
    pod.seen = [pod.real, pod.seen].into_iter().flatten().find(|p| Some(version_of(*p)) == version);
}

/// Later states of a Pod, and later Pods of a name, have higher ones.
fn version_of(pod: Real) -> u64 {
    let phase = match pod.phase {
        Phase::Waiting => 1,
        Phase::Running => 2,
        Phase::Well | Phase::Badly => 3,
    };
    u64::from(pod.uid) * 8 + phase * 2 + u64::from(pod.deleting.is_some())
}

fn pod_facts(pod: Real, board: &Endpoint) -> facts::Pod {
    let ended = |exit_code| Container::Ended { exit_code, reason: None, message: None, at: None };
    let (phase, container) = match pod.phase {
        Phase::Waiting => (PodPhase::Pending, Container::Waiting(None)),
        Phase::Running => (PodPhase::Running, Container::Running(None)),
        Phase::Well => (PodPhase::Succeeded, ended(0)),
        Phase::Badly => (PodPhase::Failed, ended(1)),
    };
    facts::Pod {
        version: version_of(pod),
        name: "pod".into(),
        uid: pod.uid.to_string(),
        endpoint: board.clone(),
        first_seen: at(pod.created),
        deleting: pod.deleting.map(at),
        phase,
        container,
        reason: None,
        note: None,
        terminal_since: None,
    }
}
