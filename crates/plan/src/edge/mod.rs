//! The pure core of Edge: who may do what, which keys speak for a device, and what becomes of the cluster's own certificates.
//!
//! ```text
//!   certificate ──▶ CertificateFacts ─┐
//!   EdgeDevice, tombstone ──▶ Entry ──┼──▶ request::decide ──▶ an answer, or a write that comes before it
//!   path and directive ──▶ Wish ──────┘     (by the table of auth::judge)
//!
//!   EdgeDevice, tombstone, signed request ──▶ Entry ──▶ duties::decide ──▶ a write that nobody waits for
//! ```
//!
//! A request says who it is by the certificate of its connection, and the answer depends on nothing but that, on what is on
//! record of the device, and on the time. What such an answer costs (a key that comes into use is written down before it is
//! given) is said with it.

pub mod auth;
pub mod certificate;
pub mod certificates;
pub mod configuration;
pub mod device_id;
pub mod devices;
pub mod duties;
pub mod facts;
pub mod finalizers;
pub mod heartbeat;
pub mod keys;
pub mod labels;
pub mod place;
pub mod preview;
pub mod problem;
pub mod read;
pub mod refusal;
pub mod request;
pub mod sets;
pub mod storage;
pub mod tombstone;
pub mod workloads;

#[cfg(test)]
mod tests {
    //! What tests of several modules stand on.

    use super::facts::{EdgeDeviceFacts, StatusFacts};
    use super::finalizers::FINALIZER;
    use super::keys::Keys;

    /// An EdgeDevice of that namespace that nothing is to be done for, and that no key is known of.
    pub fn device(namespace: &str) -> EdgeDeviceFacts {
        EdgeDeviceFacts {
            namespace: namespace.into(),
            uid: format!("uid-{namespace}"),
            resource_version: 1,
            generation: Some(1),
            being_deleted: false,
            finalizers: vec![FINALIZER.into()],
            keys: Ok(Keys::default()),
            unclaimed: false,
            labels: std::collections::BTreeMap::new(),
            settings: None,
            status: StatusFacts::default(),
        }
    }
}
