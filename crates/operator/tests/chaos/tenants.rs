//! Two tenants on one cluster: a victim with a rollout, and an attacker with the rights of `edit` in its own namespace and
//! no others.
//!
//! Each seed plays the victim's rollout twice, with the operator killed at the same places: alone, and beside the attack.
//! Then the operator is killed once more, with the forgeries still there, and the victim's job has to stand as it was. The
//! boards and the victim's statuses are the judge; see `judge` for what they can say. When nothing is wrong but the time, the
//! seed is played again at the end, without other schedules beside it.

mod attacker;
mod campaigns;
mod forgery;
pub mod judge;
mod operators;
pub mod plot;
mod probe;
pub mod report;
mod specs;
mod story;
mod world;

use anyhow::{Result, anyhow, bail};

use self::attacker::Attacker;
use self::judge::{Kind, Problem};
use self::operators::Operators;
use self::plot::Plot;
use self::story::{Run, Told};
use self::world::World;
use crate::arena::Arena;
use crate::schedule::{Played, keep};
use flashjob_sim::flashjob::flashes;

/// Plays one seed once.
pub async fn play(arena: &Arena, seed: u64) -> Result<Played> {
    let plot = Plot::new(seed);
    let (Told { played, problems, .. }, words) = once(arena, &plot).await?;
    if !problems.is_empty() {
        bail!(failure(&plot, &problems, &words));
    }
    if judge::held_up(&[ratio(&played)]) != Some(false) {
        keep(&format!("tenants --seed {seed} slow"), &words);
    }
    Ok(played)
}

/// What is to be said of a seed whose plays all went well but, perhaps, for the time they took.
pub fn verdict(seed: u64, plays: &[Played]) -> Option<Result<Played>> {
    let ratios: Vec<f64> = plays.iter().map(ratio).collect();
    let held_up = judge::held_up(&ratios)?;
    let mut plays = plays.to_vec();
    plays.sort_by(|one, other| ratio(one).total_cmp(&ratio(other)));
    let repeats = plays.len() - 1;
    let middle = plays.get(plays.len() / 2).copied().unwrap_or_default();
    Some(if held_up {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let words = format!(
            "times as long as alone: {ratios:.2?}, all but the first without other schedules; load of the machine: {load}"
        );
        Err(anyhow!(failure(&Plot::new(seed), &[Problem::new(Kind::Late, words)], "")))
    } else {
        Ok(Played { repeats, ..middle })
    })
}

fn ratio(played: &Played) -> f64 {
    judge::ratio(played.alone, played.attacked)
}

/// One play: what came of it, and everything there is to look into.
async fn once(arena: &Arena, plot: &Plot) -> Result<(Told, String)> {
    let world = World::new(arena, plot).await?;
    let attacker = Attacker::new(&arena.cluster, &world.attacker).await?;
    attacker.is_held_back(&world.victim).await?;
    let _collector = if plot.collector {
        arena.cluster.controller_manager(&["garbagecollector"]).await?
    } else {
        None
    };
    let operators = Operators::start(arena, plot)?;
    let run = Run { arena, plot, world: &world, attacker: &attacker, operators: &operators };
    let story = async {
        tokio::select! {
            told = run.story() => told,
            // That it ends again and again is held against it by itself.
            ended = operators.mind() => ended.map(|()| Told::default()),
        }
    };
    let mut told = story.await.unwrap_or_else(|error| {
        let problems = vec![Problem::new(Kind::World, format!("{error:#}"))];
        Told { problems, ..Told::default() }
    });
    let sessions = flashes(&world.kubelet);
    let (boards, allowed) = world.bench.boards(&sessions);
    let mut problems = world.problems();
    problems.extend(operators.problems());
    problems.extend(boards);
    problems.append(&mut told.problems);
    told.problems = problems;
    told.played = Played {
        deaths: operators.restarts(),
        faults: attacker.tried.get(),
        refused: attacker.refused.get(),
        statuses: world.record.said().len(),
        sessions: sessions.len(),
        allowed,
        peak: operators.peak.get(),
        ..told.played
    };
    Ok((told, run.words(&sessions)))
}

/// What was wrong: in its first line the kinds of it, then everything there is to look into.
fn failure(plot: &Plot, problems: &[Problem], words: &str) -> String {
    let mut lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.dedup();
    lines.truncate(50);
    let kinds = judge::kinds(problems);
    format!("{kinds} ({})\n{}\n{words}", plot.summary(), lines.join("\n"))
}
