//! A pause after each failure that grows with their number.

use std::time::Duration;

use tokio::time::Instant;

/// From the first failure to the next try.
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);

/// The pause after so many failures in a row.
pub fn pause(failures: u32) -> Duration {
    FIRST.saturating_mul(1 << failures.min(10)).min(LONGEST)
}

/// Counts failures in a row, and says until when to wait.
#[derive(Default)]
pub struct Backoff {
    failures: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// It failed again. Says when to try again.
    pub fn failed(&mut self) -> Instant {
        let until = Instant::now() + pause(self.failures);
        self.failures = self.failures.saturating_add(1);
        self.until = Some(until);
        until
    }

    /// It went well.
    pub fn succeeded(&mut self) {
        *self = Backoff::default();
    }

    /// Whether the last try failed.
    pub fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// How many have failed since one went well.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// When the pause ends, while it lasts.
    pub fn until(&self) -> Option<Instant> {
        self.until.filter(|until| *until > Instant::now())
    }
}
