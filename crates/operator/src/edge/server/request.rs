//! One request, from its headers to its answer: cheap checks first, and nothing is read of a body before they are passed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use flashjob_api::edge::wire::{Message, directive};
use flashjob_plan::edge::device_id::DeviceId;
use http::header::{CONTENT_TYPE, IF_NONE_MATCH};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;

use super::body::{Bodies, Failure};
use super::hold::Holds;
use super::metrics::Cause;
use super::prefer;
use super::rate::{LOG_LINES, Limit, Meter, REGISTRATIONS, REQUESTS};
use super::reply::{Reply, not_allowed, reply};
use super::route::{self, Endpoint};
use super::text::{part, plain};
use super::usage::UnderWay;
use super::{DeviceAnswer, DeviceRequest, Handler, Operation, ServerMetrics, Settings};
use crate::engine::panics;

const SWAGGER: &str = include_str!("swagger.json");

/// What all connections share.
pub struct Server<H> {
    pub handler: Arc<H>,
    pub settings: Settings,
    pub metrics: ServerMetrics,
    started: Instant,
    requests: Limit,
    registrations: Limit,
    pub bodies: Bodies,
    pub holds: Holds,
    log: Meter,
    unlogged: AtomicU64,
}

/// A request that was understood so far, for the answer and the metrics.
struct Asked {
    endpoint: Endpoint,
    label: &'static str,
    /// For so many seconds it may be held.
    wait: Option<u32>,
}

impl<H: Handler> Server<H> {
    pub fn new(handler: Arc<H>, settings: Settings, metrics: ServerMetrics) -> Self {
        Self {
            handler,
            bodies: Bodies::new(settings.max_bodies),
            holds: Holds::default(),
            settings,
            metrics,
            started: Instant::now(),
            requests: Limit::new(REQUESTS),
            registrations: Limit::new(REGISTRATIONS),
            log: Meter::default(),
            unlogged: AtomicU64::new(0),
        }
    }

    pub async fn respond(
        &self,
        peer: Arc<H::Peer>,
        under_way: &UnderWay,
        request: Request<Incoming>,
    ) -> Reply {
        let is_head = request.method() == Method::HEAD;
        let mut reply = self.respond_in_full(peer, under_way, request).await;
        if is_head {
            // hyper leaves it out by itself over h1, and not over h2.
            *reply.body_mut() = Full::default();
        }
        reply
    }

    async fn respond_in_full(
        &self,
        peer: Arc<H::Peer>,
        under_way: &UnderWay,
        request: Request<Incoming>,
    ) -> Reply {
        let Some((endpoint, device)) = route::endpoint(request.uri()) else {
            let why = format!("path {} was not found", part(request.uri().path()));
            self.metrics.answered("other", 404);
            return reply(DeviceAnswer::refusal(StatusCode::NOT_FOUND, why), false);
        };
        if *request.method() != endpoint.method() {
            self.metrics.answered(endpoint.label(), 405);
            return not_allowed(request.method(), &endpoint.method(), endpoint.is_in());
        }
        let mut asked = Asked { endpoint, label: endpoint.label(), wait: None };
        let answer = match DeviceId::read(device) {
            _ if endpoint == Endpoint::Swagger => {
                DeviceAnswer::json(StatusCode::OK, Bytes::from_static(SWAGGER.as_bytes()))
            }
            Ok(device) => {
                let answered =
                    self.device_answer(peer, device.clone(), under_way, request, &mut asked);
                let answer = panics::caught_in(answered).await.unwrap_or_else(|panic| {
                    self.panicked(&panic);
                    let sorry = "the server has made a mistake; its log has more";
                    DeviceAnswer::refusal(StatusCode::INTERNAL_SERVER_ERROR, sorry)
                });
                self.log(&device, &asked, &answer);
                answer
            }
            Err(invalid) => unprocessable(invalid.to_string()),
        };
        self.metrics.answered(asked.label, answer.status.as_u16());
        reply(answer, endpoint.is_in())
    }

    async fn device_answer(
        &self,
        peer: Arc<H::Peer>,
        device: DeviceId,
        under_way: &UnderWay,
        request: Request<Incoming>,
        asked: &mut Asked,
    ) -> DeviceAnswer {
        let operation = match self.operation(&peer, &device, request, asked).await {
            Ok(operation) => operation,
            Err(refusal) => return refusal,
        };
        let request = DeviceRequest { peer, device, operation };
        match asked.wait {
            Some(seconds) => Box::pin(self.news(request, seconds, under_way)).await,
            None => self.answer(request).await,
        }
    }

    pub async fn answer(&self, request: DeviceRequest<H::Peer>) -> DeviceAnswer {
        let answered = self.handler.answer(request);
        let answered = tokio::time::timeout(self.settings.answer, answered).await;
        answered.unwrap_or_else(|_| {
            self.metrics.refused(Cause::AnswerTimeout);
            busy("there was no answer in time; try again")
        })
    }

