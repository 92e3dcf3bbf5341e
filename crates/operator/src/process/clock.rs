//! The two clocks, read here and nowhere else.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// What waits is looked at this often, however long it waits.
const LONGEST_SLEEP: Duration = Duration::from_secs(86_400);

/// The time of day, for what is written down.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// When a timer has to end for a deadline of that time. Far away, it ends on the way: no timer runs for years. And a little later,
/// so that the deadline has passed on the wall clock too.
pub fn instant(at: Timestamp) -> Instant {
    let pause = Duration::try_from(at.duration_since(now())).unwrap_or_default();
    Instant::now() + pause.min(LONGEST_SLEEP) + Duration::from_millis(5)
}

/// Time since the machine was started, including what it slept: a lease must not outlive a suspended machine.
pub fn boottime() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
