//! The time. Whatever depends on it is given it, and this is where it comes from.

use jiff::Timestamp;

#[expect(clippy::disallowed_methods, reason = "the one place where the clock is read")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
