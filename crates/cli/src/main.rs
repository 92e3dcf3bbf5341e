//! `kubectl flashjob`: the command line for FlashJobs.
//!
//! Data goes to standard output and what is meant for people to standard error, so that every command can be piped. What a
//! job would do is worked out by the same crate the operator runs.

#![warn(clippy::too_many_lines)]

mod args;
mod clock;
mod connect;
mod exit;
mod flashjob;
mod shell;
mod table;

use std::process::ExitCode;

use clap::Parser;

use args::Cli;
use shell::Shell;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let shell = Shell::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(flashjob::run(cli.command, &cli.connection, &shell)),
        Err(error) => Err(error.into()),
    };
    match ended {
        Ok(end) => end.into(),
        Err(error) => {
            if !exit::is_silent(&error) {
                shell.error(&error);
            }
            exit::code_of(&error)
        }
    }
}
