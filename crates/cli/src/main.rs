//! `kubectl flashjob`: the command line for FlashJobs and for Edge.
//!
//! Data goes to standard output and what is meant for people to standard error, so that every command can be piped. What the
//! operator would do is worked out by the same crate it runs.

#![warn(clippy::too_many_lines)]

mod args;
mod check;
mod clock;
mod complete;
mod connect;
mod edge;
mod exit;
mod files;
mod flashjob;
mod output;
mod picture;
mod prompt;
mod read;
mod shell;
mod table;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use args::{Cli, Command};
use connect::Connected;
use exit::Exit;
use shell::Shell;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let shell = Shell::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(run(cli, &shell)),
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

async fn run(cli: Cli, shell: &Shell) -> Result<Exit> {
    let to = &cli.connection;
    match cli.command {
        Command::Flashjob(command) => flashjob::run(command, to, shell).await,
        Command::Edge(command) => edge::run(command, to, shell).await,
        Command::Completion { shell: wanted } => complete::script(wanted, shell),
        Command::Complete { words } => complete::words(to, &words, names, shell).await,
    }
}

/// What the argument of a command may be, by the name of that argument.
async fn names(argument: &str, to: &Connected) -> Vec<String> {
    match argument {
        "name" => flashjob::names(to, complete::MOST).await,
        other => edge::names(other, to, complete::MOST).await,
    }
}
