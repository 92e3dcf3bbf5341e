//! What stands around the device API: Linux devices as their agents behave, one or a fleet, the net between, and who has buckets for
//! them.
//!
//! ```text
//!   Fleet ──▶ Device ──▶ Wire ──▶ Client ──▶ the device API
//!               │        loses,    TLS 1.3,
//!             Ledger     repeats   h1 or h2
//! ```

pub mod args;
pub mod buckets;
pub mod bundle;
pub mod by_hand;
pub mod client;
mod credential;
pub mod device;
pub mod fleet;
pub mod ledger;
mod operation;
pub mod s3;
pub mod site;
pub mod wire;

pub use buckets::Buckets;
pub use bundle::Bundle;
pub use client::{Answer, Call, Client, Protocol};
pub use credential::{Clock, Credential};
pub use device::{Device, DeviceOptions, Identity, Manner};
pub use fleet::{Fleet, FleetOptions};
pub use ledger::{DeviceLedger, Outcome};
pub use operation::Operation;
pub use s3::{BucketClient, S3Server};
pub use site::{EdgeOperator, EdgeSite};
pub use wire::{Fate, Wire, WireOptions};
