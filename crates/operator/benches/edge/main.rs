//! `make bench-edge`: what a registration and a poll of a device cost, next to what they cannot cost less than.
//!
//! Seconds say little on a machine nobody else has. So each figure stands beside a **floor** of the same run: for
//! registrations a bare loop that makes the same writes to the same API server (see [`objects`]), for requests a bare server
//! with the same TLS that says the same bytes to the same clients (see [`floor`]). The ratio of the two is the operator's own
//! share, and can be compared between machines.
//!
//! API server and operator are real. The devices are played, and share the machine's cores with both.
//!
//! Nothing is asserted: this is no test. The table shows the figures the project wants to reach beside those it has.
//!
//! ```text
//! cargo bench -p flashjob-operator --bench edge -- --devices 800 --parallel 64 --requests 20000 --rounds 5
//! cargo bench -p flashjob-operator --bench edge -- --quick
//! ```

#![expect(clippy::print_stdout, reason = "a benchmark is there to print its results")]
#![warn(clippy::too_many_lines)]

mod bed;
mod floor;
mod objects;
mod options;
mod registrations;
mod report;
mod requests;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::runtime::Builder;

use crate::bed::Bed;
use crate::options::Options;
use crate::report::Report;

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
    println!("registrations: {} devices, {} at once ...", options.devices, options.parallel);
    let (registered, fleet) = registrations::measure(&bed, options).await?;
    report.registrations = Some(registered);
    if options.rounds > 0 {
        println!("requests: {} of each kind, {} times ...", options.requests, options.rounds);
        requests::measure(&fleet, options, &mut report.requests).await?;
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
