//! A rollout as a picture: a bar for each batch and a line for each device in flight. Pure, so that it can be looked at in a
//! test.

use std::collections::{BTreeMap, HashMap, HashSet};

use flashjob_api::flashjob::{DeviceState, FlashJobStatus, InFlight};

use crate::picture::bar;
use crate::shell::clean;

/// Which device is in which batch, as far as that is known.
#[derive(Default)]
pub struct Batches {
    /// The devices of each batch, by its number.
    devices: BTreeMap<usize, Vec<String>>,
}

impl Batches {
    pub fn new(places: impl IntoIterator<Item = (String, Option<usize>)>) -> Batches {
        let mut devices: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (device, batch) in places {
            if let Some(batch) = batch {
                devices.entry(batch).or_default().push(device);
            }
        }
        Batches { devices }
    }
}

/// The lines of the picture, at most `height`. `says`: what the flash Pod of a device said last.
pub fn picture(
    name: &str,
    status: &FlashJobStatus,
    batches: &Batches,
    says: &HashMap<String, String>,
    height: usize,
) -> Vec<String> {
    let message =
        status.message.as_deref().unwrap_or("nobody has looked at it yet; is the operator up?");
    let phase = status.phase.map(|phase| format!("{phase:?}")).unwrap_or_default();
    let mut lines = vec![clean(&format!("{name}  {phase}: {message}"))];
    let bars = bars(status, batches);
    let room = height.saturating_sub(3);
    // Half of the room is for bars: those of batches that have begun and are not done come first.
    let most = bars.len().min((room / 2).max(1));
    let current = usize::try_from(status.batch.map_or(1, |batch| batch.current)).unwrap_or(1);
    let from = current.saturating_sub(most.div_ceil(2)).min(bars.len() - most);
    if from > 0 {
        lines.push(format!("  ... {from} batches before"));
    }
    lines.extend(bars.iter().skip(from).take(most).cloned());
    let after = bars.len() - most - from;
    if after > 0 {
        lines.push(format!("  ... {after} batches after"));
    }
    let room = room.saturating_sub(lines.len());
    for device in status.in_flight.iter().take(room) {
        lines.push(line(device, says.get(&device.uuid)));
    }
    let counted = status.counts.map_or(0, |c| c.offline + c.waiting + c.blocked + c.flashing);
    let at_work = status.in_flight.len().max(usize::try_from(counted).unwrap_or_default());
    if at_work > room {
        lines.push(format!("  ... and {} devices more", at_work - room));
    }
    lines
}

fn bars(status: &FlashJobStatus, batches: &Batches) -> Vec<String> {
    let counts = status.counts.unwrap_or_default();
    let number = |n: i32| usize::try_from(n).unwrap_or_default();
    if batches.devices.len() < 2 {
        let well = number(counts.succeeded + counts.skipped);
        return vec![bar("all", number(counts.total), well, number(counts.failed))];
    }
    let well: HashSet<&str> = status.completed_uuids.iter().map(String::as_str).collect();
    let badly: HashSet<&str> = status.failures.iter().map(|f| f.uuid.as_str()).collect();
    let count = |devices: &[String], set: &HashSet<&str>| {
        devices.iter().filter(|device| set.contains(device.as_str())).count()
    };
    let batch = |(number, devices): (&usize, &Vec<String>)| {
        let title = format!("batch {number}");
        bar(&title, devices.len(), count(devices, &well), count(devices, &badly))
    };
    batches.devices.iter().map(batch).collect()
}

fn line(device: &InFlight, says: Option<&String>) -> String {
    let says = says.filter(|_| device.state == DeviceState::Flashing).or(device.message.as_ref());
    let attempt = match device.attempt {
        0 | 1 => String::new(),
        more => format!(" (attempt {more})"),
    };
    let says = says.map(String::as_str).unwrap_or_default();
    clean(&format!("  {}  {:<10} {says}{attempt}", device.uuid, device.state))
}

/// Where each device stands, for those who read lines and not pictures.
#[derive(Default)]
pub struct ProgressLog {
    devices: HashMap<String, String>,
    job: String,
}

impl ProgressLog {
    /// What has changed since the last time.
    pub fn news(&mut self, status: &FlashJobStatus) -> Vec<String> {
        let mut now: Vec<(String, String)> = Vec::new();
        for device in &status.in_flight {
            let attempt = match device.attempt {
                0 | 1 => String::new(),
                more => format!(", attempt {more}"),
            };
            let why = device.message.as_ref().filter(|_| device.state != DeviceState::Flashing);
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            now.push((device.uuid.clone(), format!("{}{attempt}{why}", device.state)));
        }
        now.extend(status.completed_uuids.iter().map(|d| (d.clone(), "Succeeded".to_owned())));
        for failure in &status.failures {
            let state = format!("Failed: {}: {}", failure.reason, failure.message);
            now.push((failure.uuid.clone(), state));
        }
        let mut lines = Vec::new();
        for (device, state) in now {
            let line = clean(&format!("{device}  {state}"));
            if self.devices.insert(device, state.clone()) != Some(state) {
                lines.push(line);
            }
        }
        let phase = status.phase.map(|phase| format!("{phase:?}")).unwrap_or_default();
        let job = format!("{phase}: {}", clean(status.message.as_deref().unwrap_or_default()));
        if self.job != job && status.phase.is_some() {
            lines.push(job.clone());
            self.job = job;
        }
        lines
    }
}

#[cfg(test)]
mod tests;
