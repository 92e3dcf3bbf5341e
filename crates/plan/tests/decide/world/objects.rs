//! The objects of the world: they are made, change and go, and every time a watch shows it. When one leaves the watch, a
//! live read finds nothing.

use flashjob_plan::flashjob::children::{Child, Owner};
use flashjob_plan::flashjob::facts::{Container, Pod, PodPhase, Service};
use flashjob_plan::flashjob::ids::Target;
use flashjob_plan::flashjob::names;
use flashjob_plan::flashjob::{Kind, NewObject};

use super::World;

impl World {
    /// An object is made, as a plan asks for it: never a Pod beside another that is at work.
    pub fn create(&mut self, object: NewObject) {
        if let NewObject::Pod { target, .. } = &object {
            let now = self.now;
            let pods = self.children().get(target).into_iter().flat_map(|c| c.pods.values());
            let mut at_work =
                pods.filter_map(|slot| slot.here()).filter(|p| p.started() && !p.over(now));
            assert!(at_work.next().is_none(), "two Pods for one target");
        }
        self.arrive(object);
    }

    /// The same, whatever else is there: a write that was on its way for long.
    pub fn arrive(&mut self, object: NewObject) {
        let uid = format!("uid-{}", self.version + 1);
        match object {
            NewObject::Service { target, object } => {
                let name = object.metadata.name.unwrap();
                let labels = object.metadata.labels.unwrap();
                let node_port = object.spec.unwrap().type_.as_deref() == Some("NodePort");
                let address = (self.addresses && !node_port).then(|| format!("address-of-{name}"));
                let (spec_hash, pool) =
                    (labels[names::SPEC_HASH].clone(), labels[names::POOL].clone());
                let made = Service {
                    name,
                    uid,
                    address,
                    spec_hash,
                    pool,
                    node_port,
                    ..Service::default()
                };
                self.see_service(target, made);
            }
            NewObject::Pod { target, attempt, object, .. } => {
                let made = Pod {
                    version: 0,
                    name: object.metadata.name.clone().unwrap(),
                    uid,
                    endpoint: env(&object, "HOST_ENDPOINT").into(),
                    first_seen: self.now,
                    deleting: None,
                    phase: PodPhase::Pending,
                    container: Container::Waiting(None),
                    reason: None,
                    note: None,
                    terminal_since: None,
                };
                self.see_pod(target, attempt, made);
            }
        }
    }

    /// A watch shows what has become of a Service.
    pub fn see_service(&mut self, target: Target, facts: Service) {
        self.version += 1;
        let pool = facts.pool.clone();
        let child = self.child(target, 0, Service { version: self.version, ..facts });
        if self.index.see_service(child, self.now) {
            self.waits.given(&self.job.namespace, &pool, self.now);
        }
    }

    /// A watch shows what has become of a Pod.
    pub fn see_pod(&mut self, target: Target, attempt: u32, facts: Pod) {
        self.version += 1;
        let child = self.child(target, attempt, Pod { version: self.version, ..facts });
        self.index.see_pod(child, self.now);
    }

    /// Whether something has this object's name already.
    pub fn is_there(&self, object: &NewObject) -> bool {
        let (NewObject::Service { target, .. } | NewObject::Pod { target, .. }) = object;
        self.children().get(target).is_some_and(|children| match object {
            NewObject::Service { .. } => children.service.here().is_some(),
            NewObject::Pod { attempt, .. } => children.pods.contains_key(attempt),
        })
    }

    /// Every Pod that is there, with its target and attempt.
    pub fn pods(&self) -> Vec<(Target, u32, Pod)> {
        let slots = self.children().iter().flat_map(|(target, children)| {
            children.pods.iter().map(|(attempt, slot)| (*target, *attempt, slot))
        });
        let there = slots.filter_map(|(target, n, slot)| Some((target, n, slot.here()?.clone())));
        let mut pods: Vec<_> = there.collect();
        pods.sort_by_key(|(target, attempt, _)| (*target, *attempt));
        pods
    }

    /// Pods whose end was asked for are gone.
    pub fn let_go(&mut self) {
        for (target, attempt, _) in self.pods().iter().filter(|(.., p)| p.deleting.is_some()) {
            self.lose_pod(*target, *attempt);
        }
    }

