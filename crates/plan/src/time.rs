//! Time that does not run out: a sum past the end of time is the end of time.
//!
//! `Timestamp + duration` panics there, and times come from objects that others write: ledgers, Pods, Services. So nothing
//! in this crate or in the operator adds to a time in any other way.

use jiff::{SignedDuration, Timestamp};

/// `seconds` after `from`.
pub fn after(from: Timestamp, seconds: i64) -> Timestamp {
    later(from, SignedDuration::from_secs(seconds))
}

/// `by` after `from`.
pub fn later(from: Timestamp, by: SignedDuration) -> Timestamp {
    let end = if by.is_negative() { Timestamp::MIN } else { Timestamp::MAX };
    from.checked_add(by).unwrap_or(end)
}

/// Whether a clock that works could have said this: from 1970 until the year 3000. What is outside was not written by an
/// operator.
pub fn is_sane(time: Timestamp) -> bool {
    (0..YEAR_3000).contains(&time.as_second())
}

const YEAR_3000: i64 = 32_503_680_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_ends_and_nothing_falls_off() {
        let second = |s| Timestamp::from_second(s).unwrap();
        assert_eq!(after(second(5), 3), second(8));
        assert_eq!(after(second(5), -3), second(2));
        for by in [i64::MAX, i64::MIN] {
            let end = if by > 0 { Timestamp::MAX } else { Timestamp::MIN };
            assert_eq!(after(second(5), by), end);
            assert_eq!(after(end, by), end);
        }
    }

    #[test]
    fn sane_is_what_a_clock_may_say() {
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        assert!(is_sane(Timestamp::UNIX_EPOCH) && is_sane(time("2999-12-31T23:59:59Z")));
        assert!(!is_sane(time("1969-12-31T23:59:59Z")) && !is_sane(time("3000-01-01T00:00:00Z")));
    }
}
