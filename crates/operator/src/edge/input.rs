//! The one door: everything that the controller takes in.

use std::collections::BTreeMap;

use flashjob_api::edge::Hardware;
use flashjob_plan::edge::facts::{EdgeDeviceFacts, SignedRequestFacts};
use flashjob_plan::edge::heartbeat::events::DeviceEvent;
use flashjob_plan::edge::heartbeat::report::Report;
use flashjob_plan::edge::request::{DeviceRequest, Outcome};
use flashjob_plan::edge::sets::{SetKind, SetSettings};
use flashjob_plan::edge::storage::{ClaimFacts, Route};
use flashjob_plan::edge::workloads::absent::CrdFacts;
use flashjob_plan::edge::workloads::{WorkloadFacts, WorkloadKind};
use tokio::sync::oneshot;

use super::controller::WorkloadKey;
use super::observe::{Named, SeenWorkload};
use super::roll::RollLoaded;
use super::sources::{Source, SourceKind, SourceRead};
use super::tombstones::{Flushed, Loaded, Place};
use crate::engine::watch::WatchEvent;
use crate::engine::write::Created;

pub enum Input {
    /// The watch of the EdgeDevices of this namespace has seen something.
    Device(String, WatchEvent<Named<EdgeDeviceFacts>>),
    Request(WatchEvent<Named<SignedRequestFacts>>),
    /// EdgeDeployments or EdgeWorkloads of this namespace.
    Workload(WorkloadKind, String, WatchEvent<Box<SeenWorkload>>),
    /// EdgeDeviceSets or EdgeDeviceGroups of this namespace.
    Set(SetKind, String, WatchEvent<(String, SetSettings)>),
    /// Secrets or ConfigMaps of this namespace: a name and a version.
    Source(SourceKind, String, WatchEvent<(String, String)>),
    /// Whether the cluster has ObjectBucketClaims at all.
    HasClaims(bool),
    /// ObjectBucketClaims of this namespace.
    Claim(String, WatchEvent<(String, ClaimFacts)>),
    /// The claim of the device at this place was made, or was not.
    ClaimMade(Place, Created<ClaimFacts>),
    /// The Route to the server of buckets is another than before.
    Route(Route),
    SourceRead(Box<SourceRead>),
    /// It is time to try again to read it.
    SourceAgain(Source),
    /// A heartbeat with something new in it.
    Heartbeat(Box<NewHeartbeat>),
    /// The status of the EdgeDevice at this place was written, or was not.
    DeviceStatus(Place, Box<Written>),
    /// A workload was written, or was not.
    WorkloadWritten(WorkloadKey, Result<Option<Box<SeenWorkload>>, String>),
    /// It is not there any more, and its CRD is like this.
    WorkloadLeft(Box<WorkloadFacts>, Option<CrdFacts>),
    /// How the CRD of a kind is, after the list of its objects in that namespace was complete.
    CrdLooked {
        kind: WorkloadKind,
        listed: Option<String>,
        crd: Option<CrdFacts>,
    },
    /// The record of the CRDs that all labels were accounted for with.
    CrdsLoaded(BTreeMap<String, String>),
    /// It was written, or was not.
    CrdsRecorded(Result<BTreeMap<String, String>, String>),
    RollLoaded(Box<RollLoaded>),
    /// This shard of the roll was written, or was not.
    RollWritten(u16, Result<(), String>),
    /// A second has passed.
    Tick,
    /// A device asks for something that has to be written down first.
    Asked(Box<Asked>),
    /// A device was told to disconnect, by its name, because of the tombstone of this namespace.
    Disconnected {
        name: String,
        namespace: String,
    },
    /// A write for this name was answered.
    Written(String, Box<Written>),
    TombstonesLoaded(Loaded),
    /// Tombstones were written, or were not.
    Flushed(Box<Flushed>),
    /// It is time to look at all tombstones, or to try again to write them.
    Tombstones,
}

/// What is new in a heartbeat.
pub struct NewHeartbeat {
    pub place: Place,
    /// `None`: it says what the one before it said, but for its events.
    pub report: Option<Report>,
    pub events: Vec<DeviceEvent>,
    /// Events beyond those.
    pub more_events: usize,
}

/// A request of a device that waits for its answer.
pub struct Asked {
    pub request: DeviceRequest,
    /// What the device says of itself.
    pub hardware: Option<Hardware>,
    pub model: Option<String>,
    pub answer: oneshot::Sender<Result<Outcome, Unavailable>>,
}

/// Why there is no answer: a sentence.
#[derive(Debug, Clone)]
pub struct Unavailable(pub String);

/// What a write came to, and what is there now.
pub struct Written {
    pub there: There,
    pub error: Option<WriteError>,
}

pub enum There {
    /// In this namespace.
    Device(String, Option<Box<EdgeDeviceFacts>>),
    Request(Option<SignedRequestFacts>),
}

pub struct WriteError {
    /// The server's words, or the network's.
    pub message: String,
    /// Somebody else has changed the object meanwhile: it is decided anew, from what is there now.
    pub conflict: bool,
    /// The version of the EdgeDevice that it was for, if the server has an earlier one now.
    pub went_back: Option<u64>,
    /// It was about the hardware, which no certificate depends on.
    pub hardware: bool,
}
