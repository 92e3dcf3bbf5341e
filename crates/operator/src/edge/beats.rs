//! When devices were heard of last, shared by the listener, which hears them, and the controller, which looks for those that are
//! silent. A heartbeat that says what the last one said goes no further than this.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use flashjob_plan::edge::heartbeat::liveness::{Live, Liveness};
use flashjob_plan::edge::heartbeat::report::Report;
use jiff::Timestamp;

use super::tombstones::Place;

#[derive(Default)]
pub struct Beats(Mutex<HashMap<Place, Beat>>);

/// What is kept of a device's heartbeats.
#[derive(Clone, Copy, Debug)]
pub struct Beat {
    pub liveness: Liveness,
    /// How its status says that it is: whether it reports is written at a pace.
    pub shown: Live,
    /// Of the last heartbeat, and when files were uploaded last by that.
    said: Option<(u64, Option<Timestamp>)>,
    /// When it was heard of, by the roll.
    written: Option<Timestamp>,
}

impl Beat {
    pub fn new(liveness: Liveness, now: Timestamp, started: Timestamp) -> Self {
        let (shown, written) = (liveness.state(now, started), liveness.last_seen());
        Self { liveness, shown, said: None, written }
    }

    /// Whether it was heard of since the roll was written.
    pub fn is_news(&self) -> bool {
        self.written != self.liveness.last_seen()
    }

    /// The roll says when it was heard of last.
    pub fn is_written(&mut self) {
        self.written = self.liveness.last_seen();
    }
}

impl Beats {
    pub fn lock(&self) -> MutexGuard<'_, HashMap<Place, Beat>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A heartbeat of a device that is known. Says whether there is anything new in it.
    pub fn hear(&self, place: &Place, report: &Report, now: Timestamp) -> bool {
        let mut beats = self.lock();
        let Some(beat) = beats.get_mut(place) else { return true };
        beat.liveness.beat(now);
        let said = Some((report.fingerprint(), report.newest_upload()));
        std::mem::replace(&mut beat.said, said) != said
    }

    /// What a device said last did not get any further, so it counts as new when it is said again.
    pub fn forget(&self, place: &Place) {
        if let Some(beat) = self.lock().get_mut(place) {
            beat.said = None;
        }
    }
}
