//! `kubectl flashjob rollout`: follow a rollout, and steer it.

mod change;
mod history;
mod picture;
mod status;

use anyhow::Result;

use crate::args::Connection;
use crate::exit::Exit;
use crate::flashjob::args::RolloutCommand;
use crate::shell::Shell;
use change::RolloutAction::{Abort, Pause, Resume, Retry};
pub use status::follow;

pub async fn run(to: &Connection, command: RolloutCommand, shell: &Shell) -> Result<Exit> {
    let to = to.open().await?;
    match command {
        RolloutCommand::Status { job, waiting } if waiting.wait => {
            status::follow(&to, &job.name, waiting.timeout, shell).await
        }
        RolloutCommand::Status { job, .. } => status::once(&to, &job.name, shell).await,
        RolloutCommand::Pause(job) => change::apply(&to, &job.name, Pause, shell).await,
        RolloutCommand::Resume(job) => change::apply(&to, &job.name, Resume, shell).await,
        RolloutCommand::Abort(job) => change::apply(&to, &job.name, Abort, shell).await,
        RolloutCommand::Retry(job) => change::apply(&to, &job.name, Retry, shell).await,
        RolloutCommand::History { job, output } => {
            history::run(&to, &job.name, output, shell).await
        }
    }
}
