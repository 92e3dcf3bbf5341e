//! `flashjob-sim scale`: many boards through the real flasher, how fast that is, what it costs, and where the time goes.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::Usage;
use crate::flashjob::board::SessionEnd;
use crate::flashjob::field::Field;
use crate::flashjob::site::{Account, SiteOptions};
use crate::flashjob::{Board, Flash, Site};
use crate::node::Started;
use anyhow::{Result, ensure};
use jiff::Timestamp;
use serde_json::json;

use super::args::Scale;
use crate::output::say;
use crate::programs::program;

const JOB: &str = "scale";
const VERSION: &str = "0.2.0";
const PATIENCE: Duration = Duration::from_secs(3600);

/// Runs it and prints a table.
pub async fn run(wanted: Scale) -> Result<()> {
    let progress = |what: &str| {
        let _ = writeln!(std::io::stderr(), "{what} ...");
    };
    let options = SiteOptions {
        operator: program(wanted.operator, "flashjob-operator")?,
        flasher: program(wanted.flasher, "flashjob-flasher")?,
        boards: wanted.devices,
        devices: vec!["esp32s2".into()],
        speed: wanted.speed,
        addresses: 2 * wanted.parallel,
    };
    let site = Site::with_boards(options, &progress).await?;
    let operator = site.operator()?;
    progress(&format!("{} boards, {} at once", wanted.devices, wanted.parallel));
    let began = Instant::now();
    let spec = json!({ "rollout": { "maxParallel": wanted.parallel } });
    site.flash(JOB, VERSION, spec).await?;
    let status = site.finished(JOB, PATIENCE).await?;
    let took = began.elapsed();
    let account = Account::take(&site, &status, VERSION);
    let disagreements = account.disagreements();
    ensure!(disagreements.is_empty(), "the boards disagree: {}", disagreements.join("; "));
    say(&report(&site, operator.usage()?, took))
}

fn report(site: &Site<Field>, operator: Usage, took: Duration) -> String {
    let starts = site.kubelet.starts();
    let count = site.field.boards.len();
    let seconds = took.as_secs_f64();
    let flashers: Vec<Usage> = starts.iter().filter_map(|start| start.usage).collect();
    let peak = flashers.iter().map(|usage| usage.peak_mi_b).fold(0.0, f64::max);
    let cpu: f64 = flashers.iter().map(|usage| usage.cpu_seconds).sum();
    let speed = site.field.speed;
    let mut text = format!(
        "{count} boards in {seconds:.1} s: {:.1} a second, {} flash Pods; waits are {speed} times shorter than in the field\n\n",
        count as f64 / seconds,
        starts.len(),
    );
    text += "             CPU s  a board ms  peak MiB\n";
    let each = |cpu: f64| 1000.0 * cpu / count as f64;
    let line = |name: &str, cpu: f64, peak: f64| {
        format!("{name:<10} {cpu:>7.1}  {:>10.1}  {peak:>8.1}\n", each(cpu))
    };
    text += &line("operator", operator.cpu_seconds, operator.peak_mi_b);
    text += &line("flashers", cpu, peak);
    text += &format!("\n{:<38} mean s  longest s\n", "Where the time of a flash goes");
    let phases: Vec<[f64; 5]> =
        site.field.boards.iter().filter_map(|board| phases(board, &starts)).collect();
    let names = [
        "look, fetch, attest, until it is asked",
        "asked, until the board calls",
        "sends the image",
        "the board restarts",
        "asks it, until the Pod ends",
    ];
    for (number, name) in names.iter().enumerate() {
        let of: Vec<f64> = phases.iter().map(|phases| phases[number]).collect();
        let mean = of.iter().sum::<f64>() / of.len().max(1) as f64;
        text +=
            &format!("{name:<38} {mean:>6.2}  {:>9.2}\n", of.iter().copied().fold(0.0, f64::max));
    }
    let pods: f64 = starts.iter().filter_map(|s| Some(span(s.at, s.ended_at?))).sum();
    text += &format!("flash Pods at work at once, on average {:>6.1}\n", pods / seconds);
    text
}

fn span(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

/// The parts of a flash that went well, in seconds, by the board's own record and the node's.
fn phases(board: &Board, starts: &[Started]) -> Option<[f64; 5]> {
    let ledger = board.ledger();
    let update = ledger.updates.iter().find(|update| update.end == Some(SessionEnd::Accepted))?;
    let pod = starts.iter().rev().find(|start| start.endpoint() == board.endpoint())?;
    let (session, ended) = (update.session?, update.ended?);
    let back = ledger.boots.iter().map(|boot| boot.at).find(|at| *at > ended)?;
    Some([
        span(pod.at, update.began),
        span(update.began, session),
        span(session, ended),
        span(ended, back),
        span(back, pod.ended_at?),
    ])
}
