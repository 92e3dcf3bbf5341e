//! The status as it is, read leniently. After a restart it is the only record of what a device said last; and anybody who may
//! write it may have written anything. What cannot be read was never there.

use std::collections::BTreeMap;

use flashjob_api::edge::{EdgeReason, Hardware, UpgradeInformation};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::report::{SENTENCE, Told, VERSION, WORD, overlay, whole_second};
use super::text::maybe;

/// What stands before the time in the sentence of a device that is missing.
pub(super) const SILENT_SINCE: &str = "no heartbeat since ";

#[derive(Debug, Default)]
pub(super) struct Before {
    pub phase: Option<String>,
    pub version: Option<String>,
    pub upgrade: Option<UpgradeInformation>,
    pub hardware: Option<Hardware>,
    pub workloads: BTreeMap<String, Known>,
    conditions: BTreeMap<String, Condition>,
}

/// What was known of a workload.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub told: Told,
    /// Since when it is in its phase.
    pub since: Option<Timestamp>,
}

#[derive(Debug)]
struct Condition {
    status: String,
    reason: String,
    message: String,
}

impl Before {
    pub fn read(status: &Value) -> Self {
        let mut workloads = BTreeMap::new();
        for list in ["workloads", "deployments"] {
            for entry in entries(status, list) {
                let name = entry["name"].as_str().unwrap_or_default().to_owned();
                workloads.entry(name).or_insert_with(|| Known::read(entry));
            }
        }
        let upgrade = &status["upgradeInformation"];
        let upgrade = UpgradeInformation {
            current_commit_id: word(upgrade, "currentCommitID", VERSION),
            last_upgrade_status: word(upgrade, "lastUpgradeStatus", WORD),
            last_upgrade_time: word(upgrade, "lastUpgradeTime", VERSION),
        };
        let condition = |entry: &Value| {
            let of = |key| word(entry, key, SENTENCE);
            let (status, reason, message) = (of("status")?, of("reason")?, of("message")?);
            Some((of("type")?, Condition { status, reason, message }))
        };
        Self {
            phase: word(status, "phase", WORD),
            version: word(status, "lastSyncedResourceVersion", VERSION),
            upgrade: (upgrade != UpgradeInformation::default()).then_some(upgrade),
            hardware: hardware(&status["hardware"]),
            workloads,
            conditions: entries(status, "conditions").filter_map(condition).collect(),
        }
    }

    /// Whether the device has ever said something.
    pub fn has_spoken(&self) -> bool {
        self.phase.is_some() || self.version.is_some()
    }

    /// The status of a condition, and its reason.
    pub fn condition(&self, type_: &str) -> Option<(&str, &str)> {
        self.conditions.get(type_).map(|known| (known.status.as_str(), known.reason.as_str()))
    }

    /// Since when the device is missing, as far as the status says so.
    pub fn silent_since(&self) -> Option<Timestamp> {
        let message = &self.conditions.get("Ready")?.message;
        message.strip_prefix(SILENT_SINCE)?.parse().ok().and_then(whole_second)
    }
}

impl Known {
    fn read(entry: &Value) -> Self {
        let number = |key| entry.get(key).and_then(Value::as_i64);
        let time = |key| whole_second(entry.get(key)?.as_str()?.parse().ok()?);
        let told = Told {
            phase: word(entry, "phase", WORD).unwrap_or_default(),
            last_data_upload: time("lastDataUpload"),
            exit_code: number("exitCode").and_then(|code| i32::try_from(code).ok()),
            message: word(entry, "message", SENTENCE).filter(|message| !is_problem(message)),
            restarts: number("restarts").filter(|count| *count >= 0),
        };
        Self { told, since: time("lastTransitionTime") }
    }
}

/// How the workloads of a device are by its status.
pub fn told(status: &Value) -> BTreeMap<String, Told> {
    Before::read(status).workloads.into_iter().map(|(name, known)| (name, known.told)).collect()
}

/// Whether a message is of ours and not of the device. One that has gone must not stay as the device's word.
fn is_problem(message: &str) -> bool {
    message.split_once(": ").is_some_and(|(reason, _)| EdgeReason::parse(reason).is_some())
}

fn entries<'a>(status: &'a Value, list: &str) -> impl Iterator<Item = &'a Value> {
    status[list].as_array().into_iter().flatten()
}

fn word(of: &Value, key: &str, most: usize) -> Option<String> {
    maybe(of.get(key)?.as_str()?, most)
}

/// Each field by itself: nonsense in one of them costs no other.
fn hardware(said: &Value) -> Option<Hardware> {
    let fields = said.as_object().into_iter().flatten();
    let read = fields.filter_map(|(key, value)| {
        serde_json::from_value::<Hardware>(json!({ key.as_str(): value })).ok()
    });
    let read = read.fold(Hardware::default(), overlay);
    (read != Hardware::default()).then_some(read)
}
