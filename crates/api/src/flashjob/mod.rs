//! FlashJob: firmware for devices that Akri has found.

pub mod crd;
mod device_state;
pub mod flash_pod;
pub mod instance;
mod reason;
mod report;
mod spec;
mod status;

pub use device_state::DeviceState;
pub use reason::Reason;
pub use report::Report;
pub use spec::{
    DeviceSelector, ExternalTrafficPolicy, FlashJob, FlashJobSpec, Retry, Rollout, ServiceOptions,
    ServiceType, Timeouts, Verify, VersionPolicy,
};
pub use status::{Batch, Counts, Failure, FlashJobStatus, InFlight, Phase};

/// The group of everything that is FlashJob's: labels, annotations and the finalizer start with it.
pub const GROUP: &str = "application.flashjob.nbfc.io";
