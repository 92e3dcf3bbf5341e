//! What a device is to do, as it is sent.
//!
//! ```text
//!   workload ─────────▶ fragment ──▶ Fragment ─────┐
//!   Secrets, ConfigMaps ─┤ Material                ├──▶ hold::serve ──▶ compose ──▶ Configuration ──▶ body, version
//!   device, set ──▶ effective ──▶ settings ────────┘
//!                    bucket ──────────┘
//! ```
//!
//! A workload is rendered once for all its devices, settings once for all devices that have the same, and what is put
//! together for one of them is a handful of pointers. [`Needs`] says which Secrets and ConfigMaps have to be read before. The
//! version is a hash of all that is sent: the same for every process that serves, and another one exactly when something
//! changes. So who has it need not be told again.

mod compose;
mod effective;
mod fragment;
mod hold;
mod masked;
mod material;
mod needs;
mod of_device;
mod reader;
mod references;
mod settings;
mod storage;
mod support;
mod yaml;

pub use compose::{Composed, Configuration, LARGEST_CONFIGURATION, SettingsText, compose};
pub use effective::{Membership, effective};
pub use fragment::{Fragment, WorkloadInput, fragment};
pub use hold::{Serve, Served, Wanted, serve};
pub use masked::masked;
#[cfg(test)]
pub(super) use material::tests::{Closed, Namespace};
pub use material::{ConfigMapData, Found, Lack, Material, NOT_READABLE, SecretData};
pub use needs::Needs;
pub use of_device::{Placed, Rendered, workloads_of};
pub use settings::{RenderedSettings, heartbeat_period, render as render_settings};
pub use storage::Bucket;
pub(super) use storage::{claimed, names};
pub use support::unsupported;
