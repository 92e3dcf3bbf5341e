//! Takes in what the watches see.

use std::collections::HashSet;

use flashjob_plan::flashjob::children::Child;
use flashjob_plan::flashjob::concerns::{Concerns, Marks};
use flashjob_plan::flashjob::facts::{Pod, Service};
use flashjob_plan::flashjob::ids::JobUid;
use flashjob_plan::flashjob::instances::{Instance, Instances};

use super::controller::FlashJobController;
use super::foreign::Ownership;
use super::job::JobState;
use super::observe::{self, SeenJob};
use super::slim;
use super::watches::{self, Claimed, Watched};
use crate::engine::watch::WatchEvent;
use crate::process::clock;

impl FlashJobController {
    /// A watch has said something.
    pub(super) fn take_watched(&mut self, event: Watched) {
        match event {
            Watched::Job(seen) => self.take_job_event(seen),
            Watched::Instance(seen) => self.take_instance_event(seen),
            Watched::Pod(seen) => self.take_pod_event(seen),
            Watched::Service(seen) => self.take_service_event(seen),
        }
    }

    fn take_pod_event(&mut self, seen: WatchEvent<Claimed<Pod>>) {
        match seen {
            WatchEvent::Listing => self.index.listing("pods"),
            WatchEvent::There(Ok(child)) => match self.ownership(&child.owner) {
                Ownership::Child => {
                    self.enqueue(&child.owner.uid);
                    self.index.see_pod(*child, clock::now());
                }
                Ownership::Orphan => {
                    if !self.see_orphan(*child) {
                        self.context.metrics.foreign_seen("Pod");
                    }
                }
                Ownership::Foreign => self.refute("Pod", &child.owner, &child.facts.name),
            },
            WatchEvent::Left(Ok(mut child)) => match self.ownership(&child.owner) {
                Ownership::Child => {
                    self.enqueue(&child.owner.uid);
                    let unconfirmed = self.index.pod_left(&child, clock::now());
                    self.check(unconfirmed);
                }
                Ownership::Orphan => {
                    if let Some(key) = self.orphan_key(&child) {
                        child.owner.uid.clone_from(&key);
                        let unconfirmed = self.index.pod_left(&child, clock::now());
                        self.check(unconfirmed);
                        self.update_orphan_locks(&key);
                    }
                }
                Ownership::Foreign => {}
            },
            WatchEvent::Synced => {
                let unconfirmed = self.index.pods_listed();
                self.check(unconfirmed);
                self.synced("pods");
            }
            WatchEvent::There(Err(foreign)) => self.foreign("Pod", &foreign),
            WatchEvent::Left(Err(_)) => {}
        }
    }

    fn take_service_event(&mut self, seen: WatchEvent<Claimed<Service>>) {
        match seen {
            WatchEvent::Listing => self.index.listing("services"),
            WatchEvent::There(Ok(child)) => match self.ownership(&child.owner) {
                Ownership::Child => {
                    self.enqueue(&child.owner.uid);
                    self.see_service(*child);
                }
                // Holds no board, and the garbage collector takes it away.
                Ownership::Orphan => {}
                Ownership::Foreign => self.refute("Service", &child.owner, &child.facts.name),
            },
            WatchEvent::Left(Ok(child)) => {
                if self.ownership(&child.owner) == Ownership::Child {
                    self.enqueue(&child.owner.uid);
                    if child.facts.address.is_some() {
                        let (namespace, pool) = (&child.owner.namespace, &child.facts.pool);
                        self.addresses.given_back(namespace, pool, clock::now());
                    }
                    let unconfirmed = self.index.service_left(&child);
                    self.check(unconfirmed);
                }
            }
            WatchEvent::Synced => {
                let unconfirmed = self.index.services_listed();
                self.check(unconfirmed);
                self.synced("services");
            }
            WatchEvent::There(Err(foreign)) => self.foreign("Service", &foreign),
            WatchEvent::Left(Err(_)) => {}
        }
    }

    pub(super) fn see_service(&mut self, child: Child<Service>) {
        let now = clock::now();
        let (namespace, pool) = (child.owner.namespace.clone(), child.facts.pool.clone());
        let got_address = self.index.see_service(child, now);
        if got_address && self.addresses.given(&namespace, &pool, now) {
            self.enqueue_users_of(&[pool]);
        }
    }

    fn take_job_event(&mut self, seen: WatchEvent<Box<slim::FlashJob>>) {
        match seen {
            WatchEvent::Listing => self.listed_jobs = Some(HashSet::new()),
            WatchEvent::There(object) => {
                let known = object.metadata.uid.as_deref().and_then(|uid| self.jobs.get(uid));
                let known = known.map(|job| &job.seen.job);
                let seen = observe::job(*object, &self.context.settings, known);
                if let Some(listed) = &mut self.listed_jobs {
                    listed.insert(seen.job.uid.clone());
                }
                self.update_job(seen);
            }
            WatchEvent::Left(object) => self.forget_job(&JobUid::of(&object.metadata)),
            WatchEvent::Synced => {
                let listed = self.listed_jobs.take().unwrap_or_default();
                let known = self.jobs.keys().chain(self.parking.uids());
                let gone: Vec<JobUid> =
                    known.filter(|uid| !listed.contains(*uid)).cloned().collect();
                for uid in gone {
                    self.forget_job(&uid);
                }
                self.synced("flashjobs");
            }
        }
    }

