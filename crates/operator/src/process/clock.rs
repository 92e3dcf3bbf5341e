//! The two clocks, read here and nowhere else.

use std::time::Duration;

use jiff::Timestamp;

/// The time of day, for what is written down.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Time since the machine was started, including what it slept: a lease must not outlive a suspended machine.
pub fn boottime() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
