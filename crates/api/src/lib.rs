//! The API: what users write, what they read back, and the foreign types in between. A folder for each system.
//!
//! No client and no runtime here, so that every other crate can depend on it.

#![warn(missing_docs)]
#![warn(clippy::too_many_lines)]

pub mod crd;
pub mod edge;
pub mod flashjob;
mod reasons;
