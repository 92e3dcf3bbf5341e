//! The commands for Edge: a file or folder each.

mod answer;
pub mod args;
mod bundle;
mod ca;
mod check;
mod device;
mod devices;
mod explain;
mod fleet;
mod lagging;
mod last_seen;
mod material;
mod plan;
mod read;
mod remove;
mod render;
mod request;
mod requests;
mod reset;
mod secrets;
mod status;
mod workload;
mod workloads;

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use flashjob_api::edge::{EdgeDeployment, EdgeDevice, EdgeDeviceSignedRequest, EdgeWorkload};
use kube::api::ListParams;

use crate::args::Connection;
use crate::connect::{Connected, System};
use crate::exit::Exit;
use crate::read::dynamic;
use crate::shell::Shell;
use answer::Verdict;
use args::EdgeCommand;

/// Edge, as sentences speak of it.
pub const SYSTEM: System = System {
    roles: "flotta-edge-viewer-role or flotta-edge-editor-role",
    check: "kubectl flashjob edge check",
};

/// The names that an argument may be, for completion; none where the cluster does not say.
pub async fn names(argument: &str, to: &Connected, most: u32) -> Vec<String> {
    let (client, here) = (&to.client, Some(to.namespace.as_str()));
    let devices = || dynamic::<EdgeDevice>(client, here);
    let workloads =
        || [dynamic::<EdgeDeployment>(client, here), dynamic::<EdgeWorkload>(client, here)];
    let kinds = match argument {
        "device" => vec![devices()],
        "request" => vec![dynamic::<EdgeDeviceSignedRequest>(client, here)],
        "workload" => workloads().into(),
        "subject" => workloads().into_iter().chain([devices()]).collect(),
        _ => Vec::new(),
    };
    let mut names = BTreeSet::new();
    for objects in kinds {
        let listed = objects.list_metadata(&ListParams::default().limit(most)).await;
        let all = listed.map(|list| list.items).unwrap_or_default();
        names.extend(all.into_iter().filter_map(|object| object.metadata.name));
    }
    names.into_iter().collect()
}

pub async fn run(command: EdgeCommand, to: &Connection, shell: &Shell) -> Result<Exit> {
    match command {
        EdgeCommand::Devices(wanted) => devices::run(to, &wanted, shell).await,
        EdgeCommand::Workloads(wanted) => workloads::run(to, &wanted, shell).await,
        EdgeCommand::Status(wanted) => status::run(to, &wanted, shell).await,
        EdgeCommand::Plan(wanted) => plan::run(to, &wanted, shell).await,
        EdgeCommand::Render(wanted) => render::run(to, &wanted, shell).await,
        EdgeCommand::Requests(wanted) => requests::run(to, &wanted, shell).await,
        EdgeCommand::Approve(wanted) => answer::run(to, &wanted, Verdict::Approve, shell).await,
        EdgeCommand::Decline(wanted) => answer::run(to, &wanted, Verdict::Decline, shell).await,
        EdgeCommand::Reset(wanted) => reset::run(to, &wanted, shell).await,
        EdgeCommand::Remove(wanted) => remove::run(to, &wanted, shell).await,
        EdgeCommand::Ca(command) => ca::run(to, command, shell).await,
        EdgeCommand::Bundle(wanted) => bundle::run(to, &wanted, shell).await,
        EdgeCommand::Check(home) => check::run(to, &home, shell).await,
        EdgeCommand::Explain(wanted) => explain::run(to, &wanted, shell).await,
    }
}

/// Does something for each of them. What fails is said, and the others are done all the same.
async fn for_each<T>(
    all: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
    shell: &Shell,
    act: impl AsyncFn(T) -> Result<()>,
) -> Result<Exit> {
    let all = all.into_iter();
    let (count, mut failed) = (all.len(), 0);
    for one in all {
        match act(one).await {
            Err(error) if count == 1 => return Err(error),
            Err(error) => {
                shell.error(&error);
                failed += 1;
            }
            Ok(()) => {}
        }
    }
    if failed > 0 {
        bail!("{failed} of {count} could not be done; the others are");
    }
    Ok(Exit::Done)
}
