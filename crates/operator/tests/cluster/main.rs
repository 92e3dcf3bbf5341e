//! The operator as a real process against a real API server, with exactly the rights `dist/install.yaml` gives it.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a test may stop at once and say why

mod attempts;
mod crash;
mod crds;
mod deletion;
mod devices;
mod edge_kinds;
mod edits;
mod faults;
mod foreign;
mod lease;
mod leftovers;
mod locks;
mod namespaces;
mod neighbours;
mod objects;
mod outages;
mod parking;
mod process;
mod refusals;
mod refused_status;
mod rollout;
mod sample;
mod services;
mod sizes;
mod specs;
mod status;
mod templates;
