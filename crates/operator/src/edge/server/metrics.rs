//! What is counted of the device API. Every label has a short list of values, whoever calls.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Default)]
pub struct ServerMetrics {
    requests: Family<RequestLabels, Counter>,
    handshakes: Family<ResultLabel, Counter>,
    connections: Gauge,
    refusals: Family<CauseLabel, Counter>,
    waiting: Gauge,
    waits: Family<ResultLabel, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    operation: &'static str,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CauseLabel {
    cause: &'static str,
}

/// What the server itself puts an end to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    ConnectionsFull,
    HandshakeTimeout,
    HeadersTimeout,
    BodyTimeout,
    AnswerTimeout,
    Flood,
    BodiesFull,
    RequestRate,
    RegistrationRate,
    Panic,
}

impl Cause {
    fn label(self) -> &'static str {
        match self {
            Cause::ConnectionsFull => "connections_full",
            Cause::HandshakeTimeout => "handshake_timeout",
            Cause::HeadersTimeout => "headers_timeout",
            Cause::BodyTimeout => "body_timeout",
            Cause::AnswerTimeout => "answer_timeout",
            Cause::Flood => "flood",
            Cause::BodiesFull => "bodies_full",
            Cause::RequestRate => "request_rate",
            Cause::RegistrationRate => "registration_rate",
            Cause::Panic => "panic",
        }
    }
}

impl ServerMetrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "requests",
            "Requests of devices that were answered",
            self.requests.clone(),
        );
        registry.register("handshakes", "TLS handshakes of devices", self.handshakes.clone());
        registry.register("connections", "Connections that are open", self.connections.clone());
        registry.register(
            "server_refusals",
            "What the device API refused or gave up by its own limits",
            self.refusals.clone(),
        );
        let held = "Requests that are held until there is news";
        registry.register("waiting_requests", held, self.waiting.clone());
        registry.register("waits", "Requests that asked to be held", self.waits.clone());
    }

    pub fn answered(&self, operation: &'static str, code: u16) {
        self.requests.get_or_create(&RequestLabels { operation, code }).inc();
    }

    pub fn handshake(&self, ok: bool) {
        let result = if ok { "ok" } else { "failed" };
        self.handshakes.get_or_create(&ResultLabel { result }).inc();
    }

    pub fn set_connections(&self, open: usize) {
        self.connections.set(i64::try_from(open).unwrap_or(i64::MAX));
    }

    pub fn refused(&self, cause: Cause) {
        self.refusals.get_or_create(&CauseLabel { cause: cause.label() }).inc();
    }

    /// A request has asked to be held.
    pub fn wait(&self, granted: bool) {
        let result = if granted { "granted" } else { "refused" };
        self.waits.get_or_create(&ResultLabel { result }).inc();
        if granted {
            self.waiting.inc();
        }
    }

    /// It is held no longer.
    pub fn waited(&self) {
        self.waiting.dec();
    }

    #[cfg(test)]
    pub fn waiting(&self) -> i64 {
        self.waiting.get()
    }

    /// How many were granted, and how many were not.
    #[cfg(test)]
    pub fn waits(&self) -> [u64; 2] {
        ["granted", "refused"].map(|result| self.waits.get_or_create(&ResultLabel { result }).get())
    }

    #[cfg(test)]
    pub fn refusals(&self, cause: Cause) -> u64 {
        self.refusals.get_or_create(&CauseLabel { cause: cause.label() }).get()
    }

    #[cfg(test)]
    pub fn connections(&self) -> i64 {
        self.connections.get()
    }
}
