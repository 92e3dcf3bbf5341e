//! The commands for FlashJobs: a file or folder each.

pub mod args;
mod check;
mod complete;
mod devices;
mod explain;
mod filter;
mod flash;
mod fleet;
mod logs;
mod plan;
mod read;
mod rollout;
mod server_cert;

use anyhow::Result;

use crate::args::Connection;
use crate::exit::End;
use crate::shell::Shell;
use args::Command;

/// Does what a command asks for.
pub async fn run(command: Command, to: &Connection, shell: &Shell) -> Result<End> {
    match command {
        Command::Devices(wanted) => devices::run(to, &wanted, shell).await,
        Command::Flash(wanted) => flash::run(to, *wanted, shell).await,
        Command::Plan(wanted) => plan::run(to, *wanted, shell).await,
        Command::Rollout(what) => rollout::run(to, what, shell).await,
        Command::Logs(wanted) => logs::run(to, &wanted, shell).await,
        Command::Explain(job) => explain::run(to, &job.name, shell).await,
        Command::Check => check::run(to, shell).await,
        Command::ServerCert(what) => server_cert::run(to, what, shell).await,
        Command::Completion { shell: wanted } => complete::script(wanted, shell),
        Command::Complete { words } => complete::words(to, &words, shell).await,
    }
}
