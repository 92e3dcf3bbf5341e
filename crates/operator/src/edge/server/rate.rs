//! How often a client may ask. Devices poll twice in five seconds; what asks more than fifty times as often has gone wrong.
//!
//! A client has one place in a table of fixed size, found by hash. Two may share a place, and then share what they may have;
//! with a hundred times fewer requests than they may have, they never notice. So the table neither grows nor has to be swept,
//! and who comes with ever new names gets no more of it. The hash has a key of its own in each process: nobody can choose
//! with whom to share.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PLACES: usize = 1 << 17;

/// A steady rate, and how many may come at once.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    every: Duration,
    burst: u32,
}

impl Rate {
    /// One each time that this long has passed, and this many at once.
    pub const fn new(every: Duration, burst: u32) -> Self {
        Self { every, burst }
    }
}

pub const REQUESTS: Rate = Rate::new(Duration::from_millis(50), 60);
pub const REGISTRATIONS: Rate = Rate::new(Duration::from_secs(5), 5);
/// Lines in the log about what clients do.
pub const LOG_LINES: Rate = Rate::new(Duration::from_millis(100), 50);

/// When the last of those who came would have come, had they kept to the rate, in nanoseconds.
#[derive(Debug, Default)]
pub struct Meter(AtomicU64);

impl Meter {
    /// `Err`: not now, but after that long.
    pub fn take(&self, rate: Rate, now: Duration) -> Result<(), Duration> {
        let (every, now) = (nanos(rate.every), nanos(now));
        let ahead = every * u64::from(rate.burst.saturating_sub(1));
        let step = |due: u64| (due <= now + ahead).then(|| due.max(now) + every);
        match self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step) {
            Ok(_) => Ok(()),
            Err(due) => Err(Duration::from_nanos(due - now - ahead)),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// One limit, for everybody.
pub struct Limit {
    rate: Rate,
    hash: RandomState,
    places: Box<[Meter]>,
}

impl Limit {
    pub fn new(rate: Rate) -> Self {
        let places = (0..PLACES).map(|_| Meter::default()).collect();
        Self { rate, hash: RandomState::new(), places }
    }

    /// `Err`: not now, but after that long.
    pub fn take(&self, who: &[u8; 32], now: Duration) -> Result<(), Duration> {
        let place = self.hash.hash_one(who) as usize % PLACES;
        self.places[place].take(self.rate, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_rate_and_a_pause_gives_it_back() {
        let limit = Limit::new(REGISTRATIONS);
        let at = Duration::from_secs;
        let who = [7; 32];
        assert!((0..5).all(|_| limit.take(&who, at(100)).is_ok()));
        assert_eq!(limit.take(&who, at(100)), Err(at(5)));
        assert_eq!(limit.take(&who, at(103)), Err(at(2)));
        assert_eq!(limit.take(&who, at(105)), Ok(()));
        assert_eq!(limit.take(&who, at(105)), Err(at(5)));
        assert!((0..5).all(|_| limit.take(&who, at(1000)).is_ok()));
        assert!(limit.take(&who, at(1000)).is_err());
    }

    #[test]
    fn others_are_not_concerned() {
        let limit = Limit::new(REQUESTS);
        let now = Duration::from_secs(1);
        while limit.take(&[1; 32], now).is_ok() {}
        let free = (2..=201u8).filter(|n| limit.take(&[*n; 32], now).is_ok()).count();
        assert!(free >= 199, "{free}");
    }
}
