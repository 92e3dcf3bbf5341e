//! The commands for FlashJobs: a file or folder each.

pub mod args;
mod check;
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
use kube::api::ListParams;

use crate::args::Connection;
use crate::connect::{Connected, System};
use crate::exit::Exit;
use crate::shell::Shell;
use args::FlashjobCommand;

/// FlashJob, as sentences speak of it.
pub const SYSTEM: System = System {
    roles: "operator-flashjob-viewer-role or operator-flashjob-editor-role",
    check: "kubectl flashjob check",
};

/// The names of the FlashJobs, for completion; none where the cluster does not say.
pub async fn names(to: &Connected, most: u32) -> Vec<String> {
    let jobs = read::jobs(&to.client, Some(&to.namespace));
    let listed = jobs.list_metadata(&ListParams::default().limit(most)).await;
    let all = listed.map(|list| list.items).unwrap_or_default();
    all.into_iter().filter_map(|job| job.metadata.name).collect()
}

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
    }
}
