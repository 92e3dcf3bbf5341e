//! What a device is to do, as it is sent.
//!
//! ```text
//!   workload ─────────▶ fragment ──▶ Fragment ─────┐
//!   Secrets, ConfigMaps ─┤ Material                ├──▶ hold::serve ──▶ compose ──▶ Configuration ──▶ body, version
//!   device, set ──▶ effective ──▶ settings ────────┘
//!                    bucket ──────────┘
//! ```
//!
//! A workload is rendered once for all its devices, settings once for all devices that have the same, and what is put
//! together for one of them is a handful of pointers. [`Needs`] says which Secrets and ConfigMaps have to be read before. The
//! version is a hash of all that is sent: the same for every process that serves, and another one exactly when something
//! changes. So who has it need not be told again.

mod compose;
mod effective;
pub mod fragment;
pub mod hold;
mod masked;
pub mod material;
mod needs;
mod reader;
mod references;
pub mod settings;
mod storage;
mod support;
mod yaml;

pub use compose::{Composed, Configuration, LARGEST_CONFIGURATION, SettingsText, compose};
pub use effective::{Membership, effective};
pub use fragment::{Fragment, WorkloadInput, fragment};
pub use hold::{Serve, Served, Wanted, serve};
pub use masked::masked;
pub use material::{ConfigMapData, Found, Lack, Material, SecretData};
pub use needs::Needs;
pub use settings::RenderedSettings;
pub use storage::Bucket;
pub use support::unsupported;

use flashjob_api::edge::wire::{
    DeviceConfiguration, DeviceConfigurationMessage, HardwareProfile, HeartbeatConfiguration,
};
use sha2::{Digest, Sha256};

use super::facts::EdgeDeviceFacts;

/// Seconds between two heartbeats where nobody says otherwise.
const PERIOD: i64 = 60;

/// The configuration of a device.
pub fn render(name: &str, device: &EdgeDeviceFacts) -> DeviceConfigurationMessage {
    let settings = device.settings.as_deref().and_then(|settings| settings.as_ref().ok());
    let heartbeat = settings.and_then(|settings| settings.heartbeat.clone()).unwrap_or_default();
    let profile = heartbeat.hardware_profile.map(|profile| HardwareProfile {
        include: profile.include.unwrap_or_default(),
        scope: profile.scope.unwrap_or_default(),
    });
    let heartbeat = HeartbeatConfiguration {
        period_seconds: heartbeat.period_seconds.filter(|period| *period > 0).unwrap_or(PERIOD),
        hardware_profile: profile,
    };
    let mut message = DeviceConfigurationMessage {
        device_id: name.to_owned(),
        configuration: Some(DeviceConfiguration {
            heartbeat: Some(heartbeat),
            ..DeviceConfiguration::default()
        }),
        ..DeviceConfigurationMessage::default()
    };
    message.version = version(&message);
    message
}

/// Sixteen bytes of it are more than enough to tell two configurations of one device apart.
fn version(message: &DeviceConfigurationMessage) -> String {
    let json = serde_json::to_vec(message).unwrap_or_default();
    let hash = Sha256::digest(json);
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flashjob_api::edge;

    use super::super::tests::device;
    use super::*;

    fn with(heartbeat: edge::Heartbeat) -> EdgeDeviceFacts {
        let settings = edge::Settings { heartbeat: Some(heartbeat), ..edge::Settings::default() };
        EdgeDeviceFacts { settings: Some(Arc::new(Ok(settings))), ..device("a") }
    }

    #[test]
    fn a_device_has_a_period_also_where_nobody_says_one_or_says_nonsense() {
        let period = |period_seconds| {
            let heartbeat = edge::Heartbeat { period_seconds, ..edge::Heartbeat::default() };
            let rendered = render("edge1", &with(heartbeat));
            rendered.configuration.unwrap().heartbeat.unwrap().period_seconds
        };
        assert_eq!([None, Some(5), Some(0), Some(-1)].map(period), [60, 5, 60, 60]);
    }

    #[test]
    fn the_version_changes_with_what_is_said_and_with_nothing_else() {
        let version = |device: &EdgeDeviceFacts| render("edge1", device).version;
        let one = device("a");
        let later = EdgeDeviceFacts { resource_version: 9, uid: "other".into(), ..device("a") };
        assert_eq!(version(&one), version(&later));
        let profile = edge::HardwareProfile { include: Some(true), scope: None };
        let heartbeat = edge::Heartbeat { hardware_profile: Some(profile), period_seconds: None };
        assert_ne!(version(&one), version(&with(heartbeat)));
        assert_ne!(version(&one), render("edge2", &one).version);
    }
}
