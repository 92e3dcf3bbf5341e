//! The command line as people use it: the real program, on a real API server, with and without a terminal.

#![allow(clippy::unwrap_used)] // a test may stop at once and say why

mod check;
mod conversation;
mod devices;
mod edge;
mod flags;
mod plan;
mod roles;
mod rollout;
mod server_cert;
mod site;
mod words;
