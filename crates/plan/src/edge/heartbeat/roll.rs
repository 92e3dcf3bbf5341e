//! The roll: when devices were heard of last, written down so that a restart forgets nobody and others can read it.
//!
//! A ConfigMap has 2,000 devices, a line each: `namespace/name`, the second since 1970, the period in seconds. Each is written
//! every five minutes if somebody in it was heard of since, and their turns are spread over those minutes: a hundred thousand
//! devices are one write in six seconds. A device stays in the ConfigMap in which it is first; who writes it down is said in
//! [`Liveness`], so that it costs no memory of its own.
//!
//! Others may have written to these ConfigMaps. What is no line of ours is left out.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use jiff::Timestamp;

use super::liveness::Liveness;
use super::report::whole_second;
use crate::edge::device_id::{DeviceId, REGISTER};

/// The ConfigMaps are called this and a number.
pub const CONFIG_MAP: &str = "edge-roll-";
/// On those ConfigMaps, so that all of them are found.
pub const LABEL: &str = "management.project-flotta.io/roll";
/// Devices in one: at the longest names, two thirds of what a ConfigMap may hold.
pub const MOST_IN_ONE: usize = 2000;
/// ConfigMaps. Devices beyond a million are not written down.
const MOST_SHARDS: u16 = 500;
/// Each has its turn so often.
const EVERY: Duration = Duration::from_secs(300);
/// The longest name of a namespace.
const LONGEST_NAMESPACE: usize = 63;
/// Keys of a ConfigMap.
const DEVICES: &str = "devices";
const WRITTEN_AT: &str = "writtenAt";

/// The ConfigMap of a shard.
pub fn config_map(shard: u16) -> String {
    format!("{CONFIG_MAP}{shard}")
}

/// The shard of a ConfigMap.
pub fn shard_of(config_map: &str) -> Option<u16> {
    let shard = config_map.strip_prefix(CONFIG_MAP)?.parse().ok()?;
    (shard < MOST_SHARDS && self::config_map(shard) == config_map).then_some(shard)
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// `namespace/name`.
    pub device: String,
    pub last_seen: Timestamp,
    pub period_seconds: u32,
}

impl Entry {
    /// `None` for a device that has never been heard of.
    pub fn of(device: String, liveness: &Liveness) -> Option<Self> {
        let (last_seen, period_seconds) = (liveness.last_seen()?, liveness.period_seconds());
        Some(Self { device, last_seen, period_seconds })
    }

    fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (device, seen, period_seconds) = (words.next()?, words.next()?, words.next()?);
        let (namespace, name) = device.split_once('/')?;
        let is_name = |name: &str| DeviceId::read(name).is_ok_and(|id| id.as_str() == name);
        // A namespace may be called like that, and a device may not.
        let is_namespace =
            (is_name(namespace) || namespace == REGISTER) && namespace.len() <= LONGEST_NAMESPACE;
        let last_seen = whole_second(Timestamp::from_second(seen.parse().ok()?).ok()?)?;
        let period_seconds = period_seconds.parse().ok().filter(|period| *period > 0)?;
        let fits = is_namespace && is_name(name) && words.next().is_none();
        fits.then(|| Self { device: device.to_owned(), last_seen, period_seconds })
    }
}

/// The content of a ConfigMap, the same whatever the order of its devices.
pub fn encode(
    entries: impl IntoIterator<Item = Entry>,
    written_at: Timestamp,
) -> BTreeMap<String, String> {
    let line =
        |e: Entry| format!("{} {} {}\n", e.device, e.last_seen.as_second(), e.period_seconds);
    let mut lines: Vec<_> = entries.into_iter().take(MOST_IN_ONE).map(line).collect();
    lines.sort();
    let written_at = whole_second(written_at).unwrap_or_default().to_string();
    [(DEVICES.to_owned(), lines.concat()), (WRITTEN_AT.to_owned(), written_at)].into()
}

/// What a ConfigMap says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    pub entries: Vec<Entry>,
    /// `None` if nobody can say; then nobody in it was missing.
    pub written_at: Option<Timestamp>,
    /// Lines that are none of ours, or too many.
    pub left_out: usize,
}

