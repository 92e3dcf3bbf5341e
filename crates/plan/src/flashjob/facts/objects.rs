//! The objects of one device: what was last seen of its Service and its Pods, and whether that can be trusted now.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::flashjob::endpoint::Endpoint;
use crate::time::later;

/// The objects of one target.
#[derive(Clone, Debug, Default)]
pub struct Children {
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
    /// A write or a check is under way, or what came of it is unconfirmed: leave it alone.
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
    /// The server's message.
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
    pub name: String,
    pub uid: String,
    /// The board it is for.
    pub endpoint: Endpoint,
    /// When this operator first saw it. Every time from here on is by the operator's clock, for [`Pod::at`] puts it in: a
    /// deadline that runs from a node's clock ends when that clock says so.
    pub first_seen: Timestamp,
    /// When its end was first seen to be asked for, if it was.
    pub deleting: Option<Timestamp>,
    pub phase: PodPhase,
    /// What its flash container does.
    pub container: Container,
    /// The Pod's own `status.reason`, such as DeadlineExceeded.
    pub reason: Option<String>,
    /// The scheduler's, kubelet's or API server's message on why it is where it is.
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
    pub name: String,
    pub uid: String,
    /// When this operator first saw it.
    pub first_seen: Timestamp,
    /// When its end was first seen to be asked for, if it was.
    pub deleting: Option<Timestamp>,
    /// What was asked for, in one word; see `Access` in `access.rs`.
    pub spec_hash: String,
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
