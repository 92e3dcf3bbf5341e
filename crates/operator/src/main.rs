//! `flashjob-operator`: parses, then runs.

mod args;
mod flashjob;
mod process;

use std::process::ExitCode;

use args::{Args, Command};
use clap::Parser;

fn main() -> ExitCode {
    let args = Args::parse();
    match args.command {
        Some(Command::Crd) => print(&flashjob_api::flashjob::crd::flashjob_yaml()),
        Some(Command::Version) => {
            print(&format!("flashjob-operator {}\n", env!("CARGO_PKG_VERSION")))
        }
        Some(Command::Run(options)) => process::run(*options),
        None => process::run(args.options),
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