    /// Takes in a job as a watch or an answer showed it, unless something newer is known.
    pub(super) fn update_job(&mut self, seen: SeenJob) {
        let uid = seen.job.uid.clone();
        match self.jobs.get_mut(&uid) {
            Some(known) if known.seen.version_number > seen.version_number => {}
            // Most of what the watch shows are statuses that were written here.
            Some(JobState { seen: known, .. })
                if known.version_number == seen.version_number && known.status == seen.status => {}
            Some(known) => {
                known.seen = seen;
                self.enqueue(&uid);
            }
            None if self.parking.owner(&uid).is_some() => self.see_parked(&uid, &seen),
            None => self.add_job(seen),
        }
    }

    /// Takes in which boards and Instances a job's ledger speaks of, and which boards it has flashed.
    pub(super) fn learn_ledger(&mut self, uid: &JobUid) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        (job.concerns, job.just_loaded, job.large_slot) = (Concerns::default(), false, None);
        if job.ledger.sealed().is_some() {
            self.locks.unpark(uid);
        }
        for record in job.ledger.sealed().iter().flat_map(|ledger| &ledger.records) {
            self.locks.learn(uid, record);
            job.concerns.learn(record);
        }
    }

    fn forget_job(&mut self, uid: &JobUid) {
        let counts = self.drop_job(uid).map(|job| job.counts).or_else(|| self.unpark(uid));
        let Some(counts) = counts else { return };
        // Boards it held are free now, unless a Pod of it is still at work.
        let turned = self.addresses.wait(uid, None, clock::now());
        self.enqueue_users_of(&turned);
        let given_up = self.locks.want(uid, Vec::new());
        self.update_orphan_locks(uid);
        if given_up {
            self.enqueue_unfinished();
        }
        self.context.metrics.devices_moved(&counts, &Default::default());
        self.context.metrics.waiting(uid, None);
    }

    fn take_instance_event(&mut self, seen: WatchEvent<Box<Instance>>) {
        match seen {
            WatchEvent::Listing => {
                if !self.synced.contains("instances") {
                    // A first list that broke off says nothing of what is there now.
                    self.instances = Instances::being_listed();
                }
                self.listed_instances = Some(HashSet::new());
            }
            WatchEvent::There(instance) => {
                if let Some(listed) = &mut self.listed_instances {
                    listed.insert((instance.namespace.clone(), instance.name.clone()));
                }
                if instance.deleting {
                    self.instances.lose(&instance.namespace, &instance.name, clock::now());
                }
                let before = self.instances.get(&instance.namespace, &instance.name).cloned();
                if before.as_ref() != Some(&*instance) {
                    self.enqueue_concerned(before.iter().chain([&*instance]));
                }
                self.instances.insert(*instance);
            }
            WatchEvent::Left(instance) => self.lose(&instance.namespace, &instance.name),
            WatchEvent::Synced => {
                let listed = self.listed_instances.take().unwrap_or_default();
                let known: Vec<(String, String)> =
                    self.instances.iter().map(|i| (i.namespace.clone(), i.name.clone())).collect();
                for (namespace, name) in known.iter().filter(|key| !listed.contains(*key)) {
                    self.lose(namespace, name);
                }
                self.instances.forget_lost(clock::now());
                self.instances.listing = false;
                self.instances.listed_at.get_or_insert_with(clock::now);
                self.synced("instances");
            }
        }
    }

    /// An Instance is gone.
    fn lose(&mut self, namespace: &str, name: &str) {
        let before = self.instances.get(namespace, name).cloned();
        self.enqueue_concerned(&before);
        self.instances.lose(namespace, name, clock::now());
        self.instances.remove(namespace, name);
    }

    /// Wakes the jobs that have to do with an Instance, as it was or as it is. During the first list none is: they are
    /// when it is complete.
    fn enqueue_concerned<'a>(&mut self, instance: impl IntoIterator<Item = &'a Instance>) {
        if !self.synced.contains("instances") {
            return;
        }
        for instance in instance {
            let marks = Marks::of(instance);
            self.enqueue_if(|job| {
                !job.finished && job.concerns.touch(&job.seen.job, instance, &marks)
            });
        }
    }

    fn synced(&mut self, kind: &'static str) {
        if self.synced.insert(kind) {
            tracing::info!(kind, "the first list is complete");
            if kind == "flashjobs" {
                watches::start_children(&self.watches);
            }
            self.start_loads();
        }
        for uid in self.index.jobs() {
            self.update_orphan_locks(&uid);
        }
        self.enqueue_all();
    }
}
