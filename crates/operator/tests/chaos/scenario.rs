//! The rollout that crashes and faults of the network come over: two jobs in two namespaces, six boards, one of them in both jobs,
//! batches of two, a board whose first try fails, and a board that restarts while it is flashed.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flashjob_api::flashjob::Phase;
use flashjob_sim::cluster::{CallFate, Gate};
use flashjob_sim::flashjob::{Flash, flashes};
use flashjob_sim::node::{Script, Started};
use flashjob_sim::{Operator, PATIENCE};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use tokio::time::timeout;

use crate::arena::Arena;
use crate::judge::{self, Judged};
use crate::network_faults::NetworkFaults;
use crate::record::is_finished;
use crate::schedule::Played;
use crate::world::{Home, World};

const FAILS_ONCE: &str = "192.0.2.102";
const RESTARTS: usize = 2;
const SHARED: usize = 3;
const RETRIES: usize = 2;
const FIRST: &str = "0.2.0";
const SECOND: &str = "0.3.0";

/// What a Pod's environment says.
pub fn env<'a>(pod: &'a Pod, name: &str) -> &'a str {
    let containers = pod.spec.as_ref().map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let mut all = containers.iter().flat_map(|container| container.env.iter().flatten());
    all.find(|var| var.name == name).and_then(|var| var.value.as_deref()).unwrap_or_default()
}

fn script(pod: &Pod) -> Script {
    match (env(pod, "HOST_ENDPOINT"), env(pod, "ATTEMPT")) {
        (FAILS_ONCE, "1") => Script::failure(1, "the board hung up"),
        _ => Script::success("").start_after(Duration::from_millis(50)),
    }
    .run_for(Duration::from_millis(250))
}

/// Plays a schedule to its end. Fails with what went wrong and what the operators said.
pub async fn play(arena: &Arena, deaths: &[String], fault_seed: Option<u64>) -> Result<Played> {
    let world = World::new(arena, [4, 2], 10, script).await?;
    let (faults, gate) = match fault_seed {
        Some(seed) => {
            let faults = NetworkFaults::new(seed);
            (Some(faults.clone()), Some(faults.gate(&arena.cluster).await?))
        }
        // Only to count the writes.
        None if deaths.is_empty() => {
            (None, Some(Gate::start(&arena.cluster, |_| CallFate::Pass).await?))
        }
        None => (None, None),
    };
    let mut lives = Vec::new();
    let outcome = live(arena, &world, deaths, gate.as_ref(), faults.as_ref(), &mut lives).await;
    let died = outcome.as_ref().map_or(0, |died| *died);
    let outcome = outcome.map(drop);
    let Judged { sessions, statuses } = judge::verdict(&world, outcome, &lives, 1 + RETRIES)?;
    Ok(Played {
        writes: gate.as_ref().map_or(0, |gate| gate.calls().len()),
        deaths: died,
        faults: faults.map_or(0, |faults| faults.count()),
        statuses,
        sessions,
        ..Played::default()
    })
}

/// Says how many of the deaths came to pass.
async fn live(
    arena: &Arena,
    world: &World,
    deaths: &[String],
    gate: Option<&Gate>,
    faults: Option<&NetworkFaults>,
    lives: &mut Vec<Operator>,
) -> Result<usize> {
    let rollout = json!({ "batchSize": 2 });
    let retry = json!({ "limit": RETRIES, "backoffSeconds": 1 });
    for (home, name, version, boards) in [
        (Home::North, "first", FIRST, vec![SHARED, 1, 0, RESTARTS]),
        (Home::South, "second", SECOND, vec![SHARED, 4, 5]),
    ] {
        let more = json!({ "uuid": world.paths(boards), "rollout": rollout, "retry": retry });
        world.flash(home, name, version, more).await?;
    }
    let restart = async {
        let endpoint = &world.boards[RESTARTS].endpoint;
        let flashed = |all: &[Started]| all.iter().any(|s| s.endpoint() == endpoint);
        world.kubelet.starts_when(flashed).await;
        world.rediscover(RESTARTS, FIRST).await
    };
    let faults = async {
        if let (Some(faults), Some(gate)) = (faults, gate) {
            faults.until_over(gate).await;
        }
        Ok(())
    };
    let mut died = 0;
    let rollout = async {
        for death in deaths {
            lives.push(arena.operators.start(&[&format!("--crash-at={death}")], gate)?);
            let Some(life) = lives.last_mut() else { continue };
            tokio::select! {
                () = life.died() => died += 1,
                // A run may take a write less than the one that was counted.
                done = timeout(PATIENCE, finished(world)) => done.context("neither a death nor an end")?,
            }
            life.kill();
        }
        lives.push(arena.operators.start(&[], gate)?);
        timeout(PATIENCE, finished(world)).await.context("the jobs do not come to their end")
    };
    tokio::try_join!(restart, faults, rollout)?;
    // What a dead operator sent may still be on its way, and has to be cleaned up too.
    if let Some(gate) = gate {
        timeout(PATIENCE, gate.settled()).await.context("calls under way for ever")?;
    }
    world.cleaned_up().await?;
    agree(world)?;
    world.delete_jobs().await?;
    Ok(died)
}

async fn finished(world: &World) {
    world.record.when(|jobs| jobs.len() == 2 && jobs.values().all(is_finished)).await;
}

/// Both jobs say that all went well, or that the newer one has flashed a board since, and the boards agree.
fn agree(world: &World) -> Result<()> {
    for job in world.record.jobs().values() {
        let status = job.status.clone().unwrap_or_default();
        let superseded = !status.failures.is_empty()
            && status.failures.iter().all(|failure| failure.reason == "Superseded");
        let well = if superseded { Phase::Failed } else { Phase::Completed };
        let message = status.message.unwrap_or_default();
        ensure!(status.phase == Some(well), "a job ended as {:?}: {message}", status.phase);
    }
    let sessions = flashes(&world.kubelet);
    for (n, board) in world.boards.iter().enumerate() {
        let wanted = if n < SHARED { FIRST } else { SECOND };
        let runs = judge::runs(&sessions, &board.endpoint);
        ensure!(runs == Some(wanted), "board {n} runs {runs:?} and not {wanted}");
    }
    Ok(())
}
