//! Which schedules a part of `make chaos` has.

use anyhow::{Context, Result, bail};
use flashjob_sim::SeededRng;

use crate::arena::Arena;
use crate::scenario;
use crate::schedule::Schedule;
use crate::tenants::plot::SHORT;

/// The parts, in the order they are played.
pub const PARTS: [&str; 5] = ["crashes", "stale", "edits", "firmware", "tenants"];

/// The first seed; the others follow it.
const SEED: u64 = 1;
/// How many seeds a part has in the full form, and in the short one.
const PAIRS: u64 = 400;
const NETWORK_FAULTS: (u64, u64) = (480, 16);
const EDITS: (u64, u64) = (200, 8);
const BAD_FIRMWARE: (u64, u64) = (200, 8);
const TENANTS: u64 = 200;

/// All schedules of a part, or those of the short form.
pub async fn schedules(part: &str, arena: &Arena, full: bool) -> Result<Vec<Schedule>> {
    let seeds = |(all, few)| SEED..SEED + if full { all } else { few };
    Ok(match part {
        "crashes" => crashes(arena, full).await?,
        "stale" => seeds(NETWORK_FAULTS).map(Schedule::NetworkFaults).collect(),
        "edits" => seeds(EDITS).map(Schedule::Edits).collect(),
        "firmware" => seeds(BAD_FIRMWARE).map(Schedule::BadFirmware).collect(),
        _ if full => (SEED..SEED + TENANTS).map(Schedule::Tenants).collect(),
        _ => SHORT.map(Schedule::Tenants).to_vec(),
    })
}

/// The one with this seed.
pub fn one(part: &str, seed: u64) -> Result<Schedule> {
    Ok(match part {
        "stale" => Schedule::NetworkFaults(seed),
        "edits" => Schedule::Edits(seed),
        "firmware" => Schedule::BadFirmware(seed),
        "tenants" => Schedule::Tenants(seed),
        _ => bail!("{part} has no seeds; name where the operator dies: --at before:17,after:3"),
    })
}

/// A death at every write, before and after it; then pairs of deaths. How many writes there are is learnt from a life
/// without one.
async fn crashes(arena: &Arena, full: bool) -> Result<Vec<Schedule>> {
    let whole = scenario::play(arena, &[], None).await.context("without any crash")?;
    let mut schedules = Vec::new();
    for n in 1..=whole.writes {
        schedules.push(Schedule::Deaths(vec![format!("before:{n}")]));
        schedules.push(Schedule::Deaths(vec![format!("after:{n}")]));
    }
    let mut rng = SeededRng::new(SEED);
    for _ in 0..PAIRS {
        let first = 1 + rng.below(whole.writes);
        // The second life has the writes that the first one left.
        let second = 1 + rng.below((whole.writes - first).max(1));
        let deaths = [first, second].map(|n| {
            let side = if rng.chance(1, 2) { "before" } else { "after" };
            format!("{side}:{n}")
        });
        schedules.push(Schedule::Deaths(deaths.to_vec()));
    }
    // An odd step, so that both sides come.
    let step = if full { 1 } else { 9 };
    Ok(schedules.into_iter().step_by(step).collect())
}
