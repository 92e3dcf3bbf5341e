//! Brings firmware to one device, and says done when the device itself says so.
//!
//! The story is in [`run`]. What it needs to know comes through [`args`]; the firmware through [`fetch`]; the board is
//! talked to in [`board`] and served in [`serve`]; whether it is the right one is judged in [`attest`]; whether it is
//! done is decided in [`verify`]. Nothing here prints: progress goes to a callback, the end is a value.

#![warn(clippy::too_many_lines)]

pub mod args;
pub mod attest;
pub mod board;
pub mod dice;
pub mod event;
pub mod failure;
pub mod fetch;
pub mod info;
pub mod outcome;
pub mod pace;
pub mod run;
pub mod serve;
pub mod tls;
pub mod transfer;
pub mod verify;

pub use failure::Failure;
