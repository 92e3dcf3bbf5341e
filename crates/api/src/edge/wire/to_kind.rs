//! From the wire to the kind: snake_case becomes camelCase, and what is empty is not shown.
//!
//! A device decides what it says, and all of it ends up in etcd, in everybody's memory and on terminals. So texts and lists
//! are cut at lengths that no honest device reaches, and control characters become spaces.

use super::hardware as wire;
use crate::edge::hardware as kind;

/// Entries of a list that are kept.
const MAX_ENTRIES: usize = 512;
/// Characters of a text that are kept.
const MAX_TEXT: usize = 256;

fn kept(said: &str) -> String {
    said.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_TEXT).collect()
}

fn text(said: &str) -> Option<String> {
    (!said.is_empty()).then(|| kept(said))
}

fn number(said: i64) -> Option<i64> {
    (said != 0).then_some(said)
}

fn texts(said: &[String]) -> Option<Vec<String>> {
    (!said.is_empty()).then(|| said.iter().take(MAX_ENTRIES).map(|said| kept(said)).collect())
}

fn entries<'a, W, K: From<&'a W>>(said: &'a Option<Vec<W>>) -> Option<Vec<K>> {
    said.as_ref().map(|said| said.iter().take(MAX_ENTRIES).map(K::from).collect())
}

impl From<&wire::HardwareInfo> for kind::Hardware {
    fn from(said: &wire::HardwareInfo) -> Self {
        Self {
            hostname: text(&said.hostname),
            boot: said.boot.as_ref().map(Into::into),
            cpu: said.cpu.as_ref().map(Into::into),
            memory: said.memory.as_ref().map(Into::into),
            system_vendor: said.system_vendor.as_ref().map(Into::into),
            interfaces: entries(&said.interfaces),
            disks: entries(&said.disks),
            gpus: entries(&said.gpus),
            host_devices: entries(&said.host_devices),
            mounts: entries(&said.mounts),
        }
    }
}

impl From<&wire::Boot> for kind::Boot {
    fn from(said: &wire::Boot) -> Self {
        Self {
            current_boot_mode: text(&said.current_boot_mode),
            pxe_interface: text(&said.pxe_interface),
        }
    }
}

impl From<&wire::Cpu> for kind::Cpu {
    fn from(said: &wire::Cpu) -> Self {
        Self {
            architecture: text(&said.architecture),
            count: number(said.count),
            flags: texts(&said.flags),
            frequency: (said.frequency != 0.0).then(|| format!("{:.2}", said.frequency)),
            model_name: text(&said.model_name),
        }
    }
}

impl From<&wire::Memory> for kind::Memory {
    fn from(said: &wire::Memory) -> Self {
        Self {
            physical_bytes: number(said.physical_bytes),
            usable_bytes: number(said.usable_bytes),
        }
    }
}

impl From<&wire::SystemVendor> for kind::SystemVendor {
    fn from(said: &wire::SystemVendor) -> Self {
        Self {
            manufacturer: text(&said.manufacturer),
            product_name: text(&said.product_name),
            serial_number: text(&said.serial_number),
            is_virtual: said.is_virtual.then_some(true),
        }
    }
}

impl From<&wire::Interface> for kind::Interface {
    fn from(said: &wire::Interface) -> Self {
        Self {
            biosdevname: text(&said.biosdevname),
            client_id: text(&said.client_id),
            flags: texts(&said.flags),
            has_carrier: said.has_carrier.then_some(true),
            ipv4_addresses: texts(&said.ipv4_addresses),
            ipv6_addresses: texts(&said.ipv6_addresses),
            mac_address: text(&said.mac_address),
            mtu: number(said.mtu),
            name: text(&said.name),
            product: text(&said.product),
            speed_mbps: number(said.speed_mbps),
            vendor: text(&said.vendor),
        }
    }
}

impl From<&wire::Disk> for kind::Disk {
    fn from(said: &wire::Disk) -> Self {
        let sync = |perf: &wire::IoPerf| kind::IoPerf { sync_duration: number(perf.sync_duration) };
        Self {
            bootable: said.bootable.then_some(true),
            by_id: text(&said.by_id),
            by_path: text(&said.by_path),
            drive_type: text(&said.drive_type),
            hctl: text(&said.hctl),
            id: text(&said.id),
            io_perf: said.io_perf.as_ref().map(sync),
            is_installation_media: said.is_installation_media.then_some(true),
            model: text(&said.model),
            name: text(&said.name),
            path: text(&said.path),
            serial: text(&said.serial),
            size_bytes: number(said.size_bytes),
            smart: text(&said.smart),
            vendor: text(&said.vendor),
            wwn: text(&said.wwn),
        }
    }
}

impl From<&wire::Gpu> for kind::Gpu {
    fn from(said: &wire::Gpu) -> Self {
        Self {
            address: text(&said.address),
            device_id: text(&said.device_id),
            name: text(&said.name),
            vendor: text(&said.vendor),
            vendor_id: text(&said.vendor_id),
        }
    }
}

/// Zero is root, and the numbers of a device may be zero, so they are shown.
impl From<&wire::HostDevice> for kind::HostDevice {
    fn from(said: &wire::HostDevice) -> Self {
        Self {
            path: text(&said.path),
            device_type: text(&said.device_type),
            owner: Some(said.owner.into()),
            group: Some(said.group.into()),
            major: Some(said.major),
            minor: Some(said.minor),
        }
    }
}

impl From<&wire::Mount> for kind::Mount {
    fn from(said: &wire::Mount) -> Self {
        Self {
            device: text(&said.device),
            directory: text(&said.directory),
            type_: text(&said.type_),
            options: text(&said.options),
        }
    }
}
