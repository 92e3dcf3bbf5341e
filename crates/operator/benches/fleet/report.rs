//! The results: JSON for programs, tables for people.

use std::collections::BTreeSet;
use std::fmt::{Display, Formatter, Result};

use serde::{Serialize, Serializer};

use crate::cold::ColdStart;
use crate::figures::{Figure, figures};
use crate::finished::Finished;
use crate::flash::Flash;
use crate::large::Large;
use crate::rollout::Rollout;

/// All that was measured.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    #[serde(serialize_with = "with_ratios")]
    pub rollouts: Vec<Rollout>,
    pub flashes: Vec<Flash>,
    pub cold_start: Option<ColdStart>,
    pub finished: Option<Finished>,
    pub large: Option<Large>,
}

/// What can be worked out is in the JSON too, so that nobody works it out differently.
fn with_ratios<S: Serializer>(
    rollouts: &[Rollout],
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Row<'a> {
        #[serde(flatten)]
        rollout: &'a Rollout,
        per_device_ms: f64,
        ratio: f64,
        waiting_ratio: f64,
        writes_per_device: f64,
    }
    serializer.collect_seq(rollouts.iter().map(|rollout| Row {
        rollout,
        per_device_ms: rollout.per_device_ms(),
        ratio: rollout.ratio(),
        waiting_ratio: rollout.waiting_ratio(),
        writes_per_device: rollout.writes_per_device(),
    }))
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.rollouts(f)?;
        self.writes(f)?;
        self.flashes(f)?;
        self.cold_start(f)?;
        self.finished(f)?;
        self.large(f)?;
        self.figures(f)
    }
}

impl Report {
    fn rollouts(&self, f: &mut Formatter<'_>) -> Result {
        if self.rollouts.is_empty() {
            return Ok(());
        }
        writeln!(f, "One job, instant flashes, seconds from its creation to Completed")?;
        writeln!(
            f,
            "  devices  seconds  ms each  clean at  floor before, after  ratio  waiting floor  ratio  \
             peak MiB  CPU s"
        )?;
        for row in &self.rollouts {
            let [before, after] = row.floor_seconds;
            writeln!(
                f,
                "  {:>7}  {:>7.2}  {:>7.2}  {:>8.2}  {before:>12.2} {after:>6.2}  {:>5.2}  {:>13.2}  {:>5.2}  \
                 {:>8.1}  {:>5.2}",
                row.devices,
                row.seconds,
                row.per_device_ms(),
                row.cleaned_up_seconds,
                row.ratio(),
                row.waiting_floor_seconds,
                row.waiting_ratio(),
                row.usage.peak_mi_b,
                row.usage.cpu_seconds,
            )?;
        }
        writeln!(f)
    }

    fn writes(&self, f: &mut Formatter<'_>) -> Result {
        if self.rollouts.is_empty() {
            return Ok(());
        }
        write!(f, "The operator's writes          ")?;
        for row in &self.rollouts {
            write!(f, "  {:>7}", row.devices)?;
        }
        writeln!(f)?;
        let kinds: BTreeSet<&String> =
            self.rollouts.iter().flat_map(|row| row.writes.keys()).collect();
        for kind in kinds {
            write!(f, "  {kind:<29}")?;
            for row in &self.rollouts {
                write!(f, "  {:>7}", row.writes.get(kind).copied().unwrap_or_default())?;
            }
            writeln!(f)?;
        }
        write!(f, "  {:<29}", "refused, of these")?;
        for row in &self.rollouts {
            write!(f, "  {:>7}", row.refused)?;
        }
        write!(f, "\n  {:<29}", "per device")?;
        for row in &self.rollouts {
            write!(f, "  {:>7.3}", row.writes_per_device())?;
        }
        writeln!(f, "\n")
    }

    fn flashes(&self, f: &mut Formatter<'_>) -> Result {
        let Some(first) = self.flashes.first() else { return Ok(()) };
        writeln!(f, "A flash of {} s, all devices at once", first.flash_seconds)?;
        writeln!(f, "  devices  Completed late by s  device recorded late by s  peak MiB  CPU s")?;
        for row in &self.flashes {
            writeln!(
                f,
                "  {:>7}  {:>19.3}  {:>25.3}  {:>8.1}  {:>5.2}",
                row.devices,
                row.late_seconds,
                row.median_recorded_seconds,
                row.usage.peak_mi_b,
                row.usage.cpu_seconds,
            )?;
        }
        writeln!(f)
    }

    fn cold_start(&self, f: &mut Formatter<'_>) -> Result {
        let Some(cold) = &self.cold_start else { return Ok(()) };
        writeln!(f, "A new process, and a job with a ledger")?;
        writeln!(f, "  devices  first write s  first Service s  peak MiB  CPU s  first write was")?;
        writeln!(
            f,
            "  {:>7}  {:>13.2}  {:>15.2}  {:>8.1}  {:>5.2}  {}\n",
            cold.devices,
            cold.first_write_seconds,
            cold.first_service_seconds,
            cold.usage.peak_mi_b,
            cold.usage.cpu_seconds,
            cold.first_write,
        )
    }

    fn finished(&self, f: &mut Formatter<'_>) -> Result {
        let Some(finished) = &self.finished else { return Ok(()) };
        writeln!(f, "A new process, and finished jobs of {} devices each", finished.devices_each)?;
        writeln!(f, "  jobs  all told after s  MiB then  peak MiB  CPU s")?;
        writeln!(
            f,
            "  {:>4}  {:>16.1}  {:>8.1}  {:>8.1}  {:>5.1}\n",
            finished.jobs,
            finished.seconds,
            finished.usage.mi_b,
            finished.usage.peak_mi_b,
            finished.usage.cpu_seconds,
        )
    }

    fn large(&self, f: &mut Formatter<'_>) -> Result {
        let Some(large) = &self.large else { return Ok(()) };
        writeln!(f, "One job, its devices chosen by a selector, instant flashes")?;
        writeln!(
            f,
            "  devices  seconds  clean at  peak MiB  CPU s  per 1,000  writes each  refused  status bytes  listed"
        )?;
        writeln!(
            f,
            "  {:>7}  {:>7.1}  {:>8.1}  {:>8.1}  {:>5.0}  {:>9.2}  {:>11.3}  {:>7}  {:>12}  {:>6}\n",
            large.devices,
            large.seconds,
            large.cleaned_up_seconds,
            large.usage.peak_mi_b,
            large.usage.cpu_seconds,
            large.cpu_per_thousand(),
            large.writes_per_device,
            large.refused,
            large.status_bytes,
            large.completed_listed,
        )
    }

    fn figures(&self, f: &mut Formatter<'_>) -> Result {
        let figures = figures(self);
        if figures.is_empty() {
            return Ok(());
        }
        writeln!(f, "Figures to reach")?;
        for Figure { what, is, at_most } in figures {
            let word = if is <= at_most { "" } else { "  not reached" };
            writeln!(f, "  {what:<50}  {is:>8.3}  at most {at_most:>6}{word}")?;
        }
        writeln!(f)
    }
}
