//! What is kept of a heartbeat: a device may say anything, and what it says ends up in etcd and in everybody's memory. So
//! every text and every list has a bound that no honest device reaches.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use flashjob_api::edge::{Hardware, UpgradeInformation, wire};
use jiff::Timestamp;

use super::text::maybe;
use crate::time::is_sane;

/// Workloads of a device that are listened to: the first by name, so that their order in the heartbeat is no matter.
pub const MOST_WORKLOADS: usize = 512;
/// A name is longer in no cluster, and a longer one is nobody's.
const LONGEST_NAME: usize = 253;
/// Bytes of a word, of a version, and of a sentence.
pub(super) const WORD: usize = 64;
pub(super) const VERSION: usize = 128;
pub(super) const SENTENCE: usize = 256;
/// Bytes of hardware as JSON, put together from several heartbeats. A real one has a few thousand.
const LARGEST_HARDWARE: usize = 256 * 1024;

/// What a device said last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub phase: Option<String>,
    pub version: Option<String>,
    pub workloads: BTreeMap<String, Told>,
    pub upgrade: Option<UpgradeInformation>,
    /// All of it, or what has changed.
    pub hardware: Option<Hardware>,
    pub agent: Option<Agent>,
}

/// What a device says of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Told {
    /// Podman's word; empty if it says none.
    pub phase: String,
    pub last_data_upload: Option<Timestamp>,
    pub exit_code: Option<i32>,
    pub message: Option<String>,
    pub restarts: Option<i64>,
}

/// The program that speaks for a device. Flotta's does not say who it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Agent {
    pub name: String,
    pub version: Option<String>,
}

impl Agent {
    pub fn is_ours(&self) -> bool {
        self.name == wire::Agent::OURS
    }
}

impl Report {
    pub fn of(said: &wire::Heartbeat) -> Self {
        let mut workloads = BTreeMap::new();
        for workload in &said.workloads {
            if workload.name.is_empty() || workload.name.len() > LONGEST_NAME {
                continue;
            }
            let told = Told::of(workload);
            // Of two with one name the greater counts, whichever of them comes first.
            let known: &mut Told = workloads.entry(workload.name.clone()).or_default();
            *known = told.max(std::mem::take(known));
            if workloads.len() > MOST_WORKLOADS {
                workloads.pop_last();
            }
        }
        let agent = said.agent.as_ref().and_then(|agent| {
            Some(Agent { name: maybe(&agent.name, WORD)?, version: maybe(&agent.version, WORD) })
        });
        Self {
            phase: maybe(&said.status, WORD),
            version: maybe(&said.version, VERSION),
            workloads,
            upgrade: said.upgrade.as_ref().and_then(upgrade),
            hardware: said.hardware.as_ref().map(Hardware::from),
            agent,
        }
    }

    /// The same for heartbeats of which nothing new is to be written, but perhaps an upload. Stable within a process.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.phase, &self.version, &self.agent, self.workloads.len()).hash(&mut hasher);
        for (name, told) in &self.workloads {
            (name, &told.phase, told.exit_code, &told.message, told.restarts).hash(&mut hasher);
        }
        let rest = serde_json::to_vec(&(&self.upgrade, &self.hardware));
        rest.unwrap_or_default().hash(&mut hasher);
        hasher.finish()
    }

    /// When a workload's files were uploaded last. It moves all the time, and alone it is seldom written.
    pub fn newest_upload(&self) -> Option<Timestamp> {
        self.workloads.values().filter_map(|told| told.last_data_upload).max()
    }
}

impl Told {
    fn of(said: &wire::WorkloadStatus) -> Self {
        Self {
            phase: maybe(&said.status, WORD).unwrap_or_default(),
            last_data_upload: said.last_data_upload.and_then(whole_second),
            exit_code: said.exit_code.and_then(|code| i32::try_from(code).ok()),
            message: said.message.as_deref().and_then(|message| maybe(message, SENTENCE)),
            restarts: said.restarts.filter(|count| (0..=i64::from(i32::MAX)).contains(count)),
        }
    }
}

fn upgrade(said: &wire::UpgradeStatus) -> Option<UpgradeInformation> {
    let upgrade = UpgradeInformation {
        current_commit_id: maybe(&said.current_commit_id, VERSION),
        last_upgrade_status: maybe(&said.last_upgrade_status, WORD),
        last_upgrade_time: maybe(&said.last_upgrade_time, VERSION),
    };
    (upgrade != UpgradeInformation::default()).then_some(upgrade)
}

/// As Kubernetes writes times: without parts of a second. `None` if no clock that works has said it.
pub(super) fn whole_second(time: Timestamp) -> Option<Timestamp> {
    Timestamp::from_second(time.as_second()).ok().filter(|time| is_sane(*time))
}

/// What is known of the hardware after a device has spoken of it: what it does not mention is as it was.
pub fn merge_hardware(known: Option<Hardware>, said: Option<&Hardware>) -> Option<Hardware> {
    let Some(said) = said else { return known };
    let merged = overlay(known.unwrap_or_default(), said.clone());
    let size = |hardware: &Hardware| serde_json::to_vec(hardware).map_or(usize::MAX, |h| h.len());
    // One heartbeat has a bound of its own, so what grows beyond this one begins anew.
    let kept = if size(&merged) > LARGEST_HARDWARE { said.clone() } else { merged };
    Some(kept).filter(|hardware| *hardware != Hardware::default())
}

pub(super) fn overlay(known: Hardware, new: Hardware) -> Hardware {
    Hardware {
        hostname: new.hostname.or(known.hostname),
        boot: new.boot.or(known.boot),
        cpu: new.cpu.or(known.cpu),
        memory: new.memory.or(known.memory),
        system_vendor: new.system_vendor.or(known.system_vendor),
        interfaces: new.interfaces.or(known.interfaces),
        disks: new.disks.or(known.disks),
        gpus: new.gpus.or(known.gpus),
        host_devices: new.host_devices.or(known.host_devices),
        mounts: new.mounts.or(known.mounts),
    }
}

#[cfg(test)]
mod tests;
