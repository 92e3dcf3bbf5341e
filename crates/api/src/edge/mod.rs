//! Edge: Linux devices that register, fetch a configuration, run pods and report. The kinds and the messages are
//! Flotta's, so its manifests and its agents work unchanged.

mod hardware;
pub mod wire;

pub use hardware::{
    Boot, Cpu, Disk, Gpu, Hardware, HostDevice, Interface, IoPerf, Memory, Mount, SystemVendor,
};

/// The group of everything that is Edge's: annotations and the finalizer start with it.
pub const GROUP: &str = "management.project-flotta.io";
