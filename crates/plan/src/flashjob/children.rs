//! Proof that an object is a part of a job.
//!
//! Anybody who may create a Pod, a Service or a ConfigMap in any namespace may write any label, owner and content into it.
//! So a label makes nobody a child. What counts is an object in the job's own namespace, controlled by that very job, with
//! our labels, and under the one name that we would give it. What only some of this is true for is [`Foreign`]: it is
//! never adopted, never deleted, and holds nobody up. (Within the job's namespace all of it can be forged; who may create
//! Pods there can flash anyway.)

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::flashjob::facts::Job;
use crate::flashjob::ids::{JobUid, Target};
use crate::flashjob::names;

/// The job that an object says it belongs to. Whether there is such a job, [`Owner::is`] tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub uid: JobUid,
    /// The job's namespace, which is that of the object.
    pub namespace: String,
    pub name: String,
}

/// What an object is to its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The Service of a target.
    Service(Target),
    /// The Pod of one attempt at a target.
    Pod(Target, u32),
    /// A ConfigMap of the ledger.
    Shard(usize),
}

/// An object with our labels that is not a part of the job it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The uid of the job it pretends to belong to.
    pub job: JobUid,
    /// The object's namespace and name.
    pub path: String,
    /// What is wrong with it.
    pub why: String,
}

/// An object that belongs to a job, if there is that job.
#[derive(Clone, Debug)]
pub struct Child<T> {
    /// The job.
    pub owner: Owner,
    pub target: Target,
    /// The attempt; 0 for a Service.
    pub attempt: u32,
    /// What is known of it.
    pub facts: T,
}

/// What an object proves by itself: to whom it belongs and as what, if there is such a job in its namespace.
pub fn claim(metadata: &ObjectMeta) -> Result<(Owner, Place), Foreign> {
    let none = BTreeMap::new();
    let labels = metadata.labels.as_ref().unwrap_or(&none);
    let label = labels.get(names::JOB_UID).map(String::as_str).unwrap_or_default();
    let foreign = |why: String| foreign(metadata, label, why);
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let controller = owners.iter().find(|owner| owner.controller == Some(true));
    let is_job = |version: &str, kind: &str| {
        version.split_once('/').is_some_and(|(group, _)| group == flashjob_api::flashjob::GROUP)
            && kind == "FlashJob"
    };
    let Some(owner) = controller.filter(|owner| is_job(&owner.api_version, &owner.kind)) else {
        return Err(foreign("no FlashJob controls it".into()));
    };
    let Some(uid) = JobUid::read(&owner.uid).filter(|uid| **uid == *label) else {
        return Err(foreign("its label names another job than its owner reference".into()));
    };
    let Some(place) = Place::read(labels) else {
        return Err(foreign("its labels do not say which part of the job it is".into()));
    };
    let name = place.name(&owner.name, &uid);
    if metadata.name.as_ref() != Some(&name) {
        return Err(foreign(format!("the object of this job would be named {name}")));
    }
    let namespace = metadata.namespace.clone().unwrap_or_default();
    Ok((Owner { uid, namespace, name: owner.name.clone() }, place))
}

/// Whether what is there is what was to be made: of the same job, and the same part of it.
pub fn is_same(found: &ObjectMeta, wanted: &ObjectMeta) -> bool {
    let found = claim(found);
    found.is_ok() && found == claim(wanted)
}

impl Owner {
    /// What the objects of a job say.
    pub fn of(job: &Job) -> Owner {
        let (uid, namespace) = (job.uid.clone(), job.namespace.clone());
        Owner { uid, namespace, name: job.name.clone() }
    }

    /// Whether this job is the one.
    pub fn is(&self, job: &Job) -> bool {
        (&self.uid, &self.namespace, &self.name) == (&job.uid, &job.namespace, &job.name)
    }

    /// Says of an object that this job is not the one.
    pub fn refuted(&self, object: &str, job: &Owner) -> Foreign {
        let why = if self.namespace == job.namespace {
            format!("its owner reference names {}, and the job is {}", self.name, job.name)
        } else {
            format!("a job's objects are in its own namespace, {}", job.namespace)
        };
        Foreign { job: self.uid.clone(), path: format!("{}/{object}", self.namespace), why }
    }
}

