//! The kit's clock. The parts it plays live in real time, as the API server does, so nobody passes them a `now`.

/// The time by the machine's clock.
#[expect(clippy::disallowed_methods, reason = "the one place the kit asks for the time")]
pub fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
