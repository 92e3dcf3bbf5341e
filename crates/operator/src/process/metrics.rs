//! What Prometheus can ask: one registry for the process, a part of it for each system, and in each what all of them count.
//! Every label has a short list of values, whatever users name their objects.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::clock;

/// The content type of the answer.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Done before each scrape: ages are worked out when they are asked for.
pub type Refresh = Box<dyn Fn() + Send + Sync>;

/// All metrics of this process.
#[derive(Default)]
pub struct Metrics {
    registry: Registry,
    refresh: Vec<Refresh>,
}

impl Metrics {
    /// The part of one system, whose name all of its metrics begin with.
    pub fn part(&mut self, system: &'static str) -> Part<'_> {
        let registry = self.registry.sub_registry_with_prefix(system);
        Part { registry, refresh: &mut self.refresh }
    }

    /// For metrics that begin with no system's name.
    pub fn root(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Everything as text.
    pub fn encode(&self) -> String {
        self.refresh.iter().for_each(|refresh| refresh());
        let mut out = String::new();
        // Writing to a String cannot fail.
        let _ = text::encode(&mut out, &self.registry);
        out
    }
}

/// Where a system registers its metrics.
pub struct Part<'a> {
    pub registry: &'a mut Registry,
    pub refresh: &'a mut Vec<Refresh>,
}

/// What every system counts.
#[derive(Clone, Default)]
pub struct SystemMetrics(Arc<Inner>);

#[derive(Default)]
struct Inner {
    reconciles: Counter,
    reconcile_seconds: ShortTimes,
    panics: Counter,
    watch_age: Family<KindLabel, Gauge>,
    watch_errors: Family<KindLabel, Counter>,
    writes: Family<Method, Counter>,
    writes_refused: Counter,
    is_leader: Gauge,
    /// When each watch last said something.
    heard: Mutex<HashMap<&'static str, Duration>>,
}

/// A histogram of what takes milliseconds.
#[derive(Clone)]
pub struct ShortTimes(pub Histogram);

impl Default for ShortTimes {
    fn default() -> ShortTimes {
        ShortTimes(Histogram::new([0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0]))
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct KindLabel {
    pub kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Method {
    method: String,
}

impl SystemMetrics {
    pub fn register(&self, part: &mut Part<'_>) {
        let (inner, r) = (&self.0, &mut *part.registry);
        r.register("reconciles", "Reconciles of an object", inner.reconciles.clone());
        r.register(
            "reconcile_duration_seconds",
            "How long a reconcile took",
            inner.reconcile_seconds.0.clone(),
        );
        r.register("internal_errors", "Reconciles that panicked", inner.panics.clone());
        r.register(
            "watch_age_seconds",
            "Since a watch last said something; grows while nothing changes",
            inner.watch_age.clone(),
        );
        r.register("watch_errors", "Errors of a watch", inner.watch_errors.clone());
        r.register("writes", "Mutating calls sent to the API server", inner.writes.clone());
        r.register(
            "writes_refused_without_lease",
            "Mutating calls not sent for want of the lease",
            inner.writes_refused.clone(),
        );
        r.register("is_leader", "1 while this process holds the lease", inner.is_leader.clone());
        let refreshed = self.clone();
        part.refresh.push(Box::new(move || refreshed.refresh()));
    }

    pub fn reconciled(&self, took: Duration) {
        self.0.reconciles.inc();
        self.0.reconcile_seconds.0.observe(took.as_secs_f64());
    }

    /// A reconcile has panicked.
    pub fn panicked(&self) {
        self.0.panics.inc();
    }

    /// A watch has said something.
    pub fn watch_heard(&self, kind: &'static str) {
        let mut heard = self.0.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.insert(kind, clock::boottime());
    }

    /// A watch has failed and will be tried again.
    pub fn watch_failed(&self, kind: &'static str) {
        self.0.watch_errors.get_or_create(&KindLabel { kind }).inc();
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

    fn refresh(&self) {
        let heard = self.0.heard.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, at) in heard.iter() {
            let age = clock::boottime().saturating_sub(*at).as_secs();
            let age = i64::try_from(age).unwrap_or(i64::MAX);
            self.0.watch_age.get_or_create(&KindLabel { kind }).set(age);
        }
    }
}