impl Place {
    fn read(labels: &BTreeMap<String, String>) -> Option<Place> {
        let target = labels.get(names::TARGET);
        match (labels.get(names::SHARD), target, labels.get(names::ATTEMPT)) {
            (Some(shard), None, None) => Some(Place::Shard(number(shard)?)),
            (None, Some(target), None) => Some(Place::Service(Target::read(target)?)),
            (None, Some(target), Some(attempt)) => {
                Some(Place::Pod(Target::read(target)?, number(attempt)?))
            }
            _ => None,
        }
    }

    /// The one name that such an object has.
    fn name(&self, job: &str, uid: &JobUid) -> String {
        match self {
            Place::Service(target) => names::service(job, *target),
            Place::Pod(target, attempt) => names::pod(job, *target, *attempt),
            Place::Shard(shard) => names::ledger(job, uid, *shard),
        }
    }
}

/// Says that an object is not what its labels say.
pub fn foreign(metadata: &ObjectMeta, job: &str, why: String) -> Foreign {
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    let path = format!("{}/{}", text(&metadata.namespace), text(&metadata.name));
    Foreign { job: job.into(), path, why }
}

/// A number as we write it; `007` is not.
fn number<T: std::str::FromStr + ToString>(text: &str) -> Option<T> {
    text.parse().ok().filter(|number: &T| number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::*;

    const TARGET: &str = "5b96f4079221";

    /// The metadata of a Pod as it should be, and a change to it.
    fn pod(change: impl Fn(&mut ObjectMeta, &mut OwnerReference)) -> ObjectMeta {
        let labels = [(names::JOB_UID, "uid"), (names::TARGET, TARGET), (names::ATTEMPT, "2")];
        let mut metadata = ObjectMeta {
            name: Some(format!("job-{TARGET}-2")),
            namespace: Some("ns".into()),
            labels: Some(labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into()),
            ..ObjectMeta::default()
        };
        let mut owner = OwnerReference {
            api_version: format!("{}/v1alpha1", flashjob_api::flashjob::GROUP),
            kind: "FlashJob".into(),
            name: "job".into(),
            uid: "uid".into(),
            controller: Some(true),
            block_owner_deletion: None,
        };
        change(&mut metadata, &mut owner);
        metadata.owner_references = Some(vec![owner]);
        metadata
    }

    fn label(metadata: &mut ObjectMeta, key: &str, value: &str) {
        metadata.labels.get_or_insert_default().insert(key.to_owned(), value.to_owned());
    }

    #[test]
    fn a_child_is_known_by_its_place() {
        let owner = Owner { uid: "uid".into(), namespace: "ns".into(), name: "job".into() };
        assert_eq!(
            claim(&pod(|_, _| ())),
            Ok((owner, Place::Pod(Target::read(TARGET).unwrap(), 2)))
        );
        let shard = pod(|metadata, _| {
            metadata.labels = None;
            label(metadata, names::JOB_UID, "uid");
            label(metadata, names::SHARD, "3");
            metadata.name = Some(names::ledger("job", &"uid".into(), 3));
        });
        assert_eq!(claim(&shard).unwrap().1, Place::Shard(3));
        let service = pod(|metadata, _| {
            metadata.labels.get_or_insert_default().remove(names::ATTEMPT);
            metadata.name = Some(format!("job-{TARGET}"));
        });
        assert_eq!(claim(&service).unwrap().1, Place::Service(Target::read(TARGET).unwrap()));
    }

    #[test]
    fn what_is_wrong_in_one_thing_is_foreign() {
        let wrong = [
            pod(|_, owner| owner.controller = None),
            pod(|_, owner| owner.kind = "Job".into()),
            pod(|_, owner| owner.api_version = "batch/v1".into()),
            pod(|_, owner| owner.api_version = format!("x.{}/v1", flashjob_api::flashjob::GROUP)),
            pod(|_, owner| owner.uid = "another".into()),
            pod(|_, owner| owner.name = "another".into()),
            pod(|metadata, _| metadata.name = Some(format!("job-{TARGET}-3"))),
            pod(|metadata, _| metadata.name = Some(format!("job-{TARGET}"))),
            pod(|metadata, _| label(metadata, names::TARGET, "000000000000")),
            pod(|metadata, _| label(metadata, names::ATTEMPT, "02")),
            pod(|metadata, _| label(metadata, names::ATTEMPT, "99999999999")),
            pod(|metadata, _| label(metadata, names::SHARD, "0")),
            pod(|metadata, _| label(metadata, names::JOB_UID, "another")),
            pod(|metadata, _| metadata.labels = None),
        ];
        for metadata in wrong {
            assert!(claim(&metadata).is_err(), "{metadata:#?}");
        }
    }
}
