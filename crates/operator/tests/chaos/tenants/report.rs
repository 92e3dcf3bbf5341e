//! What all seeds together came to.

use std::collections::BTreeMap;

use super::judge::ratio;
use super::plot::{CAMPAIGNS, Plot};
use crate::schedule::{Schedule, Tally};

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
    let timed: Vec<(u64, f64)> = timed(tally).collect();
    let all = sorted(timed.iter().map(|(_, ratio)| *ratio));
    if let (Some(median), Some(many), Some(most)) = (at(&all, 50), at(&all, 90), at(&all, 100)) {
        let alone: f64 = tally.well.iter().map(|(_, played)| played.alone.as_secs_f64()).sum();
        let sums = &tally.sums;
        lines.push(format!(
            "tenants: the victim took {median:.2} times as long as alone in the median of {} seeds, {many:.2} in nine of \
             ten, {most:.2} at most ({} measured again); alone {:.1} s on average; {} of {} of the attacker's writes were \
             refused; {} sessions of his with the victim's boards, allowed by --device-namespaces=*; the operator had \
             {:.0} MiB at most",
            all.len(),
            sums.repeats,
            alone / all.len() as f64,
            sums.refused,
            sums.faults,
            sums.allowed,
            sums.peak,
        ));
    }
    for campaign in CAMPAIGNS {
        let with = |(seed, _): &&(u64, f64)| Plot::new(*seed).has(campaign);
        let ratios = sorted(timed.iter().filter(with).map(|(_, ratio)| *ratio));
        if let (Some(median), Some(most)) = (at(&ratios, 50), at(&ratios, 100)) {
            let count = ratios.len();
            lines.push(format!(
                "tenants: {campaign:?}: {count} seeds, {median:.2} times in the median, {most:.2} at most"
            ));
        }
    }
    lines.join("\n")
}

/// How many times as long as alone the victim took, with each seed that went well.
fn timed(tally: &Tally) -> impl Iterator<Item = (u64, f64)> {
    tally.well.iter().filter_map(|(schedule, played)| match schedule {
        Schedule::Tenants(seed) if !played.alone.is_zero() => {
            Some((*seed, ratio(played.alone, played.attacked)))
        }
        _ => None,
    })
}

fn sorted(ratios: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut ratios: Vec<f64> = ratios.collect();
    ratios.sort_by(f64::total_cmp);
    ratios
}

fn at(sorted: &[f64], percent: usize) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get(last * percent / 100).copied()
}
