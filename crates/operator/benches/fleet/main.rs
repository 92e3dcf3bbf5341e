//! `make bench`: what a rollout costs, next to what it cannot cost less than.
//!
//! Seconds say little on a machine nobody else has. So each rollout stands beside a **floor** that is measured in the
//! same cluster, before and after it: a bare loop that makes the four writes of each device and nothing else (see
//! [`floor`] for what that is and is not). The ratio of the two is the operator's own share, and can be compared between
//! machines. Memory, CPU and writes are the operator's alone, from `/proc` and the API server's audit log.
//!
//! The API server is real; kubelet and load balancer are played, and instant unless a flash is to take its time. All of
//! them share the machine's cores with the operator, as on a small cluster's only node.
//!
//! Nothing is asserted: this is no test. The table shows the figures the project wants to reach beside those it has.
//!
//! ```text
//! cargo bench -p flashjob-operator --bench fleet -- --sizes 100,1000,10000
//! cargo bench -p flashjob-operator --bench fleet -- --quick
//! cargo bench -p flashjob-operator --bench fleet -- --large 100000
//! ```

#![expect(clippy::print_stdout, reason = "a benchmark is there to print its results")]

mod bed;
mod cold;
mod figures;
mod finished;
mod flash;
mod floor;
mod large;
mod options;
mod report;
mod rollout;
mod template;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::options::Options;
use crate::report::Report;

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse(std::env::args().skip(1))?;
    let mut report = Report::default();
    let measured = measure(options, &mut report).await;
    // What was measured before something failed has taken long enough.
    println!("\n{report}");
    let file = write(&report)?;
    println!("written to {}", file.display());
    measured
}

async fn measure(options: Options, report: &mut Report) -> Result<()> {
    for size in options.sizes {
        println!("rollout: {size} devices ...");
        report.rollouts.push(rollout::measure(size).await?);
    }
    for size in options.flashes {
        println!("flash of {} s: {size} at once ...", flash::LASTS.as_secs());
        report.flashes.push(flash::measure(size).await?);
    }
    if let Some(size) = options.cold {
        println!("cold start: {size} devices ...");
        report.cold_start = Some(cold::measure(size).await?);
    }
    if let Some(jobs) = options.finished {
        println!("finished jobs: {jobs} of them ...");
        report.finished = Some(finished::measure(jobs).await?);
    }
    if let Some(size) = options.large {
        println!("one job: {size} devices ...");
        report.large = Some(large::measure(size).await?);
    }
    Ok(())
}

/// Into the target folder, wherever that is: cargo names its `tmp`.
fn write(report: &Report) -> Result<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().context("no target folder")?;
    let folder = target.join("bench");
    std::fs::create_dir_all(&folder).context("no folder for the results")?;
    let file = folder.join("fleet.json");
    let text = serde_json::to_string_pretty(report).context("the results cannot be written")?;
    std::fs::write(&file, text + "\n").context("the results cannot be written")?;
    Ok(file)
}
