//! A device that is left to itself.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::{Device, Manner, flotta, ours};
use crate::lock;

/// Between two tries to get in, in the field.
pub(super) const RETRY: Duration = Duration::from_secs(10);

impl Device {
    /// Lives until it is stopped: gets in if it has no certificate, then polls and beats. Told to disconnect, it stays away
    /// until [`rejoin`](Self::rejoin). It stops in the middle of whatever it does, as by a power cut, and can be run again.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let life = async {
            match self.options().manner {
                Manner::Flotta => flotta::live(self).await,
                Manner::Ours => ours::live(self).await,
            }
        };
        tokio::select! {
            () = stop => {}
            () = life => {}
        }
        self.0.data.close().await;
        self.0.second.close().await;
    }

    /// Waits until it may speak with the server.
    pub(super) async fn joined(&self) {
        // The sender is the device itself.
        let _ = self.0.joined.subscribe().wait_for(|joined| *joined).await;
    }

    /// Waits until it is told to disconnect.
    pub(super) async fn left(&self) {
        let _ = self.0.joined.subscribe().wait_for(|joined| !*joined).await;
    }

    pub(super) fn has_left(&self) -> bool {
        !*self.0.joined.borrow()
    }

    pub(super) fn must_register(&self) -> bool {
        lock(&self.0.state).must_register
    }

    /// A wait of the field.
    pub(super) async fn sleep(&self, in_the_field: Duration) {
        sleep(self.options().scaled(in_the_field)).await;
    }

    /// Between two heartbeats; `None` as long as it has no configuration, which says how long that is.
    pub(super) fn period(&self) -> Option<Duration> {
        let state = lock(&self.0.state);
        let period = state.configuration.as_ref()?.period;
        Some(self.options().scaled(period))
    }

    /// When the next heartbeat is due, by the last one or the start.
    pub(super) fn next_beat(&self, last: Instant) -> Option<Instant> {
        Some(last + self.period()?)
    }

    /// Whether two thirds of its certificate's life are over.
    pub(super) fn renewal_is_due(&self) -> bool {
        let Some(own) = self.credential() else { return false };
        let Some(shown) = own.shown() else { return false };
        let (from, to) = (shown.leaf().not_before(), shown.leaf().not_after());
        is_over(from, to, self.options().clock.now())
    }
}

fn is_over(from: Timestamp, to: Timestamp, now: Timestamp) -> bool {
    let (life, lived) = (to.as_second() - from.as_second(), now.as_second() - from.as_second());
    lived.saturating_mul(3) >= life.saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewal_is_due_when_two_thirds_are_over() {
        let at = |second| Timestamp::from_second(second).unwrap();
        assert!(!is_over(at(0), at(300), at(199)));
        assert!(is_over(at(0), at(300), at(200)));
        assert!(is_over(at(0), at(300), at(1000)), "and when it has expired");
    }
}
