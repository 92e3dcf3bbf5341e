//! Dies at a chosen write: what `make chaos` does to the operator at each of them.
//!
//! It is in builds with the feature `crash` only, never in a shipped one. Right above the wire it counts the mutating
//! calls and aborts the process at one of them, before it is sent or after the server has answered it.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response};
use kube::client::Body;
use tower::{BoxError, Layer, Service};

use crate::process::client::is_mutating;

/// Where the process dies: `before:17` or `after:17`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CrashPoint {
    call: u64,
    before: bool,
}

impl FromStr for CrashPoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = || "expected before:N or after:N".to_owned();
        let (side, call) = text.split_once(':').ok_or_else(wanted)?;
        let before = match side {
            "before" => true,
            "after" => false,
            _ => return Err(wanted()),
        };
        Ok(CrashPoint { call: call.parse().map_err(|_| wanted())?, before })
    }
}

#[derive(Clone)]
pub struct CrashLayer {
    point: CrashPoint,
    calls: Arc<AtomicU64>,
}

impl CrashLayer {
    pub fn new(point: CrashPoint) -> Self {
        Self { point, calls: Arc::default() }
    }
}

impl<S> Layer<S> for CrashLayer {
    type Service = Crash<S>;

    fn layer(&self, inner: S) -> Crash<S> {
        Crash { inner, layer: self.clone() }
    }
}

#[derive(Clone)]
pub struct Crash<S> {
    inner: S,
    layer: CrashLayer,
}

impl<S, B> Service<Request<Body>> for Crash<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let CrashLayer { point, calls } = &self.layer;
        let here = is_mutating(&request) && calls.fetch_add(1, Ordering::AcqRel) + 1 == point.call;
        if here && point.before {
            std::process::abort();
        }
        let sent = self.inner.call(request);
        if here {
            async move {
                let _answer = sent.await;
                std::process::abort()
            }
            .boxed()
        } else {
            sent.boxed()
        }
    }
}
