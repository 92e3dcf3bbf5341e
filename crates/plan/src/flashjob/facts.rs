//! What `decide` may know: the facts that `observe` collects, as plain data.
//!
//! Objects of the API are large; these are the few fields a decision depends on. What is uncertain is said here too:
//! a [`Slot`] knows whether a write to it is under way, so that `decide` keeps its hands off until that is known.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::flashjob::addresses::Addresses;
use crate::flashjob::allow_list::AllowList;
use crate::flashjob::ids::{JobUid, Target};
use crate::flashjob::instances::Instances;
use crate::flashjob::ledger::Ledger;
use crate::flashjob::locks::Locks;
use crate::flashjob::names;
use crate::flashjob::spec::{Invalid, Spec};

mod objects;
pub use objects::{
    Children, Container, Pod, PodPhase, Refusal, SILENT_END_GRACE, Service, Slot, Versioned,
};

/// Everything `decide` looks at for one job.
pub struct View<'a> {
    pub job: &'a Job,
    /// When this operator first saw the job: by its own clock, and to the fraction of a second that the job's own time lacks.
    pub first_seen: Timestamp,
    /// The operator's own settings.
    pub settings: &'a Settings,
    /// The job's ledger as last acknowledged.
    pub ledger: LedgerState<'a>,
    /// The devices Akri knows; `None` while that is not known yet.
    pub instances: Option<&'a Instances>,
    /// The job's Services and Pods by target.
    pub children: &'a HashMap<Target, Children>,
    /// No attempt is open that another process began; else it has to be recovered before anything starts.
    pub recovered: bool,
    /// Why the job's ledger, finalizer or annotation could not be written the last time.
    pub trouble: Option<&'a str>,
    /// What the jobs of all namespaces have to do with which board.
    pub locks: &'a Locks,
    /// What the Services of all namespaces wait for.
    pub addresses: &'a Addresses,
    /// The status may be written now. Where it may not, nobody needs the thousands of names that it can have, nor whether
    /// devices that wait for their turn are there.
    pub status_due: bool,
}

/// The operator's settings that decisions depend on.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The flash image for jobs that name none.
    pub flashjob_image: Option<String>,
    /// Where jobs may find devices.
    pub device_namespaces: DeviceNamespaces,
    /// An upper bound for every job's maxParallel.
    pub max_parallel: Option<usize>,
    /// Whether `service.type: None` (host network) may be used.
    pub allow_host_network: bool,
    /// Whether the pod template may ask for anything.
    pub unsafe_pod_templates: bool,
    /// Which annotations a job may give its Services.
    pub service_annotations: AllowList,
    /// Which load balancers a job may ask for by their class.
    pub load_balancer_classes: AllowList,
}

/// Those of an operator that was started without flags.
impl Default for Settings {
    fn default() -> Settings {
        Settings {
            flashjob_image: None,
            device_namespaces: DeviceNamespaces::default(),
            max_parallel: None,
            allow_host_network: false,
            unsafe_pod_templates: false,
            service_annotations: AllowList::service_annotations(),
            load_balancer_classes: AllowList::any(),
        }
    }
}

/// In which namespaces a job may find devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum DeviceNamespaces {
    /// Everywhere, as the original does.
    #[default]
    All,
    /// Only in the job's own.
    Own,
    /// Only in these.
    Named(Vec<String>),
}

impl DeviceNamespaces {
    /// Whether a job in `own` may use devices in `namespace`.
    pub fn allows(&self, own: &str, namespace: &str) -> bool {
        match self {
            DeviceNamespaces::All => true,
            DeviceNamespaces::Own => own == namespace,
            DeviceNamespaces::Named(names) => names.iter().any(|n| n == namespace),
        }
    }
}

/// A FlashJob, without its status.
#[derive(Clone, Debug)]
pub struct Job {
    pub namespace: String,
    pub name: String,
    pub uid: JobUid,
    /// When it was created.
    pub created: Timestamp,
    /// The generation of its spec.
    pub generation: i64,
    /// A person or a controller has asked for its deletion.
    pub deleting: bool,
    /// Our finalizer is on it.
    pub finalizer: bool,
    /// The ledger its annotation speaks of, if that is the job's own.
    pub ledger: Option<String>,
    /// The spec, read and checked.
    pub spec: Result<Spec, Invalid>,
}

impl Job {
    /// Reads a FlashJob. A spec that cannot be read makes an invalid job, not an error.
    pub fn read(metadata: &ObjectMeta, spec: &Value, settings: &Settings) -> Job {
        let job = Job::without_spec(metadata);
        match spec {
            Value::Null => job,
            spec => Job { spec: Spec::read(spec, settings), ..job },
        }
    }

    /// Whether an object with this metadata is read as this very job. Within one generation a spec stays what it is, and need
    /// not be read again with its thousands of devices.
    pub fn is_still(&self, metadata: &ObjectMeta) -> bool {
        let Job { namespace, name, uid, created, generation, deleting, finalizer, ledger, spec: _ } =
            Job::without_spec(metadata);
        (&self.uid, &self.namespace, &self.name) == (&uid, &namespace, &name)
            && (self.generation, self.created) == (generation, created)
            && (self.deleting, self.finalizer, &self.ledger) == (deleting, finalizer, &ledger)
    }

    fn without_spec(metadata: &ObjectMeta) -> Job {
        let finalizers = metadata.finalizers.iter().flatten();
        let (name, uid) = (metadata.name.clone().unwrap_or_default(), JobUid::of(metadata));
        let ledger = metadata.annotations.as_ref().and_then(|a| a.get(names::LEDGER));
        // Copied with a manifest, it names the ledger of the job it was copied from, and says nothing of this one.
        let ledger = ledger.filter(|ledger| **ledger == names::ledger(&name, &uid, 0)).cloned();
        Job {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            created: metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |t| t.0),
            generation: metadata.generation.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            finalizer: finalizers.into_iter().any(|f| f == names::FINALIZER),
            name,
            uid,
            ledger,
            spec: Err(Invalid("spec is missing".into())),
        }
    }
}

/// What is known of the job's ledger.
#[derive(Clone, Copy, Debug)]
pub enum LedgerState<'a> {
    /// It is being read or created.
    Unknown,
    /// There is none.
    Absent,
    /// Shards are there but no sealed header: a creation that was cut short. Their names and uids.
    Partial(&'a [(String, String)]),
    /// It is there and cannot be read.
    Broken(&'a str),
    /// It is there.
    Sealed(&'a Ledger),
}
