//! What devices are answered. It runs on the thread of the listener: what can be answered from memory is, and what has to be
//! written first goes through the controller.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flashjob_api::edge::Hardware;
use flashjob_api::edge::wire::{
    Command, Enrolment, Heartbeat, Message, MessageResponse, MessageType, Registration,
    RegistrationAnswer, directive,
};
use flashjob_pki::csr;
use flashjob_plan::edge::auth::{self, Operation as Judged};
use flashjob_plan::edge::certificate::{CertificateFacts, Holder};
use flashjob_plan::edge::device_id::DeviceId;
use flashjob_plan::edge::heartbeat::events;
use flashjob_plan::edge::heartbeat::report::Report;
use flashjob_plan::edge::keys::{CaId, Fingerprint};
use flashjob_plan::edge::refusal::Refusal;
use flashjob_plan::edge::request::{CertificateWish, DeviceRequest, Outcome, Wish};
use http::StatusCode;
use jiff::Timestamp;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::controller::outcome_without_write;
use super::input::{Asked, Input, NewHeartbeat, Unavailable};
use super::observe;
use super::peer::Peer;
use super::server::{self, DeviceAnswer, Handler, Operation};
use super::shared::Shared;
use super::waiting::Waiter;
use crate::process::clock;

/// The original's agent gives up after a second, and what is answered later is lost.
const LONGEST: Duration = Duration::from_millis(900);
/// Why a device is told nothing yet.
const READING: &str = "the cluster is being read";
/// Why a device gets no configuration when it names none that it has.
const HELD: &str =
    "something that a workload of this device needs is missing; it keeps the configuration it has";
/// Characters of a model's name that are kept.
const LONGEST_MODEL: usize = 256;

pub struct DeviceApi {
    pub shared: Arc<Shared>,
    pub inputs: mpsc::Sender<Input>,
}

/// A request with all that is known of who sent it.
struct Call {
    device: DeviceId,
    certificate: Arc<CertificateFacts>,
    now: Timestamp,
}

/// What a device says of itself, for those who write it down.
#[derive(Default)]
struct Said {
    hardware: Option<Hardware>,
    model: Option<String>,
}

impl Handler for DeviceApi {
    type Peer = Peer;

    fn meet(&self, chain: Vec<CertificateDer<'static>>) -> Peer {
        Peer::new(chain)
    }

    fn admit(&self, peer: &Peer, device: &DeviceId) -> Result<(), DeviceAnswer> {
        let call = self.call(peer, device)?;
        let identified = auth::identify(&call.certificate, &call.device, call.now);
        identified.map_err(|refusal| self.refuse(refusal))?;
        if self.shared.is_serving() { Ok(()) } else { Err(busy(READING)) }
    }

    /// A device's own certificate is counted by itself. The one for registration is everybody's, so it is counted for each
    /// device that it is used for.
    fn bucket(&self, peer: &Peer, device: &DeviceId) -> Option<[u8; 32]> {
        let trust = self.shared.certificates.borrow().trust.clone()?;
        let certificate = peer.facts(&trust);
        let mut hasher = DefaultHasher::new();
        if certificate.holder == Holder::Registration {
            device.hash(&mut hasher);
        }
        let mut bucket = [0; 32];
        for (place, byte) in bucket.iter_mut().zip(certificate.key.as_str().bytes()) {
            *place = byte;
        }
        bucket[24..].copy_from_slice(&hasher.finish().to_be_bytes());
        Some(bucket)
    }

    fn follow(&self, device: &DeviceId) -> Option<Waiter> {
        self.shared.waiting.follow(device.as_str())
    }

    async fn answer(&self, request: server::DeviceRequest<Peer>) -> DeviceAnswer {
        let call = match self.call(&request.peer, &request.device) {
            Ok(call) => call,
            Err(answer) => return answer,
        };
        let answered = match request.operation {
            Operation::DataIn { if_none_match } => {
                self.configuration(&call, if_none_match.as_deref()).await
            }
            Operation::ControlIn => self.commands(&call).await,
            Operation::ControlOut(_) => {
                let granted = self.may(&call, Judged::ControlOut).await;
                granted.map(|_| {
                    self.shared.metrics.control_message();
                    DeviceAnswer::empty(StatusCode::OK)
                })
            }
            Operation::DataOut(message) => match message.directive.as_str() {
                // Most requests are polls, and what they do not need is not to be moved about with them.
                directive::HEARTBEAT => Box::pin(self.heartbeat(&call, message)).await,
                directive::ENROLMENT => Box::pin(self.enrolment(&call, message)).await,
                directive::REGISTRATION => {
                    let answered = Box::pin(self.registration(&call, message)).await;
                    if answered.is_err() {
                        self.shared.metrics.registration_failed();
                    }
                    answered
                }
                other => Err(bad(format!("there is no directive {other:?}"))),
            },
        };
        answered.unwrap_or_else(|refusal| refusal)
    }
}

