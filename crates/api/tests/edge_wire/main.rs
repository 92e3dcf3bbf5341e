//! The messages of the device API: what agents send is read whatever is missing, what we send is what they expect.

#![allow(clippy::unwrap_used)] // a test may stop at once and say why

mod lenient;
mod vectors;
