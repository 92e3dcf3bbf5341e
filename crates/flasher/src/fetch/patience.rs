//! What passes and what lasts: a registry that restarts must not fail a flash, a wrong password must at once.

use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::failure::{Failure, chain};

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Why one request brought nothing.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Another try may end differently.
    Passing(String),
    /// The registry says that there is no such thing.
    Missing,
    /// Another try ends the same.
    Lasting(Failure),
}

impl Trouble {
    pub(super) fn lasting(message: impl Into<String>) -> Self {
        Self::Lasting(Failure::pull(message))
    }

    /// Sorts what the HTTP client says. A refused, broken or silent connection passes; TLS that does not fit lasts.
    pub(super) fn of(host: &str, error: reqwest::Error) -> Self {
        // The address of a redirect may carry a signature that is good for a download.
        let error = error.without_url();
        if let Some(tls) = tls_error(&error) {
            let hint = match &tls {
                rustls::Error::InvalidCertificate(_) => {
                    "; if it has a CA of its own, give that in REGISTRY_CA"
                }
                rustls::Error::InvalidMessage(_) => {
                    "; if it speaks plain HTTP, set REGISTRY_PLAIN_HTTP=1"
                }
                _ => "",
            };
            return Self::lasting(format!("no TLS with the registry {host}: {tls}{hint}"));
        }
        if error.is_builder() || error.is_redirect() {
            let text = chain(&error);
            return Self::lasting(format!(
                "the registry {host} sends us to an address that is not used: {text}; \
                 plain HTTP is used only with REGISTRY_PLAIN_HTTP=1"
            ));
        }
        Self::Passing(chain(&error))
    }
}

/// The TLS error below an HTTP error. `io::Error` hides what it wraps from `source`.
fn tls_error(error: &reqwest::Error) -> Option<rustls::Error> {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(tls) = error.downcast_ref::<rustls::Error>() {
            return Some(tls.clone());
        }
        next = match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

/// How long an outage may last, and the pauses between tries.
#[derive(Debug)]
pub(super) struct Patience {
    limit: Duration,
    since: Option<Instant>,
    pause: Duration,
}

impl Patience {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, since: None, pause: FIRST_PAUSE }
    }

    /// Something came: the next trouble is a new outage.
    pub(super) fn progress(&mut self) {
        self.since = None;
        self.pause = FIRST_PAUSE;
    }

    /// Waits before the next try, or says that it has been long enough.
    pub(super) async fn wait(&mut self, host: &str, trouble: &str) -> Result<(), Failure> {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        if now + self.pause > since + self.limit {
            let seconds = self.limit.as_secs();
            return Err(Failure::pull(format!(
                "the registry {host} could not be used for {seconds} s: {trouble}"
            )));
        }
        sleep(self.pause.mul_f64(jitter())).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

/// Between 0.75 and 1: a rollout's flashers that lost the registry together come back one by one.
fn jitter() -> f64 {
    1.0 - f64::from(RandomState::new().hash_one(0) as u16) / f64::from(u16::MAX) / 4.0
}
