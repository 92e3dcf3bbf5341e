//! A job that is edited while it runs, by somebody who is not careful: devices in and out, other firmware, other batches,
//! hold and go on, abort, nonces, the job deleted and made again, values that make no sense, and the operator killed in
//! between. In the end the spec is a plain one again, and must be carried out.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flashjob_api::flashjob::Phase;
use flashjob_sim::flashjob::flashes;
use flashjob_sim::node::Script;
use flashjob_sim::{Operator, PATIENCE, SeededRng, eventually};
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::arena::Arena;
use crate::judge::{self, Judged};
use crate::record::is_finished;
use crate::schedule::Played;
use crate::world::{Home, World};

const BOARDS: usize = 6;
const RETRIES: usize = 2;
const LAST: &str = "9.0.0";

/// Plays one seed.
pub async fn play(arena: &Arena, seed: u64) -> Result<Played> {
    let world = World::new(arena, [BOARDS, 0], 10, |_| {
        Script::success("").run_for(Duration::from_millis(300))
    })
    .await?;
    let mut lives = Vec::new();
    let mut faults = 0;
    let outcome = live(arena, &world, seed, &mut lives, &mut faults).await;
    let Judged { sessions, statuses } = judge::verdict(&world, outcome, &lives, 1 + RETRIES)?;
    Ok(Played { sessions, statuses, faults, deaths: lives.len() - 1, ..Played::default() })
}

async fn live(
    arena: &Arena,
    world: &World,
    seed: u64,
    lives: &mut Vec<Operator>,
    edits: &mut usize,
) -> Result<()> {
    let mut rng = SeededRng::new(seed);
    let start = json!({ "uuid": world.paths(some_boards(&mut rng)) });
    world.flash(Home::North, "job", "0.1.1", start).await?;
    lives.push(arena.operators.start(&[], None)?);
    for n in 0..4 + rng.below(8) {
        sleep(Duration::from_millis(rng.below(700) as u64)).await;
        *edits += 1;
        match rng.below(12) {
            0 => {
                again(world, &mut rng, n).await?;
            }
            1 => {
                lives.push(arena.operators.start(&[], None)?);
                let old = lives.len() - 2;
                lives[old].kill();
            }
            _ => {
                // A refusal by the API server is an answer, too.
                world.edit(Home::North, "job", &edit(world, &mut rng, n)).await?;
            }
        }
    }
    let wanted = some_boards(&mut rng);
    let last = json!({
        "uuid": world.paths(wanted.clone()),
        "firmware": format!("registry.example/esp32:{LAST}"), "version": LAST,
        "rollout": null, "suspend": null, "abort": null, "timeouts": null, "podTemplate": null,
        "retry": { "limit": RETRIES, "backoffSeconds": 1, "nonce": "last" },
    });
    let refused = world.edit(Home::North, "job", &last).await?;
    ensure!(refused.is_none(), "the last edit was refused: {refused:?}");
    let over = world.record.when(|jobs| {
        jobs.values().all(|job| job.spec.version == LAST && is_finished(job)) && !jobs.is_empty()
    });
    let jobs = timeout(PATIENCE, over).await.context("the job does not come to its end")?;
    world.cleaned_up().await?;
    for job in jobs.values() {
        let phase = job.status.as_ref().and_then(|status| status.phase);
        ensure!(phase == Some(Phase::Completed), "the job ended as {phase:?}");
    }
    let sessions = flashes(&world.kubelet);
    for n in wanted {
        let runs = judge::runs(&sessions, &world.boards[n].endpoint);
        ensure!(runs == Some(LAST), "board {n} runs {runs:?} and not {LAST}");
    }
    world.delete_jobs().await
}

fn some_boards(rng: &mut SeededRng) -> Vec<usize> {
    let mut all: Vec<usize> = (0..BOARDS).collect();
    rng.shuffle(&mut all);
    all.truncate(1 + rng.below(BOARDS));
    all
}

/// The job is deleted and made again under its name once it is gone.
async fn again(world: &World, rng: &mut SeededRng, n: usize) -> Result<()> {
    let jobs = world.jobs(Home::North);
    jobs.delete("job", &DeleteParams::background()).await?;
    eventually("the job to be gone", PATIENCE, async || {
        Ok(jobs.get_opt("job").await?.is_none().then_some(()))
    })
    .await?;
    let spec = json!({ "uuid": world.paths(some_boards(rng)) });
    world.flash(Home::North, "job", &format!("0.{}.2", n + 2), spec).await
}

/// An edit, sensible or not.
fn edit(world: &World, rng: &mut SeededRng, n: usize) -> Value {
    // A version that was not there before: to go back to an earlier one is to ask for another flash of it.
    let version = format!("0.{}.3", n + 2);
    match rng.below(12) {
        0 | 1 => json!({ "uuid": world.paths(some_boards(rng)) }),
        2 | 3 => {
            json!({ "firmware": format!("registry.example/esp32:{version}"), "version": version })
        }
        4 => {
            json!({ "rollout": { "batchSize": 1 + rng.below(4), "delaySeconds": rng.below(2) } })
        }
        5 => json!({ "rollout": { "batchSize": "50%", "maxParallel": rng.below(4) } }),
        6 => json!({ "suspend": rng.chance(2, 3) }),
        7 => json!({ "abort": rng.chance(2, 3) }),
        8 => json!({ "retry": { "nonce": format!("nonce-{n}") } }),
        _ => nonsense(rng),
    }
}

fn nonsense(rng: &mut SeededRng) -> Value {
    let all = [
        json!({ "rollout": { "batchSize": -1 } }),
        json!({ "rollout": { "batchSize": 0 } }),
        json!({ "rollout": { "batchSize": "many" } }),
        json!({ "rollout": { "maxParallel": 4_000_000_000_u64 } }),
        json!({ "rollout": { "maxFailures": "101%" } }),
        json!({ "rollout": { "delaySeconds": -3 } }),
        json!({ "retry": { "limit": -1 } }),
        json!({ "retry": { "backoffSeconds": 1_000_000_000 } }),
        json!({ "timeouts": { "deviceSeconds": 0 } }),
        json!({ "uuid": [] }),
        json!({ "uuid": ["", " ", "no/such/device"] }),
        json!({ "version": "" }),
        json!({ "firmware": " " }),
        json!({ "podTemplate": { "spec": { "hostPID": true } } }),
        json!({ "suspend": "maybe" }),
    ];
    all.get(rng.below(all.len())).cloned().unwrap_or_default()
}