    /// Somebody deletes a Pod.
    pub fn vanish(&mut self, which: usize) {
        if let Some((target, attempt, _)) = self.pods().get(which) {
            self.lose_pod(*target, *attempt);
        }
    }

    /// A Service leaves the watch, and a live read does not find it.
    pub fn lose_service(&mut self, target: Target) {
        let facts = self.children()[&target].service.here().unwrap().clone();
        if facts.address.is_some() {
            self.waits.given_back(&self.job.namespace, &facts.pool, self.now);
        }
        let child = self.child(target, 0, facts);
        if let Some(unconfirmed) = self.index.service_left(&child) {
            self.index.service_checked(&unconfirmed, None);
        }
    }

    /// A Pod leaves the watch, and a live read does not find it.
    pub fn lose_pod(&mut self, target: Target, attempt: u32) {
        let facts = self.children()[&target].pods[&attempt].here().unwrap().clone();
        let child = self.child(target, attempt, facts);
        if let Some(unconfirmed) = self.index.pod_left(&child, self.now) {
            self.index.pod_checked(&unconfirmed, attempt, None);
        }
    }

    fn child<T>(&self, target: Target, attempt: u32, facts: T) -> Child<T> {
        Child { owner: Owner::of(&self.job), target, attempt, facts }
    }

    /// The Pod of a device's last attempt.
    pub fn pod(&self, device: &str) -> Pod {
        let record = self.record(device);
        self.children()[&record.target].pods[&record.attempt].here().unwrap().clone()
    }

    /// Something happens to the Pod of a device's last attempt.
    fn change_pod(&mut self, device: &str, change: impl FnOnce(Pod) -> Pod) {
        let record = self.record(device);
        let (target, attempt) = (record.target, record.attempt);
        let changed = change(self.pod(device));
        self.see_pod(target, attempt, changed);
    }

    /// Somebody deletes the Pod of a device's last attempt.
    pub fn loses_pod(&mut self, device: &str) {
        let record = self.record(device);
        self.lose_pod(record.target, record.attempt);
    }

    /// Nobody knows of the Pod of a device's last attempt: its create was lost.
    pub fn forget_pod(&mut self, device: &str) {
        let record = self.record(device);
        let (target, kind) = (record.target, Kind::Pod(record.attempt));
        self.index.forget(&self.job.uid, target, kind);
    }

    /// The Service of a device.
    pub fn service(&self, device: &str) -> Service {
        self.children()[&self.record(device).target].service.here().unwrap().clone()
    }

    /// The load balancer gives a device's Service an address.
    pub fn gets_address(&mut self, device: &str) {
        let service = self.service(device);
        let address = Some(format!("address-of-{}", service.name));
        self.see_service(self.record(device).target, Service { address, ..service });
    }

    /// The flash container of a device runs.
    pub fn runs(&mut self, device: &str) {
        self.change_pod(device, started);
    }

    /// The flash container of a device ends.
    pub fn ends(&mut self, device: &str, exit_code: i32, message: &str) {
        self.change_pod(device, |pod| ended(pod, exit_code, message));
    }
}

/// A Pod whose container runs.
pub fn started(pod: Pod) -> Pod {
    Pod { phase: PodPhase::Running, container: Container::Running(None), ..pod }
}

/// A Pod whose container has ended.
pub fn ended(pod: Pod, exit_code: i32, message: &str) -> Pod {
    let phase = if exit_code == 0 { PodPhase::Succeeded } else { PodPhase::Failed };
    let message = Some(message.to_owned());
    Pod { phase, container: Container::Ended { exit_code, reason: None, message, at: None }, ..pod }
}

/// Whether its container is at work.
pub fn is_running(pod: &Pod) -> bool {
    matches!(pod.container, Container::Running(_))
}

fn env(pod: &k8s_openapi::api::core::v1::Pod, name: &str) -> String {
    let env = pod.spec.as_ref().unwrap().containers[0].env.as_ref().unwrap();
    env.iter().find(|e| e.name == name).unwrap().value.clone().unwrap()
}
