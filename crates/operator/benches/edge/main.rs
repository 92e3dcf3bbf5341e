//! `make bench-edge`: what a registration, a poll and a whole fleet cost, next to what they cannot cost less than.
//!
//! Seconds say little on a machine nobody else has. So each figure stands beside a **floor** of the same run: for
//! registrations a bare loop that makes the same writes to the same API server (see [`objects`]), for requests a bare server
//! with the same TLS that says the same bytes to the same clients (see [`floor`]). The ratio of the two is the operator's own
//! share, and can be compared between machines.
//!
//! API server and operator are real. The devices are played, and share the machine's cores with both; while a fleet is measured,
//! the server has a core for itself ([`cores`]).
//!
//! Nothing is asserted: this is no test. The table shows the figures the project wants to reach beside those it has.
//!
//! ```text
//! cargo bench -p flashjob-operator --bench edge -- --registrations 800 --parallel 64 --requests 20000 --rounds 5
//! cargo bench -p flashjob-operator --bench edge -- --registrations 0 --devices 100000 --seconds 600
//! cargo bench -p flashjob-operator --bench edge -- --quick
//! ```

#![expect(clippy::print_stdout, reason = "a benchmark is there to print its results")]
#![warn(clippy::too_many_lines)]

mod bed;
mod cores;
mod fleet;
mod floor;
mod objects;
mod options;
mod registrations;
mod report;
mod requests;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::runtime::Builder;

use flashjob_sim::edge::Protocol;

use crate::bed::Bed;
use crate::fleet::Fleet;
use crate::options::Options;
use crate::report::Report;
use crate::report::fleet::FleetReport;

/// A process may open 20,000 files here, and questions are held while connections are below four fifths of that.
const MOST_CONNECTED: usize = 12_000;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1).peekable();
    if args.next_if(|arg| arg == floor::ARGUMENT).is_some() {
        let folder = args.next().context("no folder for the floor")?;
        // On one thread, as the operator serves devices.
        let runtime = Builder::new_current_thread().enable_all().build()?;
        return runtime.block_on(floor::serve(Path::new(&folder)));
    }
    let options = Options::parse(args)?;
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let mut report = Report::default();
    let measured = runtime.block_on(measure(&options, &mut report));
    // What was measured before something failed has taken long enough.
    println!("\n{report}");
    let file = write(&report)?;
    println!("written to {}", file.display());
    measured
}

async fn measure(options: &Options, report: &mut Report) -> Result<()> {
    let bed = Bed::start().await?;
    if options.registrations > 0 {
        println!(
            "registrations: {} devices, {} at once ...",
            options.registrations, options.parallel
        );
        let (registered, fleet) = registrations::measure(&bed, options).await?;
        report.registrations = Some(registered);
        if options.rounds > 0 {
            println!("requests: {} of each kind, {} times ...", options.requests, options.rounds);
            requests::measure(&fleet, options, &mut report.requests).await?;
        }
    }
    if options.devices > 0 {
        measure_fleet(&bed, options, &mut report.fleet).await?;
    }
    Ok(())
}

async fn measure_fleet(bed: &Bed, options: &Options, report: &mut FleetReport) -> Result<()> {
    let (devices, during) = (options.devices, options.during);
    println!("a fleet of {devices}, each measurement {} s:", during.as_secs());
    let mut fleet = Fleet::make(bed, devices).await?;
    // Whoever has more devices than that has them open a connection when they have something to say.
    if devices <= MOST_CONNECTED {
        for protocol in [Protocol::H1, Protocol::H2] {
            println!("  polls on connections that are kept open, {protocol:?} ...");
            fleet.begin_anew().await?;
            report.polls.push(fleet::polls::measure(&fleet, protocol, during).await?);
        }
    }
    println!("  heartbeats, each on a new connection ...");
    fleet.begin_anew().await?;
    report.beats = Some(fleet::beats::measure(&fleet, during).await?);
    println!("  the start of a process ...");
    report.start = Some(fleet::start::measure(&mut fleet).await?);
    if devices <= MOST_CONNECTED {
        println!("  an edit of a workload that all of them run ...");
        report.edit = Some(fleet::edit::measure(&fleet).await?);
    }
    Ok(())
}

/// Into the target folder, wherever that is: cargo names its `tmp`.
fn write(report: &Report) -> Result<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().context("no target folder")?;
    let folder = target.join("bench");
    std::fs::create_dir_all(&folder).context("no folder for the results")?;
    let file = folder.join("edge.json");
    let text = serde_json::to_string_pretty(report).context("the results cannot be written")?;
    std::fs::write(&file, text + "\n").context("the results cannot be written")?;
    Ok(file)
}
