//! What Prometheus can ask of Edge, beside what every system counts. No label has a device in it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use flashjob_plan::edge::refusal::Refusal;
use jiff::Timestamp;
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use super::certificates::Certificates;
use super::server::ServerMetrics;
use crate::process::clock;
use crate::process::metrics::Part;

#[derive(Clone, Default)]
pub struct EdgeMetrics {
    pub server: ServerMetrics,
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    registrations: Counter,
    refusals: Family<CauseLabel, Counter>,
    heartbeats: Counter,
    missed: Counter,
    control_messages: Counter,
    disconnects: Counter,
    renders: Counter,
    status_writes: Counter,
    events_dropped: Counter,
    devices: Family<StateLabel, Gauge>,
    held: Gauge,
    behind: Gauge,
    behind_seconds: Gauge,
    behind_since: Mutex<Option<Timestamp>>,
    expiring: Gauge,
    ca_days: Gauge<f64, AtomicU64>,
    server_days: Gauge<f64, AtomicU64>,
    problems: Gauge,
    certificates: Mutex<Option<watch::Receiver<Arc<Certificates>>>>,
    flotta: FlottaCounters,
}

/// What devices lack.
pub struct Lacks {
    /// They keep the configuration they have, because the latest cannot be made.
    pub held: usize,
    /// They report, and have not carried out the configuration they are given.
    pub behind: usize,
    /// Since when that is so of one of them at the longest.
    pub behind_since: Option<Timestamp>,
    /// Their certificates end soon.
    pub expiring: usize,
}

