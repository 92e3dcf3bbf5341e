//! When devices were heard of last, shared by the listener, which hears them, and the controller, which looks for those that are
//! silent. A heartbeat that says what the last one said goes no further than this.
//!
//! Times are those of a clock that was set once, when this process started: a machine whose clock is put right an hour ahead
//! has not missed an hour of heartbeats.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flashjob_plan::edge::heartbeat::liveness::{Live, Liveness};
use flashjob_plan::edge::heartbeat::report::Report;
use jiff::Timestamp;

use super::tombstones::Place;
use crate::process::clock;

pub struct Beats {
    beats: Mutex<HashMap<Place, Beat>>,
    /// When this process started, by both clocks.
    started: (Timestamp, Duration),
}

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

/// What was heard.
pub struct Heard {
    /// It says something that the last heartbeat did not say.
    pub is_new: bool,
    /// Heartbeats that should have come before it.
    pub missed: u32,
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

    /// Whether its status is to say, with others in turn, that it is missing or back.
    pub fn turns(&self, live: Live) -> bool {
        use Live::{Grace, Missing, Never, Reporting};
        matches!(
            (self.shown, live),
            (Reporting | Grace { .. }, Missing { .. } | Never) | (Missing { .. }, Reporting)
        )
    }
}

impl Default for Beats {
    fn default() -> Self {
        Self { beats: Mutex::default(), started: (clock::now(), clock::boottime()) }
    }
}

impl Beats {
    pub fn lock(&self) -> MutexGuard<'_, HashMap<Place, Beat>> {
        self.beats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time, by the clock that all of this goes by.
    pub fn now(&self) -> Timestamp {
        let (at, boottime) = self.started;
        let passed = clock::boottime().saturating_sub(boottime);
        at.saturating_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// A heartbeat. `is_served`: whether the device has the configuration that it is given, and so the period in it.
    /// `None`: the device is not known here.
    pub fn hear(
        &self,
        place: &Place,
        report: &Report,
        is_served: impl FnOnce() -> bool,
    ) -> Option<Heard> {
        let (now, said) = (self.now(), Some((report.fingerprint(), report.newest_upload())));
        let mut beats = self.lock();
        let beat = beats.get_mut(place)?;
        let is_missing = matches!(beat.shown, Live::Missing { .. });
        let missed = if is_missing { 0 } else { beat.liveness.missed(now) };
        beat.liveness.beat(now);
        if beat.liveness.changes_period() && is_served() {
            beat.liveness.take_period();
        }
        let mut is_new = std::mem::replace(&mut beat.said, said) != said;
        if !beat.turns(Live::Reporting) {
            // Who was not thought missing takes no turns, and its status need not be written twice.
            is_new |= std::mem::replace(&mut beat.shown, Live::Reporting) != Live::Reporting;
        }
        Some(Heard { is_new, missed })
    }

    /// What a device said last did not get any further, or is no longer where it was written: it counts as new when it is said
    /// again.
    pub fn forget(&self, place: &Place) {
        if let Some(beat) = self.lock().get_mut(place) {
            beat.said = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use flashjob_api::edge::wire;
    use serde_json::json;

    use super::*;

    fn report(said: serde_json::Value) -> Report {
        Report::of(&serde_json::from_value::<wire::Heartbeat>(said).unwrap())
    }

    fn place() -> Place {
        ("default".into(), "edge1".into())
    }

    fn beats(period_seconds: i64) -> Beats {
        let beats = Beats::default();
        let (liveness, now) = (Liveness::new(period_seconds), beats.now());
        beats.lock().insert(place(), Beat::new(liveness, now, now));
        beats
    }

    #[test]
    fn a_heartbeat_that_says_what_the_last_one_said_is_not_new() {
        let beats = beats(60);
        let is_new = |said: &Report| beats.hear(&place(), said, || true).unwrap().is_new;
        let up = report(json!({ "status": "up", "workloads": [{ "name": "a" }] }));
        let uploaded = json!([{ "name": "a", "last_data_upload": "2026-11-18T12:00:00Z" }]);
        let uploaded = report(json!({ "status": "up", "workloads": uploaded }));
        assert_eq!([&up, &up, &uploaded, &uploaded].map(is_new), [true, false, true, false]);
        beats.forget(&place());
        assert!(is_new(&uploaded), "it did not get any further");
        let stranger = ("default".to_owned(), "edge2".to_owned());
        assert!(beats.hear(&stranger, &up, || true).is_none());
    }

    #[test]
    fn a_wall_clock_that_is_set_hours_ahead_or_back_makes_nobody_missing() {
        // What the wall clock said at the start is that far from what it says now.
        for hours in [-30, -5, 5, 30] {
            let then = clock::now() + jiff::SignedDuration::from_hours(hours);
            let beats = Beats { started: (then, clock::boottime()), ..beats(60) };
            let state = || beats.lock()[&place()].liveness.state(beats.now(), then);
            beats.hear(&place(), &Report::default(), || true);
            assert_eq!(state(), Live::Reporting, "{hours}");
            assert_eq!(beats.hear(&place(), &Report::default(), || true).unwrap().missed, 0);
            let seen = beats.lock()[&place()].liveness.last_seen().unwrap();
            assert!(seen.duration_since(then).abs() < jiff::SignedDuration::from_mins(1));
        }
    }

    #[test]
    fn who_is_heard_of_first_is_shown_to_report_at_once_and_who_was_missing_in_its_turn() {
        let beats = beats(60);
        let shown = || beats.lock()[&place()].shown;
        assert_eq!(shown(), Live::Grace { seen: None });
        assert!(beats.hear(&place(), &Report::default(), || true).unwrap().is_new);
        assert_eq!(shown(), Live::Reporting);
        let missing = Live::Missing { since: Timestamp::UNIX_EPOCH };
        beats.lock().get_mut(&place()).unwrap().shown = missing;
        beats.hear(&place(), &Report::default(), || true);
        assert_eq!(shown(), missing);
    }

    #[test]
    fn a_shorter_period_counts_from_the_heartbeat_that_says_that_the_device_has_it() {
        let beats = beats(3600);
        let period = || beats.lock()[&place()].liveness.period_seconds();
        beats.lock().get_mut(&place()).unwrap().liveness.give(5);
        let said = Report::default();
        beats.hear(&place(), &said, || false);
        assert_eq!(period(), 3600);
        beats.hear(&place(), &said, || true);
        assert_eq!(period(), 5);
    }

    #[test]
    fn who_goes_and_who_comes_back_takes_turns_and_who_comes_first_does_not() {
        let since = Timestamp::UNIX_EPOCH;
        let (missing, grace) = (Live::Missing { since }, Live::Grace { seen: None });
        let turns = |shown, live| {
            let liveness = Liveness::new(60);
            Beat { shown, ..Beat::new(liveness, since, since) }.turns(live)
        };
        assert!(turns(Live::Reporting, missing) && turns(missing, Live::Reporting));
        assert!(turns(grace, missing), "all that were silent while nobody listened");
        assert!(!turns(grace, Live::Reporting) && !turns(Live::Never, Live::Reporting));
        assert!(!turns(missing, missing) && !turns(Live::Reporting, Live::Reporting));
    }
}
