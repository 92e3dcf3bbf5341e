//! What stands in for the outside world in tests and in the demo.
//!
//! The control plane is real: [`cluster::Cluster`] starts etcd and kube-apiserver. The rest of a cluster is played
//! over that real API, each part by a module that says what it stands for and where it differs:
//!
//! ```text
//!   operator ──▶ gate ──▶ kube-apiserver ──▶ etcd
//!                            ▲   ▲   ▲
//!                      akri ─┘   │   └─ load_balancer
//!                             kubelet
//! ```
//!
//! Devices are played too: [`flashjob::Board`] is an ESP32 on a loopback address, with the [`flashjob::attestation`] service that
//! vouches for it. They need no cluster, and `flashjob-sim boards` runs them alone. [`edge::Device`] is a Linux device that
//! registers and fetches what it is to run; it needs an address to call.
//!
//! [`flashjob::Site`] puts all of it together, with the real operator: for tests, and for what `flashjob-sim demo` shows.
//!
//! A failing part must fail the test that uses it, so errors are `anyhow` with context and waits have an end.

#![warn(clippy::too_many_lines)]

pub mod clock;
pub mod cluster;
pub mod edge;
pub mod flashjob;
pub mod http;
mod lock;
pub mod node;
mod observe;
pub mod operator;
mod output;
mod pki;
pub mod process;
pub mod programs;
mod retry;
mod rng;
mod text;
pub mod usage;
pub mod wait;

pub use lock::lock;
pub use operator::{Launcher, Operator};
pub use process::Running;
pub use rng::SeededRng;
pub use usage::Usage;
pub use wait::{PATIENCE, eventually};
