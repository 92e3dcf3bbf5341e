//! What a process has used up, as the kernel counts it.

use std::fs;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use serde::Serialize;

/// What a process has used up so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// The memory it has now, VmRSS.
    pub mi_b: f64,
    /// The most memory it ever had, VmHWM.
    pub peak_mi_b: f64,
    /// In user and system mode.
    pub cpu_seconds: f64,
}

impl Usage {
    /// Of a process that runs.
    pub fn of(pid: u32) -> Result<Self> {
        let file = |name: &str| {
            let path = format!("/proc/{pid}/{name}");
            fs::read_to_string(&path).with_context(|| format!("{path} cannot be read"))
        };
        let status = file("status")?;
        let kib = |name: &str| {
            kib(&status, name).with_context(|| format!("no {name} in the status of the process"))
        };
        let (now, peak) = (kib("VmRSS:")?, kib("VmHWM:")?);
        let ticks = ticks(&file("stat")?).context("no times in the stat of the process")?;
        let cpu_seconds = ticks / ticks_per_second();
        Ok(Self { mi_b: now / 1024.0, peak_mi_b: peak / 1024.0, cpu_seconds })
    }
}

fn kib(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// utime and stime, fields 14 and 15. Field 2 is the program's name, which may hold anything, and ends in `)`.
fn ticks(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<f64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

/// 100 on every machine we know; asked once all the same.
fn ticks_per_second() -> f64 {
    static TICKS: OnceLock<f64> = OnceLock::new();
    *TICKS.get_or_init(|| {
        let output = Command::new("getconf").arg("CLK_TCK").output().ok();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(100.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_process_has_memory() {
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.mi_b > 0.5 && usage.peak_mi_b >= usage.mi_b && usage.cpu_seconds >= 0.0);
        assert_eq!(ticks("1 (a b) c) S 1 1 1 1 1 1 1 1 1 1 7 8 0"), Some(15.0));
    }
}
