//! What `decide` may know: the facts that `observe` collects, as plain data.
//!
//! Objects of the API are large; these are the few fields a decision depends on. What is uncertain is said here too:
//! a [`Slot`] knows whether a write to it is under way, so that `decide` keeps its hands off until that is settled.

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::addresses::Addresses;
use crate::allow_list::AllowList;
use crate::boards::Boards;
use crate::instances::Instances;
use crate::ledger::Ledger;
use crate::names;
use crate::spec::{Invalid, Spec};
use crate::time::later;

/// Everything `decide` looks at for one job.
pub struct View<'a> {
    /// The job.
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
    pub children: &'a HashMap<String, Children>,
    /// No attempt is open that another process began; else it has to be settled before anything starts.
    pub settled: bool,
    /// Why the job's ledger, finalizer or annotation could not be written the last time.
    pub trouble: Option<&'a str>,
    /// What the jobs of all namespaces have to do with which board.
    pub boards: &'a Boards,
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
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
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
        let (name, uid) = (metadata.name.clone(), metadata.uid.clone());
        let (name, uid) = (name.unwrap_or_default(), uid.unwrap_or_default());
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

/// The objects of one target.
#[derive(Clone, Debug, Default)]
pub struct Children {
    /// Its Service.
    pub service: Slot<Service>,
    /// Its Pods by attempt.
    pub pods: BTreeMap<u32, Slot<Pod>>,
}

/// One object's place: what was last seen there, and whether that can be trusted now.
#[derive(Clone, Debug)]
pub struct Slot<T> {
    /// What was last seen.
    pub seen: Option<T>,
    /// It was seen, and a live read has shown that it is gone.
    pub gone: bool,
    /// A write or a check is under way or in doubt: leave it alone.
    pub busy: bool,
    /// The last create did not go through.
    pub refused: Option<Refusal>,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Slot { seen: None, gone: false, busy: false, refused: None }
    }
}

impl<T> Slot<T> {
    /// The object, if it is there.
    pub fn here(&self) -> Option<&T> {
        self.seen.as_ref().filter(|_| !self.gone)
    }
}

impl<T: Versioned> Slot<T> {
    /// Takes in what was seen, unless something newer was seen before: answers and watches overtake each other.
    pub fn see(&mut self, facts: T) -> bool {
        let stale = self.seen.as_ref().is_some_and(|seen| seen.version() >= facts.version());
        if !stale {
            *self = Slot { seen: Some(facts), gone: false, busy: self.busy, refused: None };
        }
        !stale
    }
}

/// An object whose states can be told apart as older and newer.
pub trait Versioned {
    /// Its resourceVersion as a number.
    fn version(&self) -> u64;
    /// Its uid.
    fn uid(&self) -> &str;
}

impl Versioned for Pod {
    fn version(&self) -> u64 {
        self.version
    }
    fn uid(&self) -> &str {
        &self.uid
    }
}

impl Versioned for Service {
    fn version(&self) -> u64 {
        self.version
    }
    fn uid(&self) -> &str {
        &self.uid
    }
}

/// A create that did not go through.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The server's words.
    pub message: String,
    /// The server said no; otherwise it could not be reached.
    pub definite: bool,
    /// A foreign object has the name.
    pub conflict: bool,
    /// When the first of the refusals in a row was.
    pub since: Timestamp,
    /// How many in a row.
    pub times: u32,
    /// Not again before this.
    pub retry_at: Timestamp,
}

/// A flash Pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// Its resourceVersion as a number.
    pub version: u64,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The board it is for.
    pub endpoint: String,
    /// When this operator first saw it. Every time from here on is by the operator's clock, for [`Pod::at`] puts it in: a
    /// deadline that runs from a node's clock ends when that clock says so.
    pub first_seen: Timestamp,
    /// When its end was first seen to be asked for, if it was.
    pub deleting: Option<Timestamp>,
    /// Its phase.
    pub phase: PodPhase,
    /// What its flash container does.
    pub container: Container,
    /// The Pod's own `status.reason`, such as DeadlineExceeded.
    pub reason: Option<String>,
    /// The scheduler's, kubelet's or API server's words on why it is where it is.
    pub note: Option<String>,
    /// When it was first seen in a terminal phase.
    pub terminal_since: Option<Timestamp>,
}

