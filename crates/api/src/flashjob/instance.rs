//! Akri's Instance, as far as we read it.
//!
//! A foreign type: Akri installs its CRD and writes these objects, we only look. Every field has a default, so that
//! the objects of v0.12 (no `capacity`, no `cdiName`) and v0.13 both read, as does whatever comes next.

use std::collections::BTreeMap;

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// The broker property that holds the board's address: a bare IP, `ip:port` or a URL.
pub const HOST_ENDPOINT: &str = "HOST_ENDPOINT";
/// The broker property that holds the type of board, such as `esp32s3`.
pub const DEVICE: &str = "DEVICE";
/// The broker property that holds the application the board runs.
pub const APPLICATION_TYPE: &str = "APPLICATION_TYPE";
/// The broker property that holds the version the board last reported. It may be stale.
pub const VERSION: &str = "VERSION";

/// What Akri knows about one discovered device.
#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "akri.sh",
    version = "v0",
    kind = "Instance",
    plural = "instances",
    namespaced,
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceSpec {
    /// The Configuration that found this device.
    pub configuration_name: String,
    /// The CDI name of the device (v0.13 and later).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cdi_name: Option<String>,
    /// How many brokers may use the device at once (v0.13 and later).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<i64>,
    /// What the discovery handler reports of the device.
    pub broker_properties: BTreeMap<String, String>,
    /// Whether several nodes see the same device.
    pub shared: bool,
    /// The nodes whose agents see the device.
    pub nodes: Vec<String>,
    /// Which node uses which slot.
    pub device_usage: BTreeMap<String, String>,
}

/// Whether two names mean the same type of board: people and boards write esp32s3 in many ways. A name with nothing
/// in it says nothing, and is the same as no other. Operator and flasher both judge by this.
pub fn same_board(a: &str, b: &str) -> bool {
    plain(a).next().is_some() && (a == b || plain(a).eq(plain(b)))
}

/// Compared for every device that waits, at every look: so without a copy.
fn plain(text: &str) -> impl Iterator<Item = char> {
    text.trim().chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase)
}
