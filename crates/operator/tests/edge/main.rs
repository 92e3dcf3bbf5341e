//! Edge as a real process against a real API server, with exactly the rights `dist/install-edge.yaml` gives it, spoken to by
//! sim's devices, curl and openssl.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a test may stop at once and say why

mod backup;
mod ca;
#[cfg(feature = "crash")]
mod crash;
#[cfg(feature = "crash")]
mod crash_workloads;
mod crd_return;
mod curl;
mod deletion;
mod device_events;
mod empty;
mod fuzz;
mod heartbeat_shapes;
mod heartbeats;
mod kit;
mod late_leader;
mod liveness;
mod openssl;
mod process;
mod references;
mod registration;
mod replicas;
mod restarts;
mod rotation;
mod secrets;
mod sets;
mod sources;
mod start;
mod steady;
mod storage;
mod synced;
mod table;
mod wait;
mod workload_kit;
mod workloads;
