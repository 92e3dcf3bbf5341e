//! `flashjob-sim`: parses, then runs boards or an edge device until it is told to stop, the demo, or a measurement.

#![warn(clippy::too_many_lines)]

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use flashjob_sim::edge::args::{Device, Fleet};
use flashjob_sim::edge::by_hand;
use flashjob_sim::flashjob::args::{Boards, Demo, Scale};
use flashjob_sim::flashjob::{boards, demo, scale};

/// Plays the outside world of flashjob on this machine.
#[derive(Parser)]
#[command(name = "flashjob-sim", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run simulated ESP32 boards until Ctrl-C
    Boards(Boards),
    /// Run a simulated Linux device that registers at the device API, until Ctrl-C
    Device(Device),
    /// Run many simulated Linux devices that register at the device API, until Ctrl-C
    Fleet(Fleet),
    /// Flash simulated boards with the real operator and flasher, and hold the job's account against theirs
    Demo(Demo),
    /// Flash many simulated boards with the real operator and flasher, and measure it
    Scale(Scale),
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Boards(wanted) => boards::run(wanted).await,
        Command::Device(wanted) => by_hand::run(wanted).await,
        Command::Fleet(wanted) => by_hand::fleet::run(wanted).await,
        Command::Demo(wanted) => demo::run(wanted).await,
        Command::Scale(wanted) => scale::run(wanted).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // For people, who have no use for a backtrace.
            let _ = writeln!(std::io::stderr(), "flashjob-sim: {error:#}");
            ExitCode::FAILURE
        }
    }
}
