//! The operator as a real process against a real API server, with exactly the rights `dist/install.yaml` gives it.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a test may stop at once and say why

mod crash;
mod crds;
mod deletion;
mod devices;
mod lease;
mod leftovers;
mod objects;
mod process;
mod rollout;
mod sample;
mod services;
mod site;
mod specs;
mod status;
mod templates;
