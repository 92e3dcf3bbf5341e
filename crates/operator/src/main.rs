//! `flashjob-operator`: parses, then runs.

mod args;
mod client;
mod clock;
#[cfg(feature = "crash")]
mod crash;
mod crds;
mod flashjob;
mod lease;
mod metrics;
mod run;
mod server;

use std::process::ExitCode;

use args::{Args, Command};
use clap::Parser;

fn main() -> ExitCode {
    let args = Args::parse();
    match args.command {
        Some(Command::Crd) => print(&flashjob_api::crd::flashjob_yaml()),
        Some(Command::Version) => {
            print(&format!("flashjob-operator {}\n", env!("CARGO_PKG_VERSION")))
        }
        Some(Command::Run(options)) => run::run(*options),
        None => run::run(args.options),
    }
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