pub fn decode(data: &BTreeMap<String, String>) -> Decoded {
    let text = |key: &str| data.get(key).map_or("", String::as_str);
    let mut decoded = Decoded {
        written_at: text(WRITTEN_AT).parse().ok().and_then(whole_second),
        ..Decoded::default()
    };
    for line in text(DEVICES).lines() {
        match Entry::read(line) {
            Some(entry) if decoded.entries.len() < MOST_IN_ONE => decoded.entries.push(entry),
            _ => decoded.left_out += 1,
        }
    }
    decoded
}

/// What the roll says when a process starts.
#[derive(Debug, Default)]
pub struct Remembered {
    pub roll: Roll,
    /// By `namespace/name`. Whose EdgeDevice is gone is to [leave](Roll::leave).
    pub devices: HashMap<String, Liveness>,
    pub left_out: usize,
}

/// Reads all of the roll. `maps`: what is in which shard. A device that is in two was heard of when the later one says.
pub fn read<'a>(
    maps: impl IntoIterator<Item = (u16, &'a BTreeMap<String, String>)>,
    started: Timestamp,
) -> Remembered {
    let mut read = Remembered::default();
    for (shard, data) in maps.into_iter().filter(|(shard, _)| *shard < MOST_SHARDS) {
        let decoded = decode(data);
        read.left_out += decoded.left_out;
        read.roll.shard(shard).changed |= decoded.left_out > 0;
        let written_at = decoded.written_at.unwrap_or(Timestamp::MIN);
        for entry in decoded.entries {
            let mut device = Liveness::remembered(&entry, written_at, started);
            device.put_into(shard);
            read.roll.shard(shard).devices += 1;
            let twice = match read.devices.get(&entry.device) {
                Some(known) if known.last_seen() >= device.last_seen() => Some(device),
                _ => read.devices.insert(entry.device, device),
            };
            if let Some(shard) = twice.as_ref().and_then(Liveness::shard) {
                read.roll.leave(shard);
            }
        }
    }
    read
}

/// Which devices are in which ConfigMap, as numbers, and whose turn it is to be written.
#[derive(Debug, Default)]
pub struct Roll {
    shards: Vec<Shard>,
    /// Whose turn is next, and when, by a clock that never goes back.
    turn: usize,
    at: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Shard {
    devices: usize,
    /// It is not what the ConfigMap says.
    changed: bool,
}

impl Roll {
    /// A device is heard of for the first time: it gets the first place that is free. `None` if there is none.
    pub fn join(&mut self) -> Option<u16> {
        let free = self.shards.iter().position(|shard| shard.devices < MOST_IN_ONE);
        let free = u16::try_from(free.unwrap_or(self.shards.len())).ok()?;
        (free < MOST_SHARDS).then(|| {
            *self.shard(free) = Shard { devices: self.shard(free).devices + 1, changed: true };
            free
        })
    }

    /// A device of this shard is gone.
    pub fn leave(&mut self, shard: u16) {
        if let Some(shard) = self.shards.get_mut(usize::from(shard)) {
            *shard = Shard { devices: shard.devices.saturating_sub(1), changed: true };
        }
    }

    /// A device of this shard was heard of, or the write of it has failed.
    pub fn change(&mut self, shard: u16) {
        if let Some(shard) = self.shards.get_mut(usize::from(shard)) {
            shard.changed = true;
        }
    }

    /// The shard that is to be written now, if any.
    pub fn due(&mut self, now: Duration) -> Option<u16> {
        let count = u32::try_from(self.shards.len()).ok().filter(|count| *count > 0)?;
        if now < self.at {
            return None;
        }
        let turn = self.turn % self.shards.len();
        // Turns that were missed are not made up for.
        self.at = self.at.saturating_add(EVERY / count).max(now);
        self.turn = turn + 1;
        let changed = std::mem::take(&mut self.shards[turn].changed);
        u16::try_from(turn).ok().filter(|_| changed)
    }

    fn shard(&mut self, shard: u16) -> &mut Shard {
        let shard = usize::from(shard);
        if self.shards.len() <= shard {
            self.shards.resize(shard + 1, Shard::default());
        }
        &mut self.shards[shard]
    }
}

#[cfg(test)]
mod tests;
