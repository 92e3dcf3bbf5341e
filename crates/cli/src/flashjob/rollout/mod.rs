//! `kubectl flashjob rollout`: follow a rollout, and steer it.

mod change;
mod history;
mod picture;
mod status;

use anyhow::Result;

use crate::args::Connection;
use crate::exit::End;
use crate::flashjob::args::Rollout;
use crate::shell::Shell;
use change::Change;
pub use status::follow;

pub async fn run(to: &Connection, what: Rollout, shell: &Shell) -> Result<End> {
    let to = to.open().await?;
    match what {
        Rollout::Status { job, waiting } if waiting.wait => {
            status::follow(&to, &job.name, waiting.timeout, shell).await
        }
        Rollout::Status { job, .. } => status::once(&to, &job.name, shell).await,
        Rollout::Pause(job) => change::apply(&to, &job.name, Change::Pause, shell).await,
        Rollout::Resume(job) => change::apply(&to, &job.name, Change::Resume, shell).await,
        Rollout::Abort(job) => change::apply(&to, &job.name, Change::Abort, shell).await,
        Rollout::Retry(job) => change::apply(&to, &job.name, Change::Retry, shell).await,
        Rollout::History { job, output } => history::run(&to, &job.name, output, shell).await,
    }
}