/// Flotta's counters, under their names.
#[derive(Default)]
struct FlottaCounters {
    registered: OriginalCounter,
    not_registered: OriginalCounter,
    unregistered: OriginalCounter,
    not_authenticated: OriginalCounter,
    invalid_owner: OriginalCounter,
    heartbeats: OriginalCounter,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CauseLabel {
    cause: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

impl EdgeMetrics {
    pub fn register(&self, part: &mut Part<'_>) {
        self.server.register(part.registry);
        let (inner, r) = (&self.inner, &mut *part.registry);
        r.register("registrations", "Certificates given to devices", inner.registrations.clone());
        r.register("refusals", "Devices that were told no, and why", inner.refusals.clone());
        r.register("heartbeats", "Heartbeats that were taken", inner.heartbeats.clone());
        r.register(
            "missed_heartbeats",
            "Heartbeats that did not come; of a device that is missing, the first three",
            inner.missed.clone(),
        );
        r.register(
            "control_messages",
            "What devices said about their connection",
            inner.control_messages.clone(),
        );
        r.register("disconnects", "Deleted devices that were told so", inner.disconnects.clone());
        r.register("renders", "Configurations and workloads that were made", inner.renders.clone());
        r.register(
            "status_writes",
            "Statuses of devices that were written",
            inner.status_writes.clone(),
        );
        r.register(
            "events_dropped",
            "Events of devices that were counted and not written",
            inner.events_dropped.clone(),
        );
        inner.register_states(r);
        r.register("ca_days", "Days until the CA ends", inner.ca_days.clone());
        r.register(
            "server_certificate_days",
            "Days until the server's certificate ends",
            inner.server_days.clone(),
        );
        r.register(
            "certificate_problems",
            "Sentences in the log about the certificates' Secrets that still hold",
            inner.problems.clone(),
        );
        let refreshed = self.clone();
        part.refresh.push(Box::new(move || refreshed.refresh()));
    }

    /// The counters of the original, for dashboards that know them.
    pub fn register_original(&self, registry: &mut Registry) {
        let (r, flotta) =
            (registry.sub_registry_with_prefix("flotta_api_edge_devices"), &self.inner.flotta);
        let mut add = |name: &str, help: &str, counter: &OriginalCounter| {
            r.register(name, help, counter.clone());
        };
        add("successful_registration", "Devices registered", &flotta.registered);
        add("failed_registration", "Registrations that failed", &flotta.not_registered);
        add("unregistration", "Deleted devices that were told so", &flotta.unregistered);
        add("failed_authentication", "Certificates that were refused", &flotta.not_authenticated);
        add("invalid_owner", "Certificates of another device", &flotta.invalid_owner);
        add("heartbeat", "Heartbeats of all devices", &flotta.heartbeats);
    }

    /// From now on the days until certificates end are known.
    pub fn follow(&self, certificates: watch::Receiver<Arc<Certificates>>) {
        let mut known = self.inner.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some(certificates);
    }

    fn refresh(&self) {
        let since = *self.inner.behind_since.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = since.map(|since| clock::now().duration_since(since).as_secs().max(0));
        self.inner.behind_seconds.set(seconds.unwrap_or_default());
        let known = self.inner.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(certificates) = known.as_ref().map(|known| known.borrow().clone()) else { return };
        let now = clock::now();
        self.inner.ca_days.set(certificates.ca_days(now).unwrap_or_default());
        self.inner.server_days.set(certificates.server_days(now).unwrap_or_default());
        let problems = i64::try_from(certificates.problems.len()).unwrap_or(i64::MAX);
        self.inner.problems.set(problems);
    }

    pub fn registered(&self) {
        self.inner.registrations.inc();
        self.inner.flotta.registered.inc();
    }

    pub fn registration_failed(&self) {
        self.inner.flotta.not_registered.inc();
    }

    pub fn refused(&self, refusal: Refusal) {
        self.inner.refusals.get_or_create(&CauseLabel { cause: refusal.label() }).inc();
        match refusal.code() {
            401 => self.inner.flotta.not_authenticated.inc(),
            403 if refusal == Refusal::AnotherDevice => self.inner.flotta.invalid_owner.inc(),
            _ => {}
        }
    }

    pub fn heartbeat(&self) {
        self.inner.heartbeats.inc();
        self.inner.flotta.heartbeats.inc();
    }

    pub fn missed(&self, heartbeats: u32) {
        self.inner.missed.inc_by(heartbeats.into());
    }

    /// What devices lack, counted anew.
    pub fn lacks(&self, lacks: Lacks) {
        let Lacks { held, behind, behind_since, expiring } = lacks;
        let gauges = [
            (&self.inner.held, held),
            (&self.inner.behind, behind),
            (&self.inner.expiring, expiring),
        ];
        for (gauge, count) in gauges {
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        *self.inner.behind_since.lock().unwrap_or_else(PoisonError::into_inner) = behind_since;
    }

    pub fn rendered(&self) {
        self.inner.renders.inc();
    }

    pub fn status_write(&self) {
        self.inner.status_writes.inc();
    }

    pub fn events_dropped(&self, count: usize) {
        self.inner.events_dropped.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// How many devices report, how many are missing, and of how many nobody knows.
    pub fn devices(&self, reporting: usize, missing: usize, unknown: usize) {
        let counts = [("reporting", reporting), ("missing", missing), ("unknown", unknown)];
        for (state, count) in counts {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.inner.devices.get_or_create(&StateLabel { state }).set(count);
        }
    }

    pub fn control_message(&self) {
        self.inner.control_messages.inc();
    }

    pub fn disconnected(&self) {
        self.inner.disconnects.inc();
        self.inner.flotta.unregistered.inc();
    }
}

impl Inner {
    /// How the devices are.
    fn register_states(&self, r: &mut Registry) {
        r.register("devices", "Devices by whether they report", self.devices.clone());
        r.register(
            "configurations_held",
            "Devices that keep the configuration they have, because the latest cannot be made",
            self.held.clone(),
        );
        r.register(
            "devices_behind",
            "Devices that report, and have not carried out the configuration they are given",
            self.behind.clone(),
        );
        r.register(
            "oldest_behind_seconds",
            "For how long the one of them has been given it that has had most time",
            self.behind_seconds.clone(),
        );
        r.register(
            "device_certificates_expiring",
            "Devices whose certificate ends within a fortnight, or has ended",
            self.expiring.clone(),
        );
    }
}

/// A counter whose name stays as it is: those of this library end in `_total`, and the original's do not.
#[derive(Clone, Debug, Default)]
struct OriginalCounter(Arc<AtomicU64>);

impl OriginalCounter {
    fn inc(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl TypedMetric for OriginalCounter {
    const TYPE: MetricType = MetricType::Unknown;
}

impl EncodeMetric for OriginalCounter {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.encode_gauge(&(self.0.load(Ordering::Relaxed) as f64))
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
