//! FlashJob: firmware for devices that Akri has found.

pub mod crd;
pub mod instance;
mod reason;
mod spec;
mod status;

pub use reason::Reason;
pub use spec::{
    DeviceSelector, ExternalTrafficPolicy, FlashJob, FlashJobSpec, Retry, Rollout, ServiceOptions,
    ServiceType, Timeouts, Verify, VersionPolicy,
};
pub use status::{Batch, Counts, Failure, FlashJobStatus, InFlight, Phase};

/// The group of everything that is FlashJob's: labels, annotations and the finalizer start with it.
pub const GROUP: &str = "application.flashjob.nbfc.io";
