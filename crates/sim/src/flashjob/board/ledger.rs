//! What a board has lived through, kept for tests that trust nobody else.

use jiff::Timestamp;
use serde::Serialize;

use super::dice::MacAddress;
use super::fault::Fault;
use crate::clock::now;

/// The record of one board, in the order things happened.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BoardLedger {
    /// Which board.
    pub mac: MacAddress,
    /// `POST /update` requests that arrived, whatever was answered.
    pub posts: u32,
    /// `GET /info` requests that were answered.
    pub infos: u32,
    /// `GET /onboard` requests that arrived.
    pub onboards: u32,
    /// Updates that began, each by a POST.
    pub updates: Vec<Update>,
    /// How often an update began while another was at work.
    pub overlaps: u32,
    /// Starts of the board, the first one included.
    pub boots: Vec<Boot>,
}

/// One update.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Update {
    /// The address to call, as the POST gave it.
    pub server: String,
    /// The faults it was under.
    pub faults: Vec<Fault>,
    /// When the POST came.
    pub began: Timestamp,
    /// Tries to connect.
    pub attempts: u32,
    /// Why the last try failed.
    pub last_error: Option<String>,
    /// When the session began: a TLS handshake was done, or a raw connection taken.
    pub session: Option<Timestamp>,
    /// Bytes of firmware received.
    pub bytes: u64,
    /// What these bytes hash to, once the session is over.
    pub sha256: Option<String>,
    /// The version in the image, when the image was accepted.
    pub version: Option<String>,
    /// How it ended.
    pub end: Option<SessionEnd>,
    /// When it ended.
    pub ended: Option<Timestamp>,
}

/// How an update ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SessionEnd {
    /// The image was accepted, and the board restarts with it.
    Accepted,
    /// No server could be reached, or none with the pinned certificate.
    NoServer,
    /// The server ended the session without a byte: the board is not welcome.
    NotAuthorised,
    /// The connection broke, or stayed silent for too long.
    Interrupted(String),
    /// The image did not pass the check, for this reason.
    Rejected(String),
    /// By a fault, the board never called.
    NeverCalled,
    /// By a fault, the board cut the connection.
    Dropped,
    /// The board restarted or was switched off in the middle.
    PowerLost,
}

/// A start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Boot {
    /// When.
    pub at: Timestamp,
    /// From which slot, 0 or 1.
    pub slot: usize,
    /// What runs since.
    pub version: String,
    /// The slot that should have been booted held no image.
    pub fell_back: bool,
}

impl BoardLedger {
    pub(super) fn new(mac: MacAddress) -> Self {
        Self {
            mac,
            posts: 0,
            infos: 0,
            onboards: 0,
            updates: Vec::new(),
            overlaps: 0,
            boots: Vec::new(),
        }
    }

    /// Begins an update and returns its number.
    pub(super) fn begin(&mut self, server: String, faults: Vec<Fault>) -> usize {
        if self.updates.iter().any(|update| update.end.is_none()) {
            self.overlaps += 1;
        }
        self.updates.push(Update {
            server,
            faults,
            began: now(),
            attempts: 0,
            last_error: None,
            session: None,
            bytes: 0,
            sha256: None,
            version: None,
            end: None,
            ended: None,
        });
        self.updates.len() - 1
    }

    /// Updates that were at work when the power went.
    pub(super) fn power_lost(&mut self) {
        for update in self.updates.iter_mut().filter(|update| update.end.is_none()) {
            update.close(SessionEnd::PowerLost);
        }
    }
}

impl Update {
    /// Ends it, once.
    pub(super) fn close(&mut self, end: SessionEnd) {
        if self.end.is_none() {
            self.end = Some(end);
            self.ended = Some(now());
        }
    }
}
