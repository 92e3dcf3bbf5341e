//! The played parts against the real API server. One binary, so that all tests share one cluster.

mod akri;
mod cluster;
mod controllers;
mod gate;
mod kubelet;
mod load_balancer;
mod process;

use std::time::Duration;

/// Longer than anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
