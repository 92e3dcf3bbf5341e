//! The bucket that is claimed for a device.
//!
//! ```text
//!   settings ──▶ Wish ──┐
//!   ObjectBucketClaim ──┴▶ decide ──▶ Claim ──▶ Missing: a claim is made
//!                                       └─────▶ Bound ──▶ ConfigMap, Secret ──┬▶ Claimed: a Bucket
//!                                                              flag, Route ──┘
//! ```
//!
//! The claim, its ConfigMap and its Secret have the name of the device. The device owns the claim, so the cluster's garbage
//! collector takes it away after the device; the original left it. A bucket that is still to come holds nothing up: until it is
//! there the device is served everything else.

mod claim;
mod decide;
mod route;
mod server;

pub use claim::{ClaimFacts, ClaimOwner, Place, not_made, object};
pub use decide::{Claim, Known, Wish, decide};
pub use route::{ROUTE, ROUTE_NAMESPACE, Route};
pub use server::{Address, Claimed, Server};

/// How Edge was started, as far as buckets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageSettings {
    /// Devices that say nothing about it have a bucket claimed for them.
    pub auto: bool,
    /// The storage class of claims.
    pub class: String,
    pub server: Server,
}
