//! The one door: everything that the controller takes in.

use flashjob_api::edge::Hardware;
use flashjob_plan::edge::facts::{EdgeDeviceFacts, SignedRequestFacts};
use flashjob_plan::edge::request::{DeviceRequest, Outcome};
use tokio::sync::oneshot;

use super::observe::Named;
use super::tombstones::{Flushed, Loaded};
use crate::engine::watch::WatchEvent;

pub enum Input {
    /// The watch of the EdgeDevices of this namespace has seen something.
    Device(String, WatchEvent<Named<EdgeDeviceFacts>>),
    Request(WatchEvent<Named<SignedRequestFacts>>),
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
