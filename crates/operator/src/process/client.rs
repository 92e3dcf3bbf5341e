//! The clients: one for the lease, one for everything else.
//!
//! The second has a guard right above the wire, below retries, tokens and time-outs: it refuses every mutating call
//! once the lease has less than [`MARGIN`] left, and gives up those that were not answered after it, time to connect
//! included. So whatever happens above it, a process that may have lost the lease writes nothing. The client's own retry is off:
//! a mutating call is sent once, and confirmed by a read if in doubt.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, Either, FutureExt};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::{Client, Config};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt};

use crate::process::clock;
use crate::process::metrics::SystemMetrics;

/// Nothing is written when less than this is left of the lease, and no write may last longer.
pub const MARGIN: Duration = Duration::from_secs(5);

/// How long a read may take to connect. (Whoever reads limits the whole of it.)
const LONGEST_CONNECT: Duration = Duration::from_secs(10);

/// Until when this process may write, on the clock that runs through suspend.
#[derive(Clone, Default)]
pub struct WriteWindow(Arc<AtomicU64>);

impl WriteWindow {
    /// Writing is allowed until then.
    pub fn extend(&self, until: Duration) {
        let millis = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        self.0.store(millis, Ordering::Release);
    }

    /// Writing is always allowed: there is no lease.
    pub fn open(&self) {
        self.0.store(u64::MAX, Ordering::Release);
    }

    pub fn allows_writing(&self) -> bool {
        let until = Duration::from_millis(self.0.load(Ordering::Acquire));
        clock::boottime() + MARGIN <= until
    }
}

/// A mutating call was not sent: the lease is lost or about to be.
#[derive(Debug, thiserror::Error)]
#[error("not sent: this process does not hold the lease")]
pub struct NoLease;

/// A call was given up. Whether the server has done it, or will, is not known.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not answer in time")]
pub struct NoAnswer;

/// Awaits a call, but not for ever.
pub async fn in_time<T>(
    limit: Duration,
    call: impl Future<Output = kube::Result<T>>,
) -> kube::Result<T> {
    let answered = tokio::time::timeout(limit, call).await;
    answered.unwrap_or_else(|_| Err(kube::Error::Service(NoAnswer.into())))
}

/// The client for the lease itself.
pub fn plain(mut config: Config) -> kube::Result<Client> {
    config.default_retry = false;
    Ok(ClientBuilder::try_from(config)?.build())
}

/// The client for everything else.
pub fn guarded(
    config: &Config,
    window: &WriteWindow,
    metrics: &SystemMetrics,
    #[cfg(feature = "crash")] crash: Option<crate::process::crash::CrashPoint>,
) -> kube::Result<Client> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(LONGEST_CONNECT));
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let wire = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .build(connector)
        .map_response(|response: Response<_>| response.map(|body| body.map_err(BoxError::from)))
        .map_err(BoxError::from);
    let guard = GuardLayer { window: window.clone(), metrics: metrics.clone() };
    #[cfg(feature = "crash")]
    let wire = ServiceBuilder::new()
        .option_layer(crash.map(crate::process::crash::CrashLayer::new))
        .service(wire);
    let stack = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .layer(guard)
        .service(wire);
    Ok(ClientBuilder::new(stack, config.default_namespace.clone()).build())
}

/// An error in the server's own words, or the network's: what a person wants to read of it.
pub fn error_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        // The cause says what happened; what wraps it says only that something did.
        kube::Error::Service(cause) => cause.to_string(),
        other => other.to_string(),
    }
}

/// Whether a call is to change something.
pub fn is_mutating(request: &Request<Body>) -> bool {
    !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS)
}

struct GuardLayer {
    window: WriteWindow,
    metrics: SystemMetrics,
}

impl<S> Layer<S> for GuardLayer {
    type Service = Guard<S>;

    fn layer(&self, inner: S) -> Guard<S> {
        Guard { inner, window: self.window.clone(), metrics: self.metrics.clone() }
    }
}

#[derive(Clone)]
struct Guard<S> {
    inner: S,
    window: WriteWindow,
    metrics: SystemMetrics,
}

impl<S, B> Service<Request<Body>> for Guard<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response<B>, BoxError>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if !is_mutating(&request) {
            return Either::Left(self.inner.call(request));
        }
        if !self.window.allows_writing() {
            self.metrics.write_refused();
            return Either::Right(std::future::ready(Err(NoLease.into())).boxed());
        }
        self.metrics.write(request.method().as_str());
        let call = tokio::time::timeout(MARGIN, self.inner.call(request));
        Either::Right(call.map(|done| done.unwrap_or_else(|_| Err(NoAnswer.into()))).boxed())
    }
}

#[cfg(test)]
pub mod tests;
