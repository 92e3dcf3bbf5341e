//! The results: JSON for programs, tables for people.

use std::fmt::{Display, Formatter, Result};

use serde::{Serialize, Serializer};

pub mod fleet;

use self::fleet::FleetReport;
use crate::bed::median;
use crate::registrations::Registrations;
use crate::requests::Requests;

/// Registrations a second, at least.
const REGISTRATIONS: f64 = 50.0;
/// Four from enrolment to first use, and the status of the first heartbeat.
const WRITES: f64 = 5.0;
/// Times the CPU of the floor, at most.
const REQUEST: f64 = 1.5;

/// All that was measured.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    #[serde(serialize_with = "with_rates")]
    pub registrations: Option<Registrations>,
    #[serde(serialize_with = "with_ratios")]
    pub requests: Vec<Requests>,
    pub fleet: FleetReport,
}

/// What can be worked out is in the JSON too, so that nobody works it out differently.
fn with_rates<S: Serializer>(
    registrations: &Option<Registrations>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Row<'a> {
        #[serde(flatten)]
        registrations: &'a Registrations,
        per_second: f64,
        floor_per_second: f64,
        ratio: f64,
        writes_each: f64,
        cpu_ms_each: f64,
    }
    let row = registrations.as_ref().map(|registrations| Row {
        registrations,
        per_second: registrations.per_second(),
        floor_per_second: registrations.floor_per_second(),
        ratio: registrations.ratio(),
        writes_each: registrations.writes_each(),
        cpu_ms_each: registrations.cpu_ms_each(),
    });
    row.serialize(serializer)
}

fn with_ratios<S: Serializer>(
    requests: &[Requests],
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Row<'a> {
        #[serde(flatten)]
        requests: &'a Requests,
        floor_micros: f64,
        operator_micros: f64,
        ratio: f64,
    }
    serializer.collect_seq(requests.iter().map(|requests| Row {
        requests,
        floor_micros: median(&requests.floor),
        operator_micros: median(&requests.operator),
        ratio: requests.ratio(),
    }))
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.registrations(f)?;
        self.requests(f)?;
        self.fleet.fmt(f)?;
        self.figures(f)
    }
}

impl Report {
    fn registrations(&self, f: &mut Formatter<'_>) -> Result {
        let Some(row) = &self.registrations else { return Ok(()) };
        writeln!(f, "Registrations, {} at once, first use included", row.parallel)?;
        writeln!(
            f,
            "  devices  seconds  a second  median s  p99 s  retries  floor before, after  floor a second  ratio  \
             CPU ms each  peak MiB"
        )?;
        let [before, after] = row.floor_seconds;
        writeln!(
            f,
            "  {:>7}  {:>7.2}  {:>8.1}  {:>8.2}  {:>5.2}  {:>7}  {before:>12.2} {after:>6.2}  {:>14.1}  {:>5.2}  \
             {:>11.2}  {:>8.1}",
            row.devices,
            row.seconds,
            row.per_second(),
            row.median_seconds,
            row.p99_seconds,
            row.retries,
            row.floor_per_second(),
            row.ratio(),
            row.cpu_ms_each(),
            row.usage.peak_mi_b,
        )?;
        writeln!(f, "\nThe operator's writes, {} for each device in the floor", row.floor_writes)?;
        for (kind, count) in &row.writes {
            writeln!(f, "  {kind:<29}  {count:>7}")?;
        }
        writeln!(f, "  {:<29}  {:>7}", "refused, of these", row.refused)?;
        writeln!(f, "  {:<29}  {:>7.3}\n", "per device", row.writes_each())
    }

    fn requests(&self, f: &mut Formatter<'_>) -> Result {
        let Some(first) = self.requests.first() else { return Ok(()) };
        writeln!(
            f,
            "CPU of a request, median of {} times {}",
            first.operator.len(),
            first.requests
        )?;
        writeln!(f, "                          bytes  a second  floor µs  operator µs  ratio")?;
        for row in &self.requests {
            writeln!(
                f,
                "  {}  {:<18}  {:>5}  {:>8.0}  {:>8.1}  {:>11.1}  {:>5.2}",
                row.protocol,
                row.what,
                row.bytes,
                row.per_second,
                median(&row.floor),
                median(&row.operator),
                row.ratio(),
            )?;
        }
        writeln!(f)
    }

    fn figures(&self, f: &mut Formatter<'_>) -> Result {
        writeln!(f, "Figures to reach")?;
        let mut figure =
            |what: &str, is: f64, reached: bool, wanted: &str| figure(f, what, is, reached, wanted);
        if let Some(row) = &self.registrations {
            let (rate, writes) = (row.per_second(), row.writes_each());
            let wanted = format!("at least {REGISTRATIONS}");
            figure("registrations a second", rate, rate >= REGISTRATIONS, &wanted)?;
            figure("writes each", writes, writes <= WRITES, &format!("at most {WRITES}"))?;
        }
        if let Some(ratio) = self.requests.iter().map(Requests::ratio).max_by(f64::total_cmp) {
            let wanted = format!("at most {REQUEST}");
            figure("a request: times the floor, the worst", ratio, ratio <= REQUEST, &wanted)?;
        }
        self.fleet.figures(f)
    }
}

/// A figure beside the one that is wanted.
fn figure(f: &mut Formatter<'_>, what: &str, is: f64, reached: bool, wanted: &str) -> Result {
    let word = if reached { "" } else { "  not reached" };
    writeln!(f, "  {what:<48}  {is:>8.2}  {wanted}{word}")
}
