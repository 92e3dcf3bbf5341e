//! The rollout while it runs: on a terminal a bar for each batch and a line for each board in flight, drawn anew in
//! place; elsewhere one line for each change.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::time::Instant;

use anyhow::Result;
use flashjob_api::{FlashJobStatus, InFlight};
use flashjob_sim::stage::{NAMESPACE, Stage};
use rustix::termios::tcgetwinsize;

/// The width of a batch's bar.
const BAR: usize = 20;

/// What was shown last.
pub struct View {
    /// The devices in the order of the job.
    order: Vec<String>,
    batch: usize,
    terminal: bool,
    began: Instant,
    drawn: usize,
    told: BTreeMap<String, String>,
}

impl View {
    /// For these devices, in batches of this size.
    pub fn new(order: Vec<String>, batch: usize, terminal: bool, began: Instant) -> Self {
        Self { order, batch: batch.max(1), terminal, began, drawn: 0, told: BTreeMap::new() }
    }

    /// Shows how it stands.
    pub fn show(&mut self, stage: &Stage, status: &FlashJobStatus) -> Result<()> {
        let text = match self.terminal {
            true => self.picture(stage, status),
            false => self.changes(status),
        };
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }

    fn picture(&mut self, stage: &Stage, status: &FlashJobStatus) -> String {
        let width = tcgetwinsize(std::io::stdout()).map_or(80, |size| usize::from(size.ws_col));
        let mut lines = self.bars(status);
        lines.extend(status.in_flight.iter().map(|device| line(stage, device)));
        let mut text = String::new();
        if self.drawn > 0 {
            // Back to the first line of the last picture, and everything below it goes.
            text += &format!("\x1b[{}A\x1b[J", self.drawn);
        }
        for line in &lines {
            text.extend(line.chars().take(width.max(20) - 1));
            text.push('\n');
        }
        self.drawn = lines.len();
        text
    }

    fn bars(&self, status: &FlashJobStatus) -> Vec<String> {
        let well: HashSet<&str> = status.completed_uuids.iter().map(String::as_str).collect();
        let badly: HashSet<&str> = status.failures.iter().map(|f| f.uuid.as_str()).collect();
        let batches = self.order.chunks(self.batch).enumerate();
        batches
            .map(|(number, devices)| {
                let count = |set: &HashSet<&str>| {
                    devices.iter().filter(|device| set.contains(device.as_str())).count()
                };
                bar(number + 1, devices.len(), count(&well), count(&badly))
            })
            .collect()
    }

    fn changes(&mut self, status: &FlashJobStatus) -> String {
        let mut now: BTreeMap<String, String> = BTreeMap::new();
        for device in &status.in_flight {
            let attempt = match device.attempt {
                0 | 1 => String::new(),
                more => format!(", attempt {more}"),
            };
            let why = device.message.as_ref().filter(|_| device.state != "Flashing");
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            now.insert(device.uuid.clone(), format!("{}{attempt}{why}", device.state));
        }
        now.extend(status.completed_uuids.iter().map(|d| (d.clone(), "Succeeded".to_owned())));
        let failed = |f: &flashjob_api::Failure| (f.uuid.clone(), format!("Failed: {}", f.reason));
        now.extend(status.failures.iter().map(failed));
        let mut text = String::new();
        for (device, state) in &now {
            if self.told.get(device) != Some(state) {
                let seconds = self.began.elapsed().as_secs_f64();
                text += &format!("{seconds:5.1} s  {device}  {state}\n");
            }
        }
        self.told.extend(now);
        text
    }
}

fn bar(number: usize, of: usize, well: usize, badly: usize) -> String {
    let part = |count: usize| count * BAR / of.max(1);
    let (good, bad) = (part(well), part(badly));
    let rest = BAR.saturating_sub(good + bad);
    let failed = if badly > 0 { format!(", {badly} failed") } else { String::new() };
    let (good, bad, rest) = ("#".repeat(good), "x".repeat(bad), ".".repeat(rest));
    format!("batch {number}  [{good}{bad}{rest}]  {well} of {of}{failed}")
}

/// A board in flight, with the last thing its flasher has said.
fn line(stage: &Stage, device: &InFlight) -> String {
    let name = device.uuid.trim_start_matches(&format!("{NAMESPACE}/")).to_owned();
    let endpoint = device.host_endpoint.as_deref().unwrap_or_default();
    let starts = stage.node.starts();
    let pod = starts.iter().rev().find(|start| start.endpoint == endpoint);
    let says = pod
        .filter(|_| device.state == "Flashing")
        .and_then(|pod| stage.node.last_line(&pod.namespace, &pod.pod));
    let says = says.or_else(|| device.message.clone()).unwrap_or_default();
    format!("  {name}  {:<10} {says}", device.state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_has_its_width_whatever_it_shows() {
        assert_eq!(bar(1, 5, 2, 1), "batch 1  [########xxxx........]  2 of 5, 1 failed");
        assert_eq!(bar(2, 3, 3, 0), "batch 2  [####################]  3 of 3");
        assert_eq!(bar(3, 0, 0, 0), "batch 3  [....................]  0 of 0");
    }
}
