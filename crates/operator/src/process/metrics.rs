//! What Prometheus can ask. Every label has a short list of values, whatever users name their jobs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use flashjob_api::flashjob::Counts;
use jiff::Timestamp;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::process::clock;

/// The content type of the answer.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// States a device can wait in.
const WAITING_STATES: &[&str] =
    &["Offline", "Blocked", "Addressing", "Starting", "Flashing", "BackOff"];

/// All metrics of this process.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    reconciles: Counter,
    reconcile_seconds: Histogram,
    panics: Counter,
    failures: Family<Reason, Counter>,
    devices: Family<State, Gauge>,
    flash_seconds: Histogram,
    ledger_flush_seconds: Histogram,
    ledger_flush_errors: Counter,
    oldest_waiting: Family<State, Gauge>,
    watch_age: Family<Kind, Gauge>,
    watch_errors: Family<Kind, Counter>,
    foreign_objects: Family<Kind, Counter>,
    parked_jobs: Gauge,
    status_refused: Family<Form, Counter>,
    writes: Family<Method, Counter>,
    writes_refused: Counter,
    is_leader: Gauge,
    /// Since when the oldest device waits, by job and state; ages are worked out when asked for.
    waiting: Mutex<HashMap<String, HashMap<&'static str, Timestamp>>>,
    /// When each watch last said something.
    heard: Mutex<HashMap<&'static str, Duration>>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reason {
    reason: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct State {
    state: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Form {
    form: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Method {
    method: String,
}

impl Metrics {
    /// Registers everything.
    pub fn new() -> Metrics {
        let short = [0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0];
        let long = [1.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0];
        let mut inner = Inner {
            registry: Registry::with_prefix("flashjob"),
            reconciles: Counter::default(),
            reconcile_seconds: Histogram::new(short),
            panics: Counter::default(),
            failures: Family::default(),
            devices: Family::default(),
            flash_seconds: Histogram::new(long),
            ledger_flush_seconds: Histogram::new(short),
            ledger_flush_errors: Counter::default(),
            oldest_waiting: Family::default(),
            watch_age: Family::default(),
            watch_errors: Family::default(),
            foreign_objects: Family::default(),
            parked_jobs: Gauge::default(),
            status_refused: Family::default(),
            writes: Family::default(),
            writes_refused: Counter::default(),
            is_leader: Gauge::default(),
            waiting: Mutex::default(),
            heard: Mutex::default(),
        };
        let r = &mut inner.registry;
        r.register("reconciles", "Looks at a job", inner.reconciles.clone());
        r.register(
            "reconcile_duration_seconds",
            "How long a look took",
            inner.reconcile_seconds.clone(),
        );
        r.register("internal_errors", "Looks at a job that panicked", inner.panics.clone());
        r.register(
            "failures",
            "Failed attempts and devices given up, by reason",
            inner.failures.clone(),
        );
        r.register("devices", "Devices by state, over all jobs", inner.devices.clone());
        r.register(
            "flash_duration_seconds",
            "From the Pod's creation to its end",
            inner.flash_seconds.clone(),
        );
        r.register(
            "ledger_flush_duration_seconds",
            "How long a write of a ledger took",
            inner.ledger_flush_seconds.clone(),
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
            "watch_age_seconds",
            "Since a watch last said something; grows while nothing changes",
            inner.watch_age.clone(),
        );
        r.register("watch_errors", "Errors of a watch", inner.watch_errors.clone());
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
        r.register("writes", "Mutating calls sent to the API server", inner.writes.clone());
        r.register(
            "writes_refused_without_lease",
            "Mutating calls not sent for want of the lease",
            inner.writes_refused.clone(),
        );
        r.register("is_leader", "1 while this process holds the lease", inner.is_leader.clone());
        Metrics(Arc::new(inner))
    }

    /// One look at a job.
    pub fn reconciled(&self, took: Duration) {
        self.0.reconciles.inc();
        self.0.reconcile_seconds.observe(took.as_secs_f64());
    }

    /// A look at a job has panicked.
    pub fn panicked(&self) {
        self.0.panics.inc();
    }

    /// One attempt at a device has ended, or the device was given up without one.
    pub fn attempt_ended(&self, result: &str, seconds: Option<i64>) {
        if !matches!(result, "Succeeded" | "Skipped") {
            self.0.failures.get_or_create(&Reason { reason: result.to_owned() }).inc();
        }
        if let Some(seconds) = seconds {
            self.0.flash_seconds.observe(seconds as f64);
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
            self.0.devices.get_or_create(&State { state }).inc_by(i64::from(after - before));
        }
    }

    /// Since when devices of a job wait.
    pub fn waiting(&self, job: &str, status: Option<&flashjob_api::flashjob::FlashJobStatus>) {
        let mut oldest: HashMap<&'static str, Timestamp> = HashMap::new();
        for device in status.map(|s| s.in_flight.as_slice()).unwrap_or_default() {
            let state = WAITING_STATES.iter().find(|s| **s == device.state);
            if let (Some(state), Some(since)) = (state, &device.since) {
                let entry = oldest.entry(state).or_insert(since.0);
                *entry = (*entry).min(since.0);
            }
        }
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        match oldest.is_empty() {
            true => waiting.remove(job),
            false => waiting.insert(job.to_owned(), oldest),
        };
    }

    /// A ledger was written, or could not be.
    pub fn ledger_flushed(&self, took: Duration, ok: bool) {
        self.0.ledger_flush_seconds.observe(took.as_secs_f64());
        if !ok {
            self.0.ledger_flush_errors.inc();
        }
    }

    /// A watch has said something.
    pub fn watch_heard(&self, kind: &'static str) {
        let mut heard = self.0.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.insert(kind, clock::boottime());
    }

    /// A watch has failed and will be tried again.
    pub fn watch_failed(&self, kind: &'static str) {
        self.0.watch_errors.get_or_create(&Kind { kind }).inc();
    }

    /// An object with our labels was seen that belongs to no job.
    pub fn foreign_seen(&self, kind: &'static str) {
        self.0.foreign_objects.get_or_create(&Kind { kind }).inc();
    }

    /// So many jobs are parked.
    pub fn parked(&self, jobs: usize) {
        self.0.parked_jobs.set(i64::try_from(jobs).unwrap_or(i64::MAX));
    }

    /// The API server will not take the status of a job, in this form.
    pub fn status_refused(&self, form: &'static str) {
        self.0.status_refused.get_or_create(&Form { form }).inc();
    }

    /// A mutating call was sent.
    pub fn write(&self, method: &str) {
        self.0.writes.get_or_create(&Method { method: method.to_owned() }).inc();
    }

    /// A mutating call was not sent.
    pub fn write_refused(&self) {
        self.0.writes_refused.inc();
    }

    /// The lease was won or lost.
    pub fn set_leader(&self, leader: bool) {
        self.0.is_leader.set(i64::from(leader));
    }

    /// Everything as text.
    pub fn encode(&self) -> String {
        let now = clock::now();
        {
            let waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            for state in WAITING_STATES {
                let oldest = waiting.values().filter_map(|w| w.get(state)).min();
                let age = oldest.map_or(0, |since| now.duration_since(*since).as_secs().max(0));
                self.0.oldest_waiting.get_or_create(&State { state }).set(age);
            }
            let heard = self.0.heard.lock().unwrap_or_else(PoisonError::into_inner);
            for (kind, at) in heard.iter() {
                let age = clock::boottime().saturating_sub(*at).as_secs();
                let age = i64::try_from(age).unwrap_or(i64::MAX);
                self.0.watch_age.get_or_create(&Kind { kind }).set(age);
            }
        }
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = text::encode(&mut out, &self.0.registry);
        out
    }
}
