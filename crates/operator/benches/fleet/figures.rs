//! The figures the project wants to reach, beside those it has. A figure that was not measured is left out.

use crate::report::Report;
use crate::rollout::Rollout;

/// One figure.
pub struct Figure {
    pub what: String,
    pub is: f64,
    pub at_most: f64,
}

/// The figures this report has something to say about.
pub fn figures(report: &Report) -> Vec<Figure> {
    let mut figures = Figures(Vec::new());
    let of = |devices| report.rollouts.iter().find(|row| row.devices == devices);
    if let Some(row) = of(1000) {
        figures.add("1,000 devices: times the floor", row.ratio(), 1.25);
    }
    if let (Some(small), Some(large)) = (of(1000), of(10_000)) {
        let growth = large.per_device_ms() / small.per_device_ms();
        figures.add("10,000 devices: times the cost of one in 1,000", growth, 1.2);
    }
    for (row, memory) in [(of(1000), 32.0), (of(10_000), 64.0)] {
        let Some(row) = row else { continue };
        let Rollout { devices, usage, .. } = row;
        let thousands = *devices as f64 / 1000.0;
        figures.add(format!("{devices} devices: writes each"), row.writes_per_device(), 4.1);
        figures.add(format!("{devices} devices: peak memory, MiB"), usage.peak_mi_b, memory);
        let cpu = usage.cpu_seconds / thousands;
        figures.add(format!("{devices} devices: CPU seconds per 1,000"), cpu, 2.0);
    }
    for flash in &report.flashes {
        let what = format!("{} flashes of 15 s: end seen late by, s", flash.devices);
        figures.add(what, flash.late_seconds, 0.5);
    }
    if let Some(cold) = report.cold_start.as_ref().filter(|cold| cold.devices == 10_000) {
        figures.add("10,000 devices: cold start, s", cold.first_write_seconds, 1.5);
    }
    if let Some(finished) = report.finished.as_ref().filter(|finished| finished.jobs == 100) {
        figures.add("100 finished jobs: peak memory, MiB", finished.usage.peak_mi_b, 64.0);
    }
    figures.0
}

struct Figures(Vec<Figure>);

impl Figures {
    fn add(&mut self, what: impl Into<String>, is: f64, at_most: f64) {
        self.0.push(Figure { what: what.into(), is, at_most });
    }
}
