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
//! Devices are played too: [`board::Board`] is an ESP32 on a loopback address, with the [`attestation`] service that
//! vouches for it. They need no cluster, and `flashjob-sim boards` runs them alone.
//!
//! [`stage::Stage`] puts all of it together, with the real operator and the real flasher: what `flashjob-sim demo` shows.
//!
//! A failing part must fail the test that uses it, so errors are `anyhow` with context and waits have an end.

pub mod akri;
mod apply;
mod assets;
pub mod attestation;
pub mod audit;
pub mod board;
pub mod clock;
pub mod cluster;
pub mod control;
pub mod esp_image;
pub mod field;
pub mod forward;
pub mod gate;
mod insist;
pub mod installed;
pub mod kubelet;
pub mod load_balancer;
mod luck;
pub mod node;
mod observe;
mod pki;
pub mod process;
pub mod registry;
pub mod server_cert;
pub mod stage;
mod text;
pub mod usage;
pub mod wait;

pub use akri::{Agent, Akri};
pub use attestation::Attestation;
pub use audit::AuditEntry;
pub use board::{Board, BoardOptions, Fault, Times};
pub use cluster::{Cluster, Options};
pub use esp_image::Firmware;
pub use gate::{Call, Event, Fate, Gate, Verdict};
pub use kubelet::{End, Farewell, Kubelet, Program, Script, Started};
pub use load_balancer::{LoadBalancer, Pool};
pub use luck::Luck;
pub use process::Running;
pub use registry::Registry;
pub use server_cert::{KeyKind, ServerCert};
pub use usage::Usage;
pub use wait::eventually;
