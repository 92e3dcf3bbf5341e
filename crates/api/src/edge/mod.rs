//! Edge: Linux devices that register, fetch a configuration, run pods and report. The kinds and the messages are
//! Flotta's, so its manifests and its agents work unchanged.

mod bucket_claim;
pub mod crd;
mod device;
mod hardware;
mod kinds;
mod metrics;
mod reason;
mod settings;
mod signed_request;
pub mod wire;
mod workload;

pub use bucket_claim::{ObjectBucketClaim, ObjectBucketClaimSpec};
pub use device::{DeviceSpec, DeviceStatus, DeviceWorkload, UpgradeInformation};
pub use hardware::{
    Boot, Cpu, Disk, Gpu, Hardware, HostDevice, Interface, IoPerf, Memory, Mount, SystemVendor,
};
pub use kinds::{
    EdgeDeployment, EdgeDeploymentSpec, EdgeDevice, EdgeDeviceGroup, EdgeDeviceGroupSpec,
    EdgeDeviceSet, EdgeDeviceSetSpec, EdgeDeviceSignedRequest, EdgeDeviceSignedRequestSpec,
    EdgeDeviceSpec, EdgeWorkload, EdgeWorkloadSpec, SetStatus,
};
pub use metrics::{
    ComponentMetrics, ContainerMetrics, DeviceMetrics, MetricsReceiver, MetricsRetention,
    WorkloadMetrics,
};
pub use reason::EdgeReason;
pub use settings::{
    HardwareProfile, Heartbeat, LogCollection, NameRef, OsInformation, S3Storage, Settings, Storage,
};
pub use signed_request::{
    Features, SignedRequestCondition, SignedRequestSpec, SignedRequestStatus,
};
pub use workload::{
    Data, DataPath, ImageRegistries, Pod, WorkloadCounts, WorkloadSpec, WorkloadStatus,
};

/// The group of everything that is Edge's: annotations and the finalizer start with it.
pub const GROUP: &str = "management.project-flotta.io";
