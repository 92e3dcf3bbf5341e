//! Edge: Linux devices that register over mutual TLS, fetch what they shall run and report how it goes.

#![allow(dead_code, unused_imports, reason = "no system of the process yet")]

pub mod certificates;
pub mod server;
