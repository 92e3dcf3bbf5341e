//! What a device is made of, as it says it. The list of fields is the original's, which has it from another installer;
//! its agents fill in a few.

use serde::{Deserialize, Serialize};

use super::lenient::{is_empty, list, maybe_list, or_empty};

/// What a device is made of. A list that is not there says nothing: heartbeats may bring only what has changed.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct HardwareInfo {
    /// The host's name.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub hostname: String,
    /// How it starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<Boot>,
    /// Its processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Its memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Who made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_vendor: Option<SystemVendor>,
    /// Its network interfaces.
    #[serde(deserialize_with = "maybe_list", skip_serializing_if = "Option::is_none")]
    pub interfaces: Option<Vec<Interface>>,
    /// Its disks.
    #[serde(deserialize_with = "maybe_list", skip_serializing_if = "Option::is_none")]
    pub disks: Option<Vec<Disk>>,
    /// Its graphics processors.
    #[serde(deserialize_with = "maybe_list", skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Vec<Gpu>>,
    /// Its devices, as the kernel shows them.
    #[serde(deserialize_with = "maybe_list", skip_serializing_if = "Option::is_none")]
    pub host_devices: Option<Vec<HostDevice>>,
    /// What is mounted.
    #[serde(deserialize_with = "maybe_list", skip_serializing_if = "Option::is_none")]
    pub mounts: Option<Vec<Mount>>,
}

/// How a device starts.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct Boot {
    /// `uefi` or `bios`.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub current_boot_mode: String,
    /// The interface it starts from over the network.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub pxe_interface: String,
}

/// Processors.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct Cpu {
    /// Such as `x86_64`.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub architecture: String,
    /// How many.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub count: i64,
    /// What they can do, in the kernel's words.
    #[serde(deserialize_with = "list")]
    pub flags: Vec<String>,
    /// In MHz.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub frequency: f64,
    /// The model.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub model_name: String,
}

/// Memory.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct Memory {
    /// What is built in.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub physical_bytes: i64,
    /// What the system can use of it.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub usable_bytes: i64,
}

/// Who made a device.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct SystemVendor {
    /// The company.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub manufacturer: String,
    /// The product.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub product_name: String,
    /// Its serial number.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub serial_number: String,
    /// A virtual machine.
    #[serde(rename = "virtual", deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub is_virtual: bool,
}

/// A network interface.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct Interface {
    /// The name the firmware gives it.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub biosdevname: String,
    /// The client id for DHCP.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub client_id: String,
    /// Such as `up` and `broadcast`.
    #[serde(deserialize_with = "list")]
    pub flags: Vec<String>,
    /// A cable is plugged in.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub has_carrier: bool,
    /// Addresses with their prefix, such as 10.0.0.2/24.
    #[serde(deserialize_with = "list")]
    pub ipv4_addresses: Vec<String>,
    /// Addresses with their prefix.
    #[serde(deserialize_with = "list")]
    pub ipv6_addresses: Vec<String>,
    /// The hardware address.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub mac_address: String,
    /// The longest packet.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub mtu: i64,
    /// The system's name for it.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub name: String,
    /// The product.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub product: String,
    /// Megabits in a second.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub speed_mbps: i64,
    /// Who made it.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub vendor: String,
}

/// A disk.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct Disk {
    /// The device can start from it.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub bootable: bool,
    /// Its path by id.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub by_id: String,
    /// Its path by place.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub by_path: String,
    /// Such as `SSD`.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub drive_type: String,
    /// Its SCSI address.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub hctl: String,
    /// What tells it from others: by id, or else by path.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub id: String,
    /// How fast it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_perf: Option<IoPerf>,
    /// What the system was installed from.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub is_installation_media: bool,
    /// The model.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub model: String,
    /// The system's name for it.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub name: String,
    /// Its path.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub path: String,
    /// Its serial number.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub serial: String,
    /// Its size.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub size_bytes: i64,
    /// What it says of its health.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub smart: String,
    /// Who made it.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub vendor: String,
    /// Its world wide name.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub wwn: String,
}

/// How fast a disk is.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct IoPerf {
    /// Milliseconds that 99 of 100 fsyncs stay below.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub sync_duration: i64,
}

/// A graphics processor.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct Gpu {
    /// Its address on the bus.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub address: String,
    /// The product's number.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub device_id: String,
    /// The product.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub name: String,
    /// Who made it.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub vendor: String,
    /// The maker's number.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub vendor_id: String,
}

/// A device of the kernel.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct HostDevice {
    /// Its path.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub path: String,
    /// Such as `char` and `block`.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub device_type: String,
    /// Whose it is.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub owner: u32,
    /// The group it belongs to.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub group: u32,
    /// The kind of device.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub major: i64,
    /// Which of them.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub minor: i64,
}

/// Something that is mounted, or is to be.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct Mount {
    /// The block device.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub device: String,
    /// Where it is mounted.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub directory: String,
    /// The file system.
    #[serde(rename = "type", deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub type_: String,
    /// How it is mounted.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub options: String,
}
