//! The results for a fleet: tables, and the figures to reach.

use std::fmt::{Display, Formatter, Result};

use serde::Serialize;

use super::figure;
use crate::fleet::beats::Beats;
use crate::fleet::edit::Edit;
use crate::fleet::load::Load;
use crate::fleet::polls::Polls;
use crate::fleet::start::Start;

/// Of polls, in ms, and times the CPU and beside the memory of the floor.
const POLL_P99: f64 = 50.0;
const POLL_CPU: f64 = 1.5;
const POLL_MIB: f64 = 64.0;
/// Of heartbeats on connections of their own: times the floor, in ms, and in MiB.
const BEAT_P99: f64 = 2.0;
const BEAT_CPU: f64 = 0.55;
const BEAT_MIB: f64 = 192.0;
/// Writes a second of a fleet at rest.
const WRITES: f64 = 1.0;
/// Of an edit, in seconds, and writes of each device.
const EDIT_P99: f64 = 10.0;
const EDIT_WRITES: f64 = 1.1;
/// Of a start, times a bare list.
const START: f64 = 1.3;

/// All that was measured of a fleet.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetReport {
    pub polls: Vec<Polls>,
    pub beats: Option<Beats>,
    pub start: Option<Start>,
    pub edit: Option<Edit>,
}

impl Display for FleetReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let loads = self.polls.iter().map(|row| {
            (row.protocol, row.devices, &row.floor, &row.operator, row.writes_per_second)
        });
        let beats = self
            .beats
            .iter()
            .map(|row| ("new", row.devices, &row.floor, &row.operator, row.writes_per_second));
        for (what, devices, floor, operator, writes) in loads.chain(beats) {
            match what {
                "new" => {
                    writeln!(f, "{devices} devices, a heartbeat a minute on a new connection")?
                }
                protocol => {
                    writeln!(f, "{devices} of Flotta's agents on kept connections, {protocol}")?
                }
            }
            writeln!(
                f,
                "            requests   lost  a second  median ms   p99 ms  worst ms  CPU µs each     MiB  writes/s"
            )?;
            load(f, "floor", floor, None)?;
            load(f, "operator", operator, Some(writes))?;
            for (why, count) in floor.lost.iter().chain(&operator.lost).take(8) {
                writeln!(f, "  lost: {count} times {why}")?;
            }
            writeln!(f)?;
        }
        if let Some(row) = &self.start {
            writeln!(f, "The start of a process among {} devices", row.devices)?;
            writeln!(
                f,
                "  list s  first served s  all served s  ratio  writes  peak MiB  answers to 41 who asked meanwhile"
            )?;
            writeln!(
                f,
                "  {:>6.2}  {:>14.2}  {:>12.2}  {:>5.2}  {:>6}  {:>8.1}  {:?}\n",
                row.list_seconds,
                row.first_served_seconds,
                row.all_served_seconds,
                row.ratio(),
                row.writes,
                row.peak_mi_b,
                row.answers,
            )?;
        }
        if let Some(row) = &self.edit {
            writeln!(f, "An edit of a workload that {} waiting devices run", row.devices)?;
            writeln!(f, "  median s  p99 s  worst s  all written s  writes each  CPU ms each")?;
            writeln!(
                f,
                "  {:>8.2}  {:>5.2}  {:>7.2}  {:>13.1}  {:>11.3}  {:>11.2}",
                row.median_seconds,
                row.p99_seconds,
                row.worst_seconds,
                row.written_seconds,
                row.writes_each,
                row.cpu_ms_each,
            )?;
            for (kind, count) in &row.writes {
                writeln!(f, "  {count:>8}  {kind}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

fn load(f: &mut Formatter<'_>, who: &str, load: &Load, writes: Option<f64>) -> Result {
    write!(
        f,
        "  {who:<8}  {:>8}  {:>5}  {:>8.0}  {:>9.2}  {:>7.2}  {:>8.1}  {:>11.1}  {:>6.1}",
        load.requests,
        load.all_lost(),
        load.per_second,
        load.median_ms,
        load.p99_ms,
        load.worst_ms,
        load.cpu_micros,
        load.mib,
    )?;
    match writes {
        Some(writes) => writeln!(f, "  {writes:>8.2}"),
        None => writeln!(f),
    }
}

impl FleetReport {
    pub fn figures(&self, f: &mut Formatter<'_>) -> Result {
        let mut at_most = |what: &str, is: f64, wanted: f64| {
            figure(f, what, is, is <= wanted, &format!("at most {wanted}"))
        };
        for row in &self.polls {
            let of = |what: &str| format!("polls over {}: {what}", row.protocol);
            at_most(&of("lost"), row.operator.all_lost() as f64, 0.0)?;
            at_most(&of("p99, ms"), row.operator.p99_ms, POLL_P99)?;
            at_most(&of("CPU, times the floor"), row.cpu_ratio(), POLL_CPU)?;
            at_most(&of("MiB more than the floor"), row.more_mib(), POLL_MIB)?;
            at_most(&of("writes a second"), row.writes_per_second, WRITES)?;
        }
        if let Some(row) = &self.beats {
            at_most("beats on new connections: lost", row.operator.all_lost() as f64, 0.0)?;
            at_most("beats on new connections: p99, times the floor", row.p99_ratio(), BEAT_P99)?;
            at_most(
                "beats on new connections: CPU, ms",
                row.operator.cpu_micros / 1000.0,
                BEAT_CPU,
            )?;
            at_most("beats on new connections: MiB", row.operator.mib, BEAT_MIB)?;
            at_most("beats on new connections: writes a second", row.writes_per_second, WRITES)?;
        }
        if let Some(row) = &self.start {
            at_most("start: all served, times a bare list", row.ratio(), START)?;
        }
        if let Some(row) = &self.edit {
            at_most("an edit: 99 % have it, s", row.p99_seconds, EDIT_P99)?;
            at_most("an edit: writes of each device", row.writes_each, EDIT_WRITES)?;
        }
        Ok(())
    }
}
