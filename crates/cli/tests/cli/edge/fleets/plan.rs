//! What `edge plan -o json` says, and what a device is to be told by that.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use flashjob_api::edge::wire::DeviceConfigurationMessage;
use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Planned {
    pub devices: Vec<PlannedDevice>,
    pub refused: Vec<Trouble>,
    pub missing: Vec<Trouble>,
    pub unknown: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlannedDevice {
    pub namespace: String,
    pub name: String,
    pub before: Vec<String>,
    pub after: Vec<String>,
    pub changed: Vec<String>,
    pub other_settings: bool,
    #[serde(rename = "collisions")]
    _collisions: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trouble {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub reason: String,
    pub message: String,
}

/// What a device was told, in the parts that a plan speaks of.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    pub workloads: BTreeMap<String, Value>,
    pub settings: Value,
}

impl Told {
    pub fn new(message: &DeviceConfigurationMessage) -> Result<Self> {
        let mut workloads = BTreeMap::new();
        for workload in &message.workloads {
            workloads.insert(workload.name.clone(), serde_json::to_value(workload)?);
        }
        Ok(Self { workloads, settings: serde_json::to_value(&message.configuration)? })
    }

    pub fn names(&self) -> Vec<&str> {
        self.workloads.keys().map(String::as_str).collect()
    }
}

impl Planned {
    pub fn device(&self, name: &str) -> Option<&PlannedDevice> {
        self.devices.iter().find(|device| device.name == name)
    }

    /// Workloads that would be sent, if what they need were there.
    fn lacking(&self) -> BTreeSet<&str> {
        let of_workloads = self.missing.iter().filter(|of| !of.kind.contains("Set"));
        of_workloads.map(|of| of.name.as_str()).collect()
    }

    /// Workloads that a device runs and cannot be sent as they are now: it keeps what it has.
    fn kept(&self, device: &PlannedDevice) -> BTreeSet<&str> {
        // The younger of two has nothing to do with what devices run.
        let refused = self.refused.iter().filter(|of| of.reason != "NameConflict");
        let refused = refused.map(|of| of.name.as_str());
        let lacking = self.lacking();
        let lacking = lacking.into_iter().filter(|name| device.after.iter().any(|n| n == name));
        refused.chain(lacking).filter(|name| device.before.iter().any(|n| n == name)).collect()
    }

    /// Whether what a device was told before and is told after is what was said. The error says where it is not.
    pub fn is_so(&self, device: &str, before: &Told, after: &Told) -> Result<bool> {
        let Some(planned) = self.device(device) else {
            ensure!(before == after, "nothing was to change");
            return Ok(false);
        };
        let kept = self.kept(planned);
        if !kept.is_empty() {
            // How much of the file it was told before it was held, is a matter of moments.
            for name in kept {
                let same = before.workloads.get(name) == after.workloads.get(name);
                ensure!(same, "{name} was to stay as it is");
            }
            return Ok(true);
        }
        let lacking = self.lacking();
        let wanted: Vec<&str> = planned.after.iter().map(String::as_str).collect();
        let wanted: Vec<&str> = wanted.into_iter().filter(|name| !lacking.contains(name)).collect();
        ensure!(after.names() == wanted, "it was to run {wanted:?}");
        for name in wanted.into_iter().filter(|name| before.workloads.contains_key(*name)) {
            let is_other = before.workloads[name] != after.workloads[name];
            let foreseen = planned.changed.iter().any(|changed| changed == name);
            ensure!(is_other == foreseen, "{name} is another pod: {foreseen} was to be");
        }
        let is_other = before.settings != after.settings;
        ensure!(
            is_other == planned.other_settings,
            "{} was to be of its settings",
            planned.other_settings
        );
        Ok(false)
    }
}
