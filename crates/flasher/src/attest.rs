//! Who judges a device's certificate: the attestation service, or roots that were given.
//!
//! The original's service takes 2.5 s for an answer and one caller at a time, so with many devices at once most of the
//! time goes into waiting for it. It is asked again and again, at uneven times, until the time for it is up.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use flashjob_api::flashjob::Reason;
use reqwest::{Client, StatusCode};
use tokio::time::Instant;

use crate::args::Attestation;
use crate::dice::{self, DiceCertificate};
use crate::event::{Event, Tell};
use crate::failure::{Failure, chain};
use crate::pace::Pace;

/// How long the service is asked. In that time it judges some seventy, in no certain order.
const PATIENCE: Duration = Duration::from_secs(180);
/// For a place in its queue, before it is asked for anew.
const CONNECT: Duration = Duration::from_secs(2);
/// Between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Who judges.
#[derive(Clone)]
pub enum Judge {
    /// The attestation service.
    Service(Client, String, Pace),
    /// We, by these roots.
    Roots(Vec<DiceCertificate>),
    /// Nobody.
    Nobody,
}

impl Judge {
    /// Makes ready whoever is to judge.
    pub fn new(attestation: &Attestation, pace: Pace) -> Result<Judge, Failure> {
        match attestation {
            Attestation::Nobody => Ok(Judge::Nobody),
            Attestation::Roots(pem) => dice::roots(pem).map(Judge::Roots),
            Attestation::Service(url) => {
                let mut client = Client::builder()
                    .no_proxy()
                    .pool_max_idle_per_host(0)
                    // Its queue is short, and the kernel asks for a place in it at ever longer intervals: better give up
                    // and ask anew.
                    .connect_timeout(CONNECT);
                if url.starts_with("http://") {
                    // Plain HTTP needs no CAs, and an image may have none.
                    client = client.tls_certs_only([]);
                }
                let client = client.build().map_err(|error| unavailable(url, &chain(&error)))?;
                Ok(Judge::Service(client, url.clone(), pace))
            }
        }
    }

    /// Who that is, for people.
    pub fn name(&self) -> &'static str {
        match self {
            Judge::Service(..) => "the attestation service",
            Judge::Roots(_) => "one of the given roots",
            Judge::Nobody => "the device itself, and nobody checks that",
        }
    }

    /// Whether this certificate is good.
    pub async fn judge(&self, certificate: &DiceCertificate, tell: &Tell) -> Result<(), Failure> {
        match self {
            Judge::Nobody => Ok(()),
            Judge::Roots(roots) => judge_by_roots(roots, certificate),
            Judge::Service(client, url, pace) => {
                ask(client, url, pace.verdict(), certificate, tell).await
            }
        }
    }
}

fn judge_by_roots(roots: &[DiceCertificate], certificate: &DiceCertificate) -> Result<(), Failure> {
    let mut why = String::new();
    for root in roots {
        match certificate.is_issued_by(root) {
            Ok(()) => return Ok(()),
            Err(error) => why = error,
        }
    }
    let issuer = &certificate.issuer;
    let message = match roots {
        [_] => format!("the root does not vouch for device {issuer}: {why}"),
        _ => format!(
            "none of the {} roots vouches for device {issuer}; is it enrolled?",
            roots.len()
        ),
    };
    Err(Failure::new(Reason::AttestationFailed, message))
}

async fn ask(
    client: &Client,
    url: &str,
    answers_within: Duration,
    certificate: &DiceCertificate,
    tell: &Tell,
) -> Result<(), Failure> {
    let end = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(500);
    loop {
        let left = end.saturating_duration_since(Instant::now()).min(answers_within);
        let request = client.post(url).header("content-type", "text/plain").timeout(left);
        let why = match request.body(certificate.to_pem()).send().await {
            Ok(answer) if answer.status() == StatusCode::OK => return Ok(()),
            Ok(answer) if answer.status() == StatusCode::UNAUTHORIZED => {
                let message = format!(
                    "the attestation service does not vouch for device {}; is it enrolled?",
                    certificate.issuer
                );
                return Err(Failure::new(Reason::AttestationFailed, message));
            }
            Ok(answer) => format!("it answers {}", answer.status()),
            Err(error) => chain(&error),
        };
        let next = Instant::now() + uneven(pause);
        if next >= end {
            return Err(unavailable(url, &why));
        }
        tell(Event::Again(format!("the attestation service at {url}: {why}")));
        tokio::time::sleep_until(next).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn unavailable(url: &str, why: &str) -> Failure {
    let message = format!("the attestation service at {url} does not judge the device: {why}");
    Failure::new(Reason::AttestationUnavailable, message)
}

/// Between half and all of it, so that many who wait do not come at once.
fn uneven(pause: Duration) -> Duration {
    let random = RandomState::new().hash_one(0) % 1000;
    pause / 2 + pause / 2 * u32::try_from(random).unwrap_or(0) / 1000
}
