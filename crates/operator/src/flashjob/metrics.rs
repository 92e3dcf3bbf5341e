//! What Prometheus can ask of FlashJobs, beside what every system counts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flashjob_api::flashjob::{Counts, DeviceState, FlashJobStatus};
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::process::clock;
use crate::process::metrics::{KindLabel, Part, ShortTimes};

/// States a device can wait in.
const WAITING_STATES: [(DeviceState, &str); 6] = [
    (DeviceState::Offline, "Offline"),
    (DeviceState::Blocked, "Blocked"),
    (DeviceState::Addressing, "Addressing"),
    (DeviceState::Starting, "Starting"),
    (DeviceState::Flashing, "Flashing"),
    (DeviceState::BackOff, "BackOff"),
];

#[derive(Clone, Default)]
pub struct FlashJobMetrics(Arc<Inner>);

#[derive(Default)]
struct Inner {
    failures: Family<Reason, Counter>,
    devices: Family<StateLabel, Gauge>,
    flash_seconds: LongTimes,
    ledger_flush_seconds: ShortTimes,
    ledger_flush_errors: Counter,
    oldest_waiting: Family<StateLabel, Gauge>,
    foreign_objects: Family<KindLabel, Counter>,
    parked_jobs: Gauge,
    status_refused: Family<FormLabel, Counter>,
    /// Since when the oldest device waits, by job and state.
    waiting: Mutex<HashMap<String, HashMap<&'static str, Timestamp>>>,
}

/// A histogram of what takes minutes.
struct LongTimes(Histogram);

impl Default for LongTimes {
    fn default() -> LongTimes {
        let buckets = [1.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0];
        LongTimes(Histogram::new(buckets))
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reason {
    reason: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FormLabel {
    form: &'static str,
}

impl FlashJobMetrics {
    pub fn register(&self, part: &mut Part<'_>) {
        let (inner, r) = (&self.0, &mut *part.registry);
        r.register(
            "failures",
            "Failed attempts and devices given up, by reason",
            inner.failures.clone(),
        );
        r.register("devices", "Devices by state, over all jobs", inner.devices.clone());
        r.register(
            "flash_duration_seconds",
            "From the Pod's creation to its end",
            inner.flash_seconds.0.clone(),
        );
        r.register(
            "ledger_flush_duration_seconds",
            "How long a write of a ledger took",
            inner.ledger_flush_seconds.0.clone(),
        );
        r.register(
            "ledger_flush_errors",
            "Writes of a ledger that failed",
            inner.ledger_flush_errors.clone(),
        );
        r.register(
            "oldest_waiting_seconds",
            "How long the longest-waiting device waits, by state",
            inner.oldest_waiting.clone(),
        );
        r.register(
            "foreign_objects",
            "Sights of objects with our labels that belong to no job",
            inner.foreign_objects.clone(),
        );
        r.register(
            "parked_jobs",
            "Jobs with nothing to do, whose ledgers are not kept in memory",
            inner.parked_jobs.clone(),
        );
        r.register(
            "status_refused",
            "Statuses that the API server will not take",
            inner.status_refused.clone(),
        );
        let refreshed = self.clone();
        part.refresh.push(Box::new(move || refreshed.refresh()));
    }

    /// One attempt at a device has ended, or the device was given up without one.
    pub fn attempt_ended(&self, result: &str, seconds: Option<i64>) {
        if !matches!(result, "Succeeded" | "Skipped") {
            self.0.failures.get_or_create(&Reason { reason: result.to_owned() }).inc();
        }
        if let Some(seconds) = seconds {
            self.0.flash_seconds.0.observe(seconds as f64);
        }
    }

    /// The devices of one job have moved between states.
    pub fn devices_moved(&self, before: &Counts, after: &Counts) {
        let states = [
            ("pending", before.pending, after.pending),
            ("offline", before.offline, after.offline),
            ("waiting", before.waiting, after.waiting),
            ("blocked", before.blocked, after.blocked),
            ("flashing", before.flashing, after.flashing),
            ("succeeded", before.succeeded, after.succeeded),
            ("failed", before.failed, after.failed),
            ("skipped", before.skipped, after.skipped),
        ];
        for (state, before, after) in states {
            self.0.devices.get_or_create(&StateLabel { state }).inc_by(i64::from(after - before));
        }
    }

    /// Since when devices of a job wait.
    pub fn waiting(&self, job: &str, status: Option<&FlashJobStatus>) {
        let mut oldest: HashMap<&'static str, Timestamp> = HashMap::new();
        for device in status.map(|s| s.in_flight.as_slice()).unwrap_or_default() {
            let state = WAITING_STATES.iter().find(|(state, _)| *state == device.state);
            if let (Some((_, state)), Some(since)) = (state, &device.since) {
                let entry = oldest.entry(state).or_insert(since.0);
                *entry = (*entry).min(since.0);
            }
        }
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if oldest.is_empty() {
            waiting.remove(job)
        } else {
            waiting.insert(job.to_owned(), oldest)
        };
    }

    /// A ledger was written, or could not be.
    pub fn ledger_flushed(&self, took: Duration, ok: bool) {
        self.0.ledger_flush_seconds.0.observe(took.as_secs_f64());
        if !ok {
            self.0.ledger_flush_errors.inc();
        }
    }

    /// An object with our labels was seen that belongs to no job.
    pub fn foreign_seen(&self, kind: &'static str) {
        self.0.foreign_objects.get_or_create(&KindLabel { kind }).inc();
    }

    /// So many jobs are parked.
    pub fn parked(&self, jobs: usize) {
        self.0.parked_jobs.set(i64::try_from(jobs).unwrap_or(i64::MAX));
    }

    /// The API server will not take the status of a job, in this form.
    pub fn status_refused(&self, form: &'static str) {
        self.0.status_refused.get_or_create(&FormLabel { form }).inc();
    }

    /// Ages grow while nothing happens.
    fn refresh(&self) {
        let now = clock::now();
        let waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, state) in WAITING_STATES {
            let oldest = waiting.values().filter_map(|w| w.get(state)).min();
            let age = oldest.map_or(0, |since| now.duration_since(*since).as_secs().max(0));
            self.0.oldest_waiting.get_or_create(&StateLabel { state }).set(age);
        }
    }
}
