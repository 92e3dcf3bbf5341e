//! The pure core of Edge: who may do what, which keys speak for a device, and what becomes of the cluster's own certificates.
//!
//! ```text
//!   certificate ──▶ CertificateFacts ─┐
//!   EdgeDevice, tombstone ──▶ Record ─┼──▶ auth::judge ──▶ Access
//!   path and directive ──▶ Operation ─┘
//! ```
//!
//! A request says who it is by the certificate of its connection, and the answer depends on nothing but that, on what is on
//! record of the device, and on the time. What such an answer costs (a key that comes into use is written down before it is
//! given) is said with it.

pub mod auth;
pub mod certificate;
pub mod certificates;
pub mod device_id;
pub mod finalizers;
pub mod keys;
pub mod labels;
pub mod place;
pub mod refusal;
pub mod tombstone;
