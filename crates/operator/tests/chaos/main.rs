//! `make chaos`: the operator dies at every write, sees the past, loses its network, and is told nonsense. The boards have
//! the last word: nothing is flashed twice, nothing is lost, nothing stalls without a word. See docs/reliability.md.
//!
//! Without arguments it is the short form that `make test` runs. A schedule that fails prints the arguments to play it
//! again.

mod arena;
mod edits;
mod firmware;
mod hostile;
mod judge;
mod network_faults;
mod parts;
mod record;
mod scenario;
mod schedule;
mod tenants;
mod world;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use flashjob_sim::programs;
use futures::future::try_join_all;

use arena::Arena;
use parts::PARTS;
use schedule::{Played, Schedule, Tally, play_all, say};

/// How many schedules that are timed are played side by side at most.
const TIMED: usize = 4;

#[derive(Parser)]
struct Args {
    /// Which parts to play: crashes, stale, edits, firmware, tenants, hostile; all when none is named
    #[arg(value_parser = ["crashes", "stale", "edits", "firmware", "tenants", "hostile"])]
    parts: Vec<String>,
    /// The whole of it, not the short form
    #[arg(long)]
    full: bool,
    /// Play one seed of the parts named, or several: 7, or 7-12
    #[arg(long, value_parser = seeds)]
    seed: Option<RangeInclusive<u64>>,
    /// Play one schedule of `crashes`: where the operator dies, such as before:17,after:3
    #[arg(long, value_delimiter = ',')]
    at: Vec<String>,
    /// How many boards the hostile world has
    #[arg(long)]
    boards: Option<usize>,
    /// How many control planes stand side by side: 4, or 8 for the whole of it
    #[arg(long)]
    arenas: Option<usize>,
    /// Another operator than the one that was built: how an older one fares
    #[arg(long)]
    operator: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(run(&args)),
        Err(error) => Err(error.into()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("chaos: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<bool> {
    let wants = |part: &str| args.parts.is_empty() || args.parts.iter().any(|p| p == part);
    let one =
        args.seed.as_ref().is_some_and(|seeds| seeds.clone().count() == 1) || !args.at.is_empty();
    // Schedules mostly wait, so there are more than cores.
    let arenas = args.arenas.unwrap_or(if args.full { 8 } else { 4 });
    let good = if PARTS.into_iter().any(wants) {
        play_parts(args, if one { 1 } else { arenas }, wants).await?
    } else {
        true
    };
    if wants("hostile") {
        let boards = args.boards.unwrap_or(if args.full { 500 } else { 20 });
        let tell = |what: &str| say(&format!("hostile: {what}"));
        let seed = args.seed.as_ref().map_or(1, |seeds| *seeds.start());
        let report = hostile::run(seed, boards, &tell).await;
        say(&report
            .with_context(|| {
                format!("again: make chaos ARGS='hostile --boards {boards} --seed {seed}'")
            })?
            .to_string());
    }
    Ok(good)
}

/// Plays the parts that are made of many schedules.
async fn play_parts(args: &Args, arenas: usize, wants: impl Fn(&str) -> bool) -> Result<bool> {
    let operator = match &args.operator {
        Some(program) => program.clone(),
        None => programs::built("flashjob-operator").await?,
    };
    let mut arenas = try_join_all((0..arenas).map(|_| Arena::start(&operator))).await?;
    let mut tallies = Vec::new();
    for part in PARTS.into_iter().filter(|part| wants(part)) {
        let schedules = match args.seed.clone() {
            _ if !args.at.is_empty() => vec![Schedule::Deaths(args.at.clone())],
            Some(seeds) => seeds.map(|seed| parts::one(part, seed)).collect::<Result<_>>()?,
            None => parts::schedules(part, arenas.first().context("no arena")?, args.full).await?,
        };
        // What is timed has more of the machine.
        let most = if part == "tenants" { TIMED } else { usize::MAX };
        let side_by_side = most.min(arenas.len());
        // `make test` runs on machines that do other things, too: it says times and judges none.
        let judged = args.full || args.seed.is_some();
        let arenas = &mut arenas[..side_by_side];
        tallies.push((part, play_all(part, arenas, schedules, judged).await));
    }
    say(&report(&tallies));
    for (_, tally) in tallies.iter().filter(|(part, _)| *part == "tenants") {
        say(&tenants::report::summary(tally));
    }
    for (part, tally) in &tallies {
        // A run may take a write less than the one that was counted, but a part of crashes without them proves nothing.
        let died = tally.sums.deaths;
        ensure!(
            died * 4 >= tally.deaths_set * 3,
            "{part}: {died} operators died where {} should have",
            tally.deaths_set
        );
    }
    Ok(tallies.iter().all(|(_, tally)| tally.failed.is_empty()))
}

/// One seed, or the first and the last of several.
fn seeds(text: &str) -> Result<RangeInclusive<u64>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let seeds = first.parse()?..=last.parse()?;
    ensure!(!seeds.is_empty(), "from {first} to {last} there is none");
    Ok(seeds)
}

/// What came of it, as a table that docs/reliability.md can show.
fn report(tallies: &[(&str, Tally)]) -> String {
    let mut lines = vec![
        "| part | schedules | failed | operators that died | faults | sessions | statuses | said late | time |".to_owned(),
        "|---|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    for (part, Tally { schedules, deaths_set, sums, failed, took, .. }) in tallies {
        let Played { deaths, faults, sessions, statuses, late, .. } = sums;
        let died = match deaths_set {
            0 => deaths.to_string(),
            set => format!("{deaths} of {set}"),
        };
        lines.push(format!(
            "| {part} | {schedules} | {} | {died} | {faults} | {sessions} | {statuses} | {:.2} s | {:.0} s |",
            failed.len(),
            late.as_secs_f64(),
            took.as_secs_f64()
        ));
    }
    lines.join("\n")
}
