//! What counts for a device: what its set says, else what it says itself.
//!
//! What belongs together stays together, because half of it means something else: an operating system image and where it comes
//! from, a bucket with its keys, a receiver of metrics with its CA, one destination of logs, and the list of mounts are taken
//! from one of the two as a whole. All else is decided field by field: the period of heartbeats and what they say of the
//! hardware, retention, each field of what is measured; and destinations of logs name by name. What both leave out has a
//! default, which is given where it is rendered.

use std::borrow::Cow;
use std::collections::BTreeMap;

use flashjob_api::edge::{
    ComponentMetrics, DeviceMetrics, EdgeReason, HardwareProfile, Heartbeat, MetricsRetention,
    Settings, Storage,
};

use super::reader::shown;
use crate::edge::labels;
use crate::edge::problem::Problem;

/// The set that the label of a device names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Membership<'a> {
    None,
    Of(&'a Settings),
    /// There is no set of this name.
    Missing(&'a str),
}

/// The settings of a device. Where its set is missing, they are its own.
pub fn effective<'a>(
    namespace: &str,
    device: &'a Settings,
    set: Membership<'_>,
) -> (Cow<'a, Settings>, Option<Problem>) {
    match set {
        Membership::None => (Cow::Borrowed(device), None),
        Membership::Of(set) => (Cow::Owned(merge(set, device)), None),
        Membership::Missing(name) => {
            let what = format!("there is no EdgeDeviceSet {namespace}/{}", shown(name));
            let message = format!(
                "{what}; the label {} names it, and until then the device's own settings count",
                labels::SET
            );
            (Cow::Borrowed(device), Some(Problem::new(EdgeReason::SetMissing, message)))
        }
    }
}

fn merge(set: &Settings, device: &Settings) -> Settings {
    Settings {
        os_information: first(&set.os_information, &device.os_information),
        heartbeat: join(&set.heartbeat, &device.heartbeat, |set, device| Heartbeat {
            period_seconds: set.period_seconds.or(device.period_seconds),
            hardware_profile: join(&set.hardware_profile, &device.hardware_profile, profile),
        }),
        storage: join(&set.storage, &device.storage, |set, device| Storage {
            s3: first(&set.s3, &device.s3),
        }),
        metrics: join(&set.metrics, &device.metrics, metrics),
        log_collection: join(&set.log_collection, &device.log_collection, |set, device| {
            let mut logs: BTreeMap<_, _> = device.clone();
            logs.extend(set.clone());
            logs
        }),
        mounts: first(&set.mounts, &device.mounts),
    }
}

fn profile(set: &HardwareProfile, device: &HardwareProfile) -> HardwareProfile {
    HardwareProfile {
        include: set.include.or(device.include),
        scope: first(&set.scope, &device.scope),
    }
}

fn metrics(set: &DeviceMetrics, device: &DeviceMetrics) -> DeviceMetrics {
    let component = |set: &ComponentMetrics, device: &ComponentMetrics| ComponentMetrics {
        interval: set.interval.or(device.interval),
        allow_list: first(&set.allow_list, &device.allow_list),
        disabled: set.disabled.or(device.disabled),
    };
    DeviceMetrics {
        retention: join(&set.retention, &device.retention, |set, device| MetricsRetention {
            max_mib: set.max_mib.or(device.max_mib),
            max_hours: set.max_hours.or(device.max_hours),
        }),
        system: join(&set.system, &device.system, component),
        data_transfer: join(&set.data_transfer, &device.data_transfer, component),
        receiver_configuration: first(&set.receiver_configuration, &device.receiver_configuration),
    }
}

fn first<T: Clone>(set: &Option<T>, device: &Option<T>) -> Option<T> {
    set.as_ref().or(device.as_ref()).cloned()
}

fn join<T: Clone>(
    set: &Option<T>,
    device: &Option<T>,
    both: impl FnOnce(&T, &T) -> T,
) -> Option<T> {
    match (set, device) {
        (Some(set), Some(device)) => Some(both(set, device)),
        _ => first(set, device),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn together(set: Value, device: Value) -> Value {
        let [set, device] = [set, device].map(|said| serde_json::from_value(said).unwrap());
        let (settings, problem) = effective("default", &device, Membership::Of(&set));
        assert_eq!(problem, None);
        serde_json::to_value(settings).unwrap()
    }

    #[test]
    fn what_a_set_leaves_out_is_the_devices() {
        let device = json!({
            "heartbeat": {
                "periodSeconds": 5, "hardwareProfile": { "include": true, "scope": "full" }
            },
            "metrics": {
                "retention": { "maxMiB": 1, "maxHours": 2 },
                "system": { "interval": 3, "allowList": { "name": "a" } },
                "dataTransfer": { "disabled": true }
            },
            "logCollection": {
                "a": { "kind": "syslog", "bufferSize": 1 }, "b": { "bufferSize": 2 }
            }
        });
        let set = json!({
            "heartbeat": { "hardwareProfile": { "scope": "delta" } },
            "metrics": { "retention": { "maxHours": 9 }, "system": { "disabled": true } },
            "logCollection": { "a": { "bufferSize": 7 }, "c": {} }
        });
        let wanted = json!({
            "heartbeat": {
                "periodSeconds": 5, "hardwareProfile": { "include": true, "scope": "delta" }
            },
            "metrics": {
                "retention": { "maxMiB": 1, "maxHours": 9 },
                "system": { "interval": 3, "allowList": { "name": "a" }, "disabled": true },
                "dataTransfer": { "disabled": true }
            },
            "logCollection": { "a": { "bufferSize": 7 }, "b": { "bufferSize": 2 }, "c": {} }
        });
        assert_eq!(together(set.clone(), device.clone()), wanted);
        assert_eq!(together(json!({}), device.clone()), device, "a set that says nothing");
        assert_eq!(together(set.clone(), json!({})), set, "a device that says nothing");
    }

    #[test]
    fn what_belongs_together_is_not_taken_apart() {
        let device = json!({
            "osInformation": { "commitID": "old", "hostedObjectsURL": "http://old" },
            "storage": { "s3": { "secretName": "s", "configMapName": "c" } },
            "metrics": { "receiverConfiguration": { "url": "https://old", "caSecretName": "ca" } },
            "mounts": [{ "device": "/dev/a" }]
        });
        let set = json!({
            "osInformation": { "commitID": "new" },
            "storage": { "s3": { "createOBC": true } },
            "metrics": { "receiverConfiguration": { "url": "https://new" } },
            "mounts": [{ "device": "/dev/b" }]
        });
        assert_eq!(together(set.clone(), device), set);
    }

    #[test]
    fn a_set_that_is_missing_is_said_and_the_device_counts() {
        let mounts = Some(Vec::new());
        let device = Settings { mounts, ..Settings::default() };
        let (settings, problem) = effective("default", &device, Membership::Missing("floor-2"));
        assert_eq!(*settings, device);
        let problem = problem.unwrap();
        assert_eq!(problem.reason, EdgeReason::SetMissing);
        assert!(problem.message.contains("default/floor-2"), "{}", problem.message);
    }
}