type Answered = Result<DeviceAnswer, DeviceAnswer>;

impl DeviceApi {
    fn call(&self, peer: &Peer, device: &DeviceId) -> Result<Call, DeviceAnswer> {
        if !self.shared.holds_the_lease() {
            return Err(busy("another process serves devices by now"));
        }
        let trust = self.shared.certificates.borrow().trust.clone();
        let trust = trust.ok_or_else(|| busy("there is no CA yet that could tell who you are"))?;
        Ok(Call { device: device.clone(), certificate: peer.facts(&trust), now: clock::now() })
    }

    fn refuse(&self, refusal: Refusal) -> DeviceAnswer {
        self.shared.metrics.refused(refusal);
        let status = StatusCode::from_u16(refusal.code()).unwrap_or(StatusCode::FORBIDDEN);
        let retry_after = match refusal.code() {
            503 => Some(1),
            429 => Some(60),
            _ => None,
        };
        DeviceAnswer { retry_after, ..DeviceAnswer::refusal(status, refusal.sentence()) }
    }

    /// What becomes of a request. `Err` is a refusal.
    async fn outcome(&self, call: &Call, wish: Wish, said: Said) -> Result<Outcome, DeviceAnswer> {
        let certificate = call.certificate.clone();
        let request = DeviceRequest { device: call.device.clone(), certificate, wish };
        let outcome = match outcome_without_write(&self.shared, &request, call.now) {
            Some(granted @ Outcome::Granted { .. }) => granted,
            // Its EdgeDevice, or another of its name, may be on a page of the list that has not come yet.
            _ if !self.shared.is_ready() => return Err(busy(READING)),
            Some(outcome) => outcome,
            None => Box::pin(self.ask(request, said)).await?,
        };
        match outcome {
            Outcome::Refused(refusal) => Err(self.refuse(refusal)),
            other => Ok(other),
        }
    }

    /// Has it written down first.
    async fn ask(&self, request: DeviceRequest, said: Said) -> Result<Outcome, DeviceAnswer> {
        let (answer, answered) = oneshot::channel();
        let Said { hardware, model } = said;
        let asked = Box::new(Asked { request, hardware, model, answer });
        if self.inputs.try_send(Input::Asked(asked)).is_err() {
            return Err(busy("too many devices register at once"));
        }
        match tokio::time::timeout(LONGEST, answered).await {
            Ok(Ok(Ok(outcome))) => Ok(outcome),
            Ok(Ok(Err(Unavailable(why)))) => Err(busy(&why)),
            Ok(Err(_)) => Err(busy("this process ends; another goes on")),
            Err(_) => Err(busy("the cluster did not answer in time")),
        }
    }

    /// The namespace of a device that may do this.
    async fn may(&self, call: &Call, operation: Judged) -> Result<String, DeviceAnswer> {
        match self.outcome(call, Wish::Other(operation), Said::default()).await? {
            Outcome::Granted { namespace } => Ok(namespace),
            _ => Err(self.refuse(Refusal::DeviceUnknown)),
        }
    }

    async fn configuration(&self, call: &Call, known: Option<&str>) -> Answered {
        let namespace = self.may(call, Judged::DataIn).await?;
        let served = self.shared.served.get(&(namespace, call.device.as_str().to_owned()));
        let served = served.ok_or_else(|| busy("the configuration is being made"))?;
        let Some(configuration) = served.configuration else {
            return match known {
                Some(known) => Ok(DeviceAnswer {
                    etag: Some(known.to_owned()).filter(|known| !known.contains(',')),
                    ..DeviceAnswer::empty(StatusCode::NOT_MODIFIED)
                }),
                None => Err(busy(HELD)),
            };
        };
        let etag = format!("\"{}\"", configuration.version());
        let is_known = |known: &str| known.trim().trim_start_matches("W/") == etag;
        if known.is_some_and(|known| known.split(',').any(is_known)) {
            let etag = Some(etag);
            return Ok(DeviceAnswer { etag, ..DeviceAnswer::empty(StatusCode::NOT_MODIFIED) });
        }
        let envelope = Message {
            directive: directive::DEVICE.to_owned(),
            ..self.message(MessageType::Data, call.now)
        };
        let body = Bytes::from(configuration.body(&envelope));
        Ok(DeviceAnswer { etag: Some(etag), ..DeviceAnswer::json(StatusCode::OK, body) })
    }

    async fn commands(&self, call: &Call) -> Answered {
        match self.outcome(call, Wish::Other(Judged::ControlIn), Said::default()).await? {
            Outcome::Disconnect { namespace } => {
                let name = call.device.as_str().to_owned();
                // Told once more if this is lost: that it was told is written down by the controller.
                let _ = self.inputs.try_send(Input::Disconnected { name, namespace });
                let message = Message {
                    content: json!(Command::new(Command::DISCONNECT)),
                    ..self.message(MessageType::Command, call.now)
                };
                Ok(body(&message))
            }
            _ => Ok(DeviceAnswer::empty(StatusCode::OK)),
        }
    }

