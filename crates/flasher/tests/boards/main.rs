//! The real flasher against boards that behave as real ones do, with a real registry and real TLS. What a board's own
//! ledger says decides, not what the flasher says.

#![allow(clippy::unwrap_used)] // a test may stop at once and say why

mod crowd;
mod desk;
mod ends;
mod faults;
mod mbedtls;
mod refusals;
mod ways;
