//! `flashjob-operator`: parses, then runs.

#![warn(clippy::too_many_lines)]

mod args;
mod edge;
mod engine;
mod flashjob;
mod process;

use std::process::ExitCode;

use args::{Args, Command, Options, SystemName};
use clap::Parser;

fn main() -> ExitCode {
    let args = Args::parse();
    match args.command {
        Some(Command::Crd { name }) => print(&crd(&name)),
        Some(Command::Version) => {
            print(&format!("flashjob-operator {}\n", env!("CARGO_PKG_VERSION")))
        }
        Some(Command::Run(options)) => run(&options),
        None => run(&args.options),
    }
}

/// Every name that is not one of Edge's kinds is FlashJob's: the command line takes no other.
fn crd(name: &str) -> String {
    let edge = flashjob_api::edge::crd::named(name);
    flashjob_api::crd::yaml(&edge.unwrap_or_else(flashjob_api::flashjob::crd::flashjob))
}

fn run(options: &Options) -> ExitCode {
    if let Some(problem) = options.problem() {
        return process::fail(problem);
    }
    let mut controllers = options.controllers.clone();
    controllers.dedup();
    let systems = controllers.iter().map(|controller| match controller {
        SystemName::Flashjob => flashjob::system(&options.flashjob),
        SystemName::Edge => edge::system(&options.edge),
    });
    process::run(&options.process, systems.collect())
}

/// Data goes to standard output; a reader that has gone away is no error.
fn print(text: &str) -> ExitCode {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}
