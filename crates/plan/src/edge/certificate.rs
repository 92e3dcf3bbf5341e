//! What a decision needs of a client's certificate. That the client has its key was proved by the handshake.

use jiff::{SignedDuration, Timestamp};

use super::device_id::DeviceId;
use super::keys::{CaId, Fingerprint};
use crate::time::later;

/// Certificates begin this long before they are made, for devices whose clock is behind. Flotta's do the same.
pub const BACKDATED: SignedDuration = SignedDuration::from_hours(24);

/// The namespace of a device whose certificate names none, as those of Flotta's first releases.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Whom a certificate is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// No CA of ours has signed it, or it is for something that is no device.
    Foreign,
    /// The bundle that devices are shipped with. All have the same.
    Registration,
    /// One device.
    Device {
        id: DeviceId,
        namespace: String,
        /// Which of ours has signed it.
        ca: CaId,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    pub holder: Holder,
    pub key: Fingerprint,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

impl CertificateFacts {
    /// When it was made.
    pub fn issued(&self) -> Timestamp {
        later(self.not_before, BACKDATED)
    }

    /// Whether it may be used at that time.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.not_before <= now && now <= self.not_after
    }
}