    async fn heartbeat(&self, call: &Call, message: Message) -> Answered {
        let namespace = self.may(call, Judged::Heartbeat).await?;
        let heartbeat: Heartbeat = content(message)?;
        self.shared.metrics.heartbeat();
        let place = (namespace, call.device.as_str().to_owned());
        let report = Report::of(&heartbeat);
        let is_new = self.shared.hear(&place, &report);
        let report = is_new.then_some(report);
        let (events, more_events) = events::of(&heartbeat);
        if report.is_some() || !events.is_empty() {
            let all_events = events.len() + more_events;
            let new = NewHeartbeat { place: place.clone(), report, events, more_events };
            if self.inputs.try_send(Input::Heartbeat(Box::new(new))).is_err() {
                // It says so again, but for the events.
                self.shared.beats.forget(&place);
                self.shared.metrics.events_dropped(all_events);
            }
        }
        Ok(DeviceAnswer::empty(StatusCode::OK))
    }

    async fn enrolment(&self, call: &Call, message: Message) -> Answered {
        let Enrolment { features, target_namespace } = content(message)?;
        let namespace = Some(target_namespace).filter(|namespace| !namespace.is_empty());
        let features = features.unwrap_or_default();
        let model: String = features.model_name.chars().take(LONGEST_MODEL).collect();
        let said = Said {
            hardware: features.hardware.as_ref().map(Hardware::from),
            model: Some(model).filter(|model| !model.is_empty()),
        };
        match self.outcome(call, Wish::Enrolment { namespace }, said).await? {
            Outcome::Waiting => Ok(DeviceAnswer::empty(StatusCode::OK)),
            _ => Ok(DeviceAnswer::empty(StatusCode::ALREADY_REPORTED)),
        }
    }

    async fn registration(&self, call: &Call, message: Message) -> Answered {
        let message_id = message.message_id.clone();
        let asked: Registration = content(message)?;
        let key = csr::read(asked.certificate_request.as_bytes())
            .map_err(|error| bad(format!("the certificate request cannot be used: {error}")))?;
        let certificates = self.shared.certificates.borrow().clone();
        let offer = certificates.offer(call.now).map_err(|error| busy(&error.to_string()))?;
        let hardware = asked.hardware.as_ref().map(Hardware::from);
        let wish = CertificateWish {
            key: Fingerprint::read(&key.fingerprint()),
            ca: CaId(offer.ca.clone()),
            issued: call.now,
            not_after: offer.life.not_after,
            labels: hardware.as_ref().map(observe::hardware_labels).unwrap_or_default(),
            hardware: hardware.as_ref().map(observe::hardware_facts),
        };
        let said = Said { hardware, model: None };
        let outcome = self.outcome(call, Wish::Registration(wish), said).await?;
        let Outcome::Granted { namespace } = outcome else {
            return Err(self.refuse(Refusal::NotApproved));
        };
        let issued = certificates.issue(&offer, &key, call.device.as_str(), &namespace);
        let issued = issued.map_err(|error| busy(&error.to_string()))?;
        self.shared.metrics.registered();
        let content = RegistrationAnswer {
            certificate: issued.certificate_pem,
            ca_bundle: Some(issued.ca_bundle_pem),
        };
        let answer = MessageResponse {
            message_id,
            directive: directive::REGISTRATION.to_owned(),
            content: json!(content),
            ..MessageResponse::default()
        };
        Ok(body(&answer))
    }

    fn message(&self, type_: MessageType, now: Timestamp) -> Message {
        let (message_id, version) = (uuid(), Message::VERSION);
        Message { type_, message_id, version, sent: Some(now), ..Message::default() }
    }
}

/// What a message says, as its directive has it.
fn content<T: DeserializeOwned + Default>(message: Message) -> Result<T, DeviceAnswer> {
    if message.content.is_null() {
        return Ok(T::default());
    }
    let directive = message.directive;
    serde_json::from_value(message.content).map_err(|error| {
        bad(format!("the content does not fit the directive {directive}: {error}"))
    })
}

fn bad(why: String) -> DeviceAnswer {
    DeviceAnswer::refusal(StatusCode::BAD_REQUEST, why)
}

/// `why` without the advice, which is the same for all of them.
fn busy(why: &str) -> DeviceAnswer {
    let why = format!("{why}; try again");
    let refusal = DeviceAnswer::refusal(StatusCode::SERVICE_UNAVAILABLE, why);
    DeviceAnswer { retry_after: Some(1), ..refusal }
}

fn body(message: &impl Serialize) -> DeviceAnswer {
    let json = serde_json::to_vec(message).unwrap_or_default();
    DeviceAnswer::json(StatusCode::OK, Bytes::from(json))
}

/// A random UUID.
fn uuid() -> String {
    let mut bytes = [0; 16];
    // Without random numbers there would be no TLS.
    let _ = ring::default_provider().secure_random.fill(&mut bytes);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