    /// All that can be said without the handler's answer.
    async fn operation(
        &self,
        peer: &H::Peer,
        device: &DeviceId,
        request: Request<Incoming>,
        asked: &mut Asked,
    ) -> Result<Operation, DeviceAnswer> {
        let bucket = self.handler.bucket(peer, device);
        let limited = |limit: &Limit, cause| match &bucket {
            Some(bucket) => self.limited(limit.take(bucket, self.started.elapsed()), cause),
            None => Ok(()),
        };
        limited(&self.requests, Cause::RequestRate)?;
        self.handler.admit(peer, device)?;
        let (head, body) = request.into_parts();
        match asked.endpoint {
            Endpoint::DataIn => {
                asked.wait = prefer::wait(&head.headers);
                let known = head.headers.get(IF_NONE_MATCH).and_then(|etag| etag.to_str().ok());
                return Ok(Operation::DataIn { if_none_match: known.map(str::to_owned) });
            }
            Endpoint::ControlIn | Endpoint::Swagger => return Ok(Operation::ControlIn),
            Endpoint::DataOut | Endpoint::ControlOut => {}
        }
        json_only(&head.headers)?;
        let Settings { max_body, body: within, .. } = self.settings;
        let read = self.bodies.read(body, max_body, within).await;
        let message = message(&read.map_err(|failure| self.unread(failure))?)?;
        if asked.endpoint == Endpoint::ControlOut {
            return Ok(Operation::ControlOut(message));
        }
        asked.label = label(&message.directive);
        if message.directive == directive::REGISTRATION {
            limited(&self.registrations, Cause::RegistrationRate)?;
        }
        Ok(Operation::DataOut(message))
    }

    fn limited(&self, taken: Result<(), Duration>, cause: Cause) -> Result<(), DeviceAnswer> {
        taken.map_err(|pause| {
            self.metrics.refused(cause);
            let seconds = u32::try_from(pause.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
            let why = format!("too many requests; try again in {seconds} s");
            let refusal = DeviceAnswer::refusal(StatusCode::TOO_MANY_REQUESTS, why);
            DeviceAnswer { retry_after: Some(seconds), ..refusal }
        })
    }

    fn unread(&self, failure: Failure) -> DeviceAnswer {
        match failure {
            Failure::TooLong => {
                let why = format!("the body is longer than {} bytes", self.settings.max_body);
                DeviceAnswer::refusal(StatusCode::PAYLOAD_TOO_LARGE, why)
            }
            Failure::TooSlow => {
                self.metrics.refused(Cause::BodyTimeout);
                let why = format!("the body took longer than {} s", self.settings.body.as_secs());
                DeviceAnswer::refusal(StatusCode::REQUEST_TIMEOUT, why)
            }
            Failure::NoRoom => {
                self.metrics.refused(Cause::BodiesFull);
                busy("too many large bodies are on their way; try again")
            }
            // Nobody will read it.
            Failure::Broken => DeviceAnswer::refusal(StatusCode::BAD_REQUEST, "the body broke off"),
        }
    }

    pub fn panicked(&self, panic: &str) {
        self.metrics.refused(Cause::Panic);
        tracing::error!(panic = plain(panic), "the answer to a device ended in a panic");
    }

    /// A refusal is worth a line, and a thousand a second are not.
    fn log(&self, device: &DeviceId, asked: &Asked, answer: &DeviceAnswer) {
        let Some(reason) = &answer.reason else { return };
        if self.log.take(LOG_LINES, self.started.elapsed()).is_err() {
            self.unlogged.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let left_out = self.unlogged.swap(0, Ordering::Relaxed);
        let (operation, code, reason) = (asked.label, answer.status.as_u16(), plain(reason));
        tracing::info!(%device, operation, code, reason, left_out, "a device was refused");
    }
}

/// For the metrics. What else a client may have written is none of their labels.
fn label(directive: &str) -> &'static str {
    let known = [directive::REGISTRATION, directive::ENROLMENT, directive::HEARTBEAT];
    known.into_iter().find(|known| *known == directive).unwrap_or(Endpoint::DataOut.label())
}

fn json_only(headers: &HeaderMap) -> Result<(), DeviceAnswer> {
    let sent = headers.get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let sent = sent.unwrap_or_default();
    let kind = sent.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let why =
        format!("unsupported media type \"{}\", only [application/json] are allowed", part(&sent));
    Err(DeviceAnswer::refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, why))
}

fn message(body: &[u8]) -> Result<Message, DeviceAnswer> {
    // A list would be taken for the fields in their order.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(unprocessable("the body is no message: it has to be a JSON object".into()));
    }
    serde_json::from_slice(body).map_err(|error| {
        unprocessable(format!("the body is no message: {}", plain(&error.to_string())))
    })
}

fn unprocessable(why: String) -> DeviceAnswer {
    DeviceAnswer::refusal(StatusCode::UNPROCESSABLE_ENTITY, why)
}

fn busy(why: &str) -> DeviceAnswer {
    let refusal = DeviceAnswer::refusal(StatusCode::SERVICE_UNAVAILABLE, why);
    DeviceAnswer { retry_after: Some(1), ..refusal }
}
