//! What is left of an EdgeDevice that was deleted: the proof that its device may be told to disconnect.
//!
//! A device that is told so removes all it runs. So it needs more than that there is no EdgeDevice: an empty cluster, or one
//! that was restored from an old backup, has none either. A tombstone is written before the EdgeDevice may go, and kept until
//! its last certificate has ended or there is a new EdgeDevice of the name.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::certificate::CertificateFacts;
use super::keys::Keys;
use crate::time::{is_sane, later};

/// The ConfigMaps that hold them are called this and a number.
pub const CONFIG_MAP: &str = "edge-tombstones-";

/// On those ConfigMaps, so that all of them are found.
pub const LABEL: &str = "management.project-flotta.io/tombstones";

/// Tombstones in one ConfigMap: at the longest names, less than half of what one may hold.
pub const MOST_IN_ONE: usize = 400;

/// An answer may be lost on the way, and a device that got it asks no more. So for this long it is given again.
const REPEATED: SignedDuration = SignedDuration::from_secs(60);

/// A tombstone is much shorter than this.
const LONGEST: usize = 8192;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    pub namespace: String,
    pub name: String,
    /// Of the EdgeDevice that is gone.
    pub uid: String,
    pub deleted: Timestamp,
    /// When the last of its certificates ends.
    pub until: Timestamp,
    /// What was on record of its keys, so that a key that had been replaced is still told from the last one.
    #[serde(default)]
    pub keys: Keys,
    /// When the device first fetched its disconnect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched: Option<Timestamp>,
}

/// The key of a tombstone in its ConfigMap. Names are longer than keys may be.
pub fn key(namespace: &str, name: &str) -> String {
    let hash = Sha256::digest(format!("{namespace}/{name}"));
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

impl Tombstone {
    /// `None` if it is not one of ours any more; then nobody is told to disconnect because of it.
    pub fn read(text: &str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let read: Self = serde_json::from_str(text).ok()?;
        let times = [Some(read.deleted), Some(read.until), read.fetched];
        let sane = times.into_iter().flatten().all(is_sane) && read.keys.is_well_formed();
        sane.then_some(read)
    }

    pub fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether the certificate was made before the EdgeDevice was deleted. One that was made later is of another EdgeDevice,
    /// which the cluster has forgotten because it was restored from a backup, and that one nobody has deleted.
    pub fn is_after(&self, certificate: &CertificateFacts) -> bool {
        certificate.issued() <= self.deleted
    }

    /// Whether it has done its work.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until < now
    }

    /// Whether the device is to be told to disconnect when it asks now.
    pub fn tells_to_disconnect(&self, now: Timestamp) -> bool {
        !self.is_over(now) && self.fetched.is_none_or(|at| now < later(at, REPEATED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::after;

    fn tombstone() -> Tombstone {
        let deleted: Timestamp = "2026-11-18T12:00:00Z".parse().unwrap();
        Tombstone {
            namespace: "default".into(),
            name: "edge1".into(),
            uid: "u".into(),
            deleted,
            until: after(deleted, 1000),
            keys: Keys::default(),
            fetched: None,
        }
    }

    #[test]
    fn a_disconnect_is_repeated_for_a_while_and_not_for_ever() {
        let waiting = tombstone();
        let now = |second| after(waiting.deleted, second);
        assert!(waiting.tells_to_disconnect(now(0)) && waiting.tells_to_disconnect(now(1000)));
        assert!(!waiting.tells_to_disconnect(now(1001)) && waiting.is_over(now(1001)));
        let fetched = Tombstone { fetched: Some(now(100)), ..waiting.clone() };
        assert!(fetched.tells_to_disconnect(now(159)) && !fetched.tells_to_disconnect(now(160)));
    }

    #[test]
    fn it_is_read_as_it_was_written_and_nonsense_disconnects_nobody() {
        let written = tombstone().write();
        assert_eq!(Tombstone::read(&written), Some(tombstone()));
        let far = written.replace("2026", "9026");
        let long = written.clone() + &" ".repeat(LONGEST);
        for wrong in ["", "{}", "7", &far, &long] {
            assert_eq!(Tombstone::read(wrong), None, "{wrong}");
        }
    }
}
