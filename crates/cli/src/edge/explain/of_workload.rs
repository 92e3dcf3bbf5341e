//! How a workload is: whether devices can run it, how many do, and why the others do not.

use jiff::Timestamp;

use super::{todo, words};
use crate::edge::SYSTEM;
use crate::edge::device::Device;
use crate::edge::lagging::lagging;
use crate::edge::read::Kind;
use crate::edge::workload::Workload;
use crate::shell::clean;

/// Devices that lag; `edge status` shows more of them.
const MOST: usize = 100;

/// Sentences, and what to do after each that asks for it.
pub fn lines(workload: &Workload, devices: &[Device], now: Timestamp) -> Vec<String> {
    let (kind, path) = (workload.kind, workload.path());
    let how = match workload.message.as_str() {
        _ if workload.being_deleted => "it is being deleted",
        "" => "the operator has not looked at it yet",
        message => message,
    };
    let mut lines = vec![format!("{kind} {path}: {how}")];
    if workload.message.is_empty() && !workload.being_deleted {
        let check = SYSTEM.check;
        lines.push(todo(format!("see whether the operator works, and its namespaces: {check}")));
    } else if !workload.is_current {
        lines.push("it was edited, and the operator has not taken that in yet".to_owned());
    }
    for condition in &workload.conditions {
        lines.push(format!("{}: {}", condition.type_, words(condition, now)));
    }
    lines.extend(workload.advice().map(todo));
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    if !names.is_empty() {
        let more = names.len().saturating_sub(MOST);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let names = names[..names.len().min(MOST)].join(", ");
        lines.push(format!("devices: {names}{more}"));
    }
    let lags = lagging(workload, devices, now);
    for lag in lags.iter().take(MOST) {
        lines.push(format!("{}: {}: {}", lag.device, lag.state, lag.why));
        lines.extend(lag.advice.map(todo));
    }
    if lags.len() > MOST {
        lines.push(format!("and {} devices more", lags.len() - MOST));
    }
    lines.iter().map(|line| clean(line)).collect()
}
