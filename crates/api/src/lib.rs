//! The API: what users write, what they read back, and the foreign types in between.
//!
//! No client and no runtime here, so that every other crate can depend on it.

pub mod crd;
pub mod instance;
mod reason;
mod spec;
mod status;

pub use reason::Reason;
pub use spec::*;
pub use status::*;

/// The group of everything that is ours: labels, annotations and the finalizer start with it.
pub const GROUP: &str = "application.flashjob.nbfc.io";
