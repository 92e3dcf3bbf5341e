//! The pure core of each system, a folder each: what is seen goes in, and what to do comes out as data.
//!
//! Nothing here waits, reads a clock, an environment or a random number, or talks to anybody.

#![warn(clippy::too_many_lines)]

pub mod edge;
pub mod flashjob;
pub mod time;