/// A Pod's phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodPhase {
    /// Not started, or not known.
    #[default]
    Pending,
    /// Running.
    Running,
    /// Every container ended well.
    Succeeded,
    /// A container ended badly, or the Pod was ended.
    Failed,
}

/// What the flash container does.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Container {
    /// Nothing is said of it.
    #[default]
    Unknown,
    /// It has not started, and why.
    Waiting(Option<String>),
    /// It runs, and was first seen to at this time.
    Running(Option<Timestamp>),
    /// It ended.
    Ended {
        /// Its exit code.
        exit_code: i32,
        /// The runtime's reason.
        reason: Option<String>,
        /// Its termination message.
        message: Option<String>,
        /// When.
        at: Option<Timestamp>,
    },
}

/// A terminal Pod that says nothing of its container is believed after this long.
pub const SILENT_END_GRACE: SignedDuration = SignedDuration::from_secs(30);

impl Pod {
    /// Puts the operator's own times in: what was seen before of the same Pod keeps the time it was seen at.
    pub fn at(self, now: Timestamp, before: Option<&Pod>) -> Pod {
        let before = before.filter(|b| b.uid == self.uid);
        let running = before.and_then(|b| match b.container {
            Container::Running(since) => since,
            _ => None,
        });
        let ended = matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed);
        Pod {
            first_seen: before.map_or(now, |b| b.first_seen),
            deleting: self.deleting.map(|_| before.and_then(|b| b.deleting).unwrap_or(now)),
            terminal_since: ended.then(|| before.and_then(|b| b.terminal_since).unwrap_or(now)),
            container: match self.container {
                Container::Running(_) => Container::Running(Some(running.unwrap_or(now))),
                other => other,
            },
            ..self
        }
    }

    /// Whether the flash container has begun: from here on the board may have been touched.
    pub fn started(&self) -> bool {
        match self.container {
            Container::Running(_) | Container::Ended { .. } => true,
            Container::Waiting(_) => false,
            Container::Unknown => matches!(self.phase, PodPhase::Running | PodPhase::Succeeded),
        }
    }

    /// Whether the attempt is over: the flash container has ended, whatever a sidecar does; without word of it, the
    /// phase decides, a grace period later.
    pub fn over(&self, now: Timestamp) -> bool {
        match self.container {
            Container::Ended { .. } => true,
            // Evicted or refused before the container began: nothing will start it any more.
            Container::Waiting(_) | Container::Unknown => {
                self.terminal_since.is_some_and(|since| now >= later(since, SILENT_END_GRACE))
            }
            Container::Running(_) => false,
        }
    }
}

/// A Service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Service {
    /// Its resourceVersion as a number.
    pub version: u64,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// When this operator first saw it.
    pub first_seen: Timestamp,
    /// When its end was first seen to be asked for, if it was.
    pub deleting: Option<Timestamp>,
    /// What was asked for, in one word; see `Access` in `access.rs`.
    pub shape: String,
    /// It takes the one node port that boards dial.
    pub node_port: bool,
    /// Where its address is to come from, in one word; see there, too.
    pub pool: String,
    /// The address its load balancer gave it: the first IPv4, else a hostname.
    pub address: Option<String>,
}

impl Service {
    /// Whether it waits for an address.
    pub fn waits_for_address(&self) -> bool {
        self.address.is_none() && !self.node_port && self.deleting.is_none()
    }

    /// Puts the operator's own times in, as [`Pod::at`] does.
    pub fn at(self, now: Timestamp, before: Option<&Service>) -> Service {
        let before = before.filter(|b| b.uid == self.uid);
        Service {
            first_seen: before.map_or(now, |b| b.first_seen),
            deleting: self.deleting.map(|_| before.and_then(|b| b.deleting).unwrap_or(now)),
            ..self
        }
    }
}
