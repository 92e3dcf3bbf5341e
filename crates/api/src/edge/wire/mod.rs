//! What devices and the device API say to each other, as JSON in snake_case. The operator and the agent share these types.
//!
//! Reading is lenient, because agents of every age speak to us: null is the same as nothing, a time in the year 1 is no
//! time, unknown keys are passed over. Writing is exact, because those agents are not lenient: what is empty is left
//! out, but for the few lists that they expect, and times have milliseconds.

mod command;
mod configuration;
mod hardware;
mod heartbeat;
pub(super) mod lenient;
mod message;
mod metrics;
mod registration;
mod to_kind;
mod workload;

pub use command::Command;
pub use configuration::{
    AnsibleManager, DeviceConfiguration, DeviceConfigurationMessage, HardwareProfile,
    HeartbeatConfiguration, LogCollection, OsInformation, S3, Secret, Storage, SyslogConfig,
};
pub use hardware::{
    Boot, Cpu, Disk, Gpu, HardwareInfo, HostDevice, Interface, IoPerf, Memory, Mount, SystemVendor,
};
pub use heartbeat::{Agent, Event, Heartbeat, UpgradeStatus, WorkloadStatus};
pub use message::{Message, MessageResponse, MessageType, directive};
pub use metrics::{AllowList, ComponentMetrics, DeviceMetrics, MetricsReceiver, MetricsRetention};
pub use registration::{Enrolment, Features, Registration, RegistrationAnswer};
pub use workload::{
    ContainerMetrics, DataConfiguration, DataPath, ImageRegistries, Workload, WorkloadMetrics,
};
