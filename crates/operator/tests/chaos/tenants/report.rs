//! What all seeds together came to.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use super::judge::RATIO;
use crate::schedule::Tally;

/// For people: what was wrong and how often, and how much longer the victim took than alone.
pub fn summary(tally: &Tally) -> String {
    let mut lines = Vec::new();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for verdict in &tally.verdicts {
        let words = verdict.split(" (").next().unwrap_or_default();
        for kind in words.split(", ") {
            *kinds.entry(kind).or_default() += 1;
        }
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    if !kinds.is_empty() {
        lines.push(format!("tenants: seeds by what was wrong: {}", kinds.join(", ")));
    }
    let ratios = ratios(tally);
    if let (Some(median), Some(most)) = (at(&ratios, 50), at(&ratios, 100)) {
        let many = at(&ratios, 90).unwrap_or(most);
        let alone: f64 = tally.well.iter().map(|p| p.alone.as_secs_f64()).sum();
        lines.push(format!(
            "tenants: the victim took {median:.2} times as long as alone in the median of {} seeds, {many:.2} in nine of \
             ten, {most:.2} at most; alone {:.1} s on average; {} sessions of the attacker's with its boards, allowed by \
             --device-namespaces=*; the operator had {:.0} MiB at most",
            ratios.len(),
            alone / ratios.len() as f64,
            tally.sums.allowed,
            tally.sums.peak,
        ));
    }
    lines.join("\n")
}

/// Noise hits single seeds, which have room for it, and not the median: there the ratio itself has to hold.
pub fn check(tally: &Tally) -> Result<()> {
    if let Some(median) = at(&ratios(tally), 50) {
        ensure!(
            median <= RATIO,
            "tenants: {median:.2} times as long as alone, and {RATIO} is allowed"
        );
    }
    Ok(())
}

/// How many times as long as alone, in order.
fn ratios(tally: &Tally) -> Vec<f64> {
    let timed = tally.well.iter().filter(|played| !played.alone.is_zero());
    let ratio = |p: &crate::schedule::Played| p.attacked.as_secs_f64() / p.alone.as_secs_f64();
    let mut ratios: Vec<f64> = timed.map(ratio).collect();
    ratios.sort_by(f64::total_cmp);
    ratios
}

fn at(sorted: &[f64], percent: usize) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get(last * percent / 100).copied()
}
