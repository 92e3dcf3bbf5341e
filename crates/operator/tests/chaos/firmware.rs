//! Firmware that every board rejects: how many boards it reaches, and how soon the job says so.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flashjob_api::flashjob::Phase;
use flashjob_sim::flashjob::{Flash, flashes};
use flashjob_sim::node::{Script, Started};
use flashjob_sim::{PATIENCE, SeededRng};
use jiff::Timestamp;
use serde_json::json;
use tokio::time::timeout;

use crate::arena::Arena;
use crate::judge::{self, Judged};
use crate::record::is_finished;
use crate::schedule::Played;
use crate::world::{Home, World};

/// What the job says when too many have failed.
const WORDS: &str = "more failed than rollout.maxFailures allows";

/// Plays one seed. `late` is how long the job took to say that too many had failed.
pub async fn play(arena: &Arena, seed: u64) -> Result<Played> {
    let mut rng = SeededRng::new(seed);
    let boards = 6 + rng.below(10);
    let batch = 1 + rng.below(boards);
    let parallel = 1 + rng.below(8);
    let budget = rng.below(4);
    let retries = rng.below(2);
    let (start, run) = (rng.below(100), 100 + rng.below(300));
    let world = World::new(arena, [boards, 0], 10, move |pod| {
        // Boards differ, so that failures do not all come at the same moment.
        let last = crate::scenario::env(pod, "HOST_ENDPOINT").bytes().last().unwrap_or_default();
        let more = 20 * u64::from(last % 10);
        Script::failure(1, r#"{"result":"Failed","reason":"ImageRejected","message":"bad"}"#)
            .start_after(Duration::from_millis(start as u64))
            .run_for(Duration::from_millis(run as u64 + more))
    })
    .await?;
    let more = json!({
        "uuid": world.paths(0..boards),
        "rollout": { "batchSize": batch, "maxParallel": parallel, "maxFailures": budget },
        "retry": { "limit": retries, "backoffSeconds": 1 },
    });
    world.flash(Home::North, "bad", "0.2.0", more).await?;
    let life = arena.operators.start(&[], None)?;
    let outcome = async {
        let over = world.record.when(|jobs| jobs.len() == 1 && jobs.values().all(is_finished));
        timeout(PATIENCE, over).await.context("the job does not come to its end")?;
        world.cleaned_up().await?;
        let allowed = budget + batch.min(parallel);
        let late = said_late(&world, boards, allowed, budget, 1 + retries)?;
        world.delete_jobs().await?;
        Ok(late)
    };
    let (outcome, late) = match outcome.await {
        Ok(late) => (Ok(()), late),
        Err(error) => (Err(error), Duration::ZERO),
    };
    let Judged { sessions, statuses } = judge::verdict(&world, outcome, &[life], 1 + retries)?;
    Ok(Played { sessions, statuses, late, ..Played::default() })
}

/// Holds the boards against what was allowed; says how long the job took to say that too many had failed.
fn said_late(
    world: &World,
    boards: usize,
    allowed: usize,
    budget: usize,
    tries: usize,
) -> Result<Duration> {
    let sessions = flashes(&world.kubelet);
    let touched: BTreeSet<&str> = sessions.iter().map(Flash::endpoint).collect();
    let touched = touched.len();
    ensure!(touched <= allowed, "{touched} boards were touched, and {allowed} are allowed");
    let job = world.record.jobs().into_values().next().context("no job")?;
    let phase = job.status.as_ref().and_then(|status| status.phase);
    ensure!(phase == Some(Phase::Failed), "the job ended as {phase:?}");
    let Some(crossed) = crossing(&sessions, budget, tries) else {
        ensure!(touched == boards, "the job ended with failures to spare and boards untouched");
        return Ok(Duration::ZERO);
    };
    let said = world.record.said();
    // With the last failure of all devices there is nothing left that could be held back.
    let told = said.iter().find(|said| said.message.contains(WORDS) || touched == boards);
    let told = told.context("the job never said that too many had failed")?;
    Ok(Duration::try_from(told.at.duration_since(crossed)).unwrap_or_default())
}

/// When one board more than allowed had failed for good.
fn crossing(sessions: &[Started], budget: usize, tries: usize) -> Option<Timestamp> {
    let mut ends: BTreeMap<&str, Vec<Timestamp>> = BTreeMap::new();
    for session in sessions {
        ends.entry(session.endpoint()).or_default().extend(session.ended_at);
    }
    let final_ends = ends.values().filter(|ends| ends.len() == tries);
    let mut final_ends: Vec<Timestamp> =
        final_ends.filter_map(|e| e.iter().max().copied()).collect();
    final_ends.sort();
    final_ends.get(budget).copied()
}
