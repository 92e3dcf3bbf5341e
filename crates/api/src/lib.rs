//! The API: what users write, what they read back, and the foreign types in between. A folder for each system.
//!
//! No client and no runtime here, so that every other crate can depend on it.

#![warn(missing_docs)]

pub mod crd;
pub mod flashjob;
