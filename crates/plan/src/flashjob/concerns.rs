//! Which Instances a job has to do with: when one of them comes, changes or goes, that job is reconciled, and no other.
//!
//! A cluster may have thousands of Instances that change all the time and hundreds of jobs that wait. Only the hashes of
//! names and addresses are kept: two that are the same by chance cost one reconcile too many.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::flashjob::facts::Job;
use crate::flashjob::instances::Instance;
use crate::flashjob::ledger::Record;

/// What an Instance may be known by: its uid, its path, its name, and the address of its board.
pub struct Marks([u64; 4]);

impl Marks {
    /// Those of this Instance.
    pub fn of(instance: &Instance) -> Marks {
        let Instance { uid, namespace, name, endpoint, .. } = instance;
        Marks([mark(uid), path(namespace, name), mark(name), mark(endpoint.board().as_str())])
    }
}

/// The Instances that the records of one job speak of.
#[derive(Clone, Debug, Default)]
pub struct Concerns(HashSet<u64>);

impl Concerns {
    /// Takes in what one record of the job's ledger speaks of. What an earlier form of it spoke of stays.
    pub fn learn(&mut self, record: &Record) {
        match &record.pinned {
            Some(pinned) => self.0.extend([
                path(&pinned.namespace, &pinned.name),
                // A device is also found again by its address, and two Instances of one address are one device.
                mark(pinned.endpoint.board().as_str()),
            ]),
            // As the user wrote it: a uid, a path or a name.
            None => self.0.extend([mark(&record.device)]),
        }
    }

    /// Whether the job has to be reconciled when this Instance is there now, or was.
    pub fn touch(&self, job: &Job, instance: &Instance, marks: &Marks) -> bool {
        let selector = job.spec.as_ref().ok().and_then(|spec| spec.selector.as_ref());
        // A job without devices waits for one that fits. Once it has some, the choice is made anew only when it is edited.
        let awaited = self.0.is_empty() && selector.is_some_and(|s| s.matches(instance));
        awaited || marks.0.iter().any(|mark| self.0.contains(mark))
    }
}

fn path(namespace: &str, name: &str) -> u64 {
    mark(&format!("{namespace}/{name}"))
}

fn mark(text: &str) -> u64 {
    let mut hash = DefaultHasher::new();
    text.hash(&mut hash);
    hash.finish()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::flashjob::facts::Settings;
    use crate::flashjob::ledger::Pinned;

    fn instance(name: &str, endpoint: &str) -> Instance {
        Instance {
            uid: format!("uid-of-{name}"),
            namespace: "site".into(),
            name: name.into(),
            endpoint: endpoint.into(),
            device: "esp32".into(),
            ..Instance::default()
        }
    }

    fn job(spec: serde_json::Value) -> Job {
        let mut full = json!({ "firmware": "f", "version": "1", "flashjobPodImage": "i" });
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        Job::read(&Default::default(), &full, &Settings::default())
    }

    fn record(device: &str, pinned: Option<&Instance>) -> Record {
        let pinned = pinned.map(|i| Pinned {
            namespace: i.namespace.clone(),
            name: i.name.clone(),
            endpoint: i.endpoint.clone(),
        });
        Record { pinned, ..Record::new(&"uid".into(), device, "revision", Timestamp::UNIX_EPOCH) }
    }

    fn touch(concerns: &Concerns, job: &Job, instance: &Instance) -> bool {
        concerns.touch(job, instance, &Marks::of(instance))
    }

    #[test]
    fn a_device_that_was_not_found_yet_is_waited_for_under_each_of_its_names() {
        let (job, board) = (job(json!({ "uuid": ["x"] })), instance("x", "192.0.2.11"));
        for written in ["x", "site/x", "uid-of-x"] {
            let mut concerns = Concerns::default();
            concerns.learn(&record(written, None));
            assert!(touch(&concerns, &job, &board), "{written}");
            assert!(!touch(&concerns, &job, &instance("y", "192.0.2.12")), "{written}");
        }
    }

    #[test]
    fn a_device_that_was_found_is_known_by_its_path_and_its_address() {
        let (job, board) = (job(json!({ "uuid": ["x"] })), instance("x", "192.0.2.11"));
        let mut concerns = Concerns::default();
        concerns.learn(&record("x", Some(&board)));
        assert!(touch(&concerns, &job, &instance("x", "192.0.2.12")), "it has moved");
        assert!(touch(&concerns, &job, &instance("y", "192.0.2.11")), "another name for it");
        assert!(!touch(&concerns, &job, &instance("y", "192.0.2.12")));
    }

    #[test]
    fn a_selector_waits_for_what_fits_until_it_has_chosen() {
        let job = job(json!({ "deviceSelector": { "device": "esp32" } }));
        let mut concerns = Concerns::default();
        let other = Instance { device: "esp32c3".into(), ..instance("c", "192.0.2.13") };
        assert!(touch(&concerns, &job, &instance("x", "192.0.2.11")));
        assert!(!touch(&concerns, &job, &other));
        concerns.learn(&record("site/x", Some(&instance("x", "192.0.2.11"))));
        assert!(!touch(&concerns, &job, &instance("y", "192.0.2.12")), "it has chosen");
    }
}
