//! `kubectl flashjob`: the command line for FlashJobs.
//!
//! Data goes to standard output and what is meant for people to standard error, so that every command can be piped. What a
//! job would do is worked out by the same crate the operator runs.

mod args;
mod check;
mod clock;
mod complete;
mod connect;
mod devices;
mod exit;
mod explain;
mod filter;
mod flash;
mod fleet;
mod logs;
mod plan;
mod read;
mod rollout;
mod server_cert;
mod shell;
mod table;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use args::{Cli, Command};
use exit::End;
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

async fn run(cli: Cli, shell: &Shell) -> Result<End> {
    let to = cli.connection;
    match cli.command {
        Command::Devices(wanted) => devices::run(&to, &wanted, shell).await,
        Command::Flash(wanted) => flash::run(&to, *wanted, shell).await,
        Command::Plan(wanted) => plan::run(&to, *wanted, shell).await,
        Command::Rollout(what) => rollout::run(&to, what, shell).await,
        Command::Logs(wanted) => logs::run(&to, &wanted, shell).await,
        Command::Explain(job) => explain::run(&to, &job.name, shell).await,
        Command::Check => check::run(&to, shell).await,
        Command::ServerCert(what) => server_cert::run(&to, what, shell).await,
        Command::Completion { shell: wanted } => complete::script(wanted, shell),
        Command::Complete { words } => complete::words(&to, &words, shell).await,
    }
}
