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
use crate::exit::Exit;
use crate::shell::Shell;
use args::FlashjobCommand;

pub async fn run(command: FlashjobCommand, to: &Connection, shell: &Shell) -> Result<Exit> {
    match command {
        FlashjobCommand::Devices(wanted) => devices::run(to, &wanted, shell).await,
        FlashjobCommand::Flash(wanted) => flash::run(to, *wanted, shell).await,
        FlashjobCommand::Plan(wanted) => plan::run(to, *wanted, shell).await,
        FlashjobCommand::Rollout(what) => rollout::run(to, what, shell).await,
        FlashjobCommand::Logs(wanted) => logs::run(to, &wanted, shell).await,
        FlashjobCommand::Explain(job) => explain::run(to, &job.name, shell).await,
        FlashjobCommand::Check => check::run(to, shell).await,
        FlashjobCommand::ServerCert(what) => server_cert::run(to, what, shell).await,
        FlashjobCommand::Completion { shell: wanted } => complete::script(wanted, shell),
        FlashjobCommand::Complete { words } => complete::words(to, &words, shell).await,
    }
}
