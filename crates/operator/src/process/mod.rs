//! The process around the systems that it runs: their leases, what they write with, and what is asked of it over HTTP.

pub mod args;
pub mod client;
pub mod clock;
#[cfg(feature = "crash")]
pub mod crash;
pub mod crds;
mod lease;
pub mod metrics;
mod run;
mod server;
mod system;

pub use run::{fail, run};
pub use system::{Context, System};
