//! `kubectl flashjob edge workloads`: EdgeDeployments and EdgeWorkloads, and how many devices are how far with each.

use anyhow::Result;
use flashjob_api::edge::{EdgeDeployment, EdgeWorkload, WorkloadCounts};
use futures::stream::select;
use jiff::Timestamp;
use kube::api::ListParams;
use serde::Serialize;

use crate::args::Connection;
use crate::edge::args::ListArgs;
use crate::edge::device::{Condition, state};
use crate::edge::read;
use crate::edge::workload::Workload;
use crate::exit::Exit;
use crate::output::{self, Entry};
use crate::read::{Scope, changes_of};
use crate::shell::Shell;
use crate::table::{ago, or_dash, table};

/// A workload as `-o json` and `-o yaml` print it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedWorkload {
    kind: &'static str,
    namespace: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<Timestamp>,
    being_deleted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted: Option<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    complete: Option<Condition>,
    /// Such as "3/5".
    running: String,
    counts: WorkloadCounts,
    message: String,
}

impl From<Workload> for ListedWorkload {
    fn from(workload: Workload) -> ListedWorkload {
        ListedWorkload {
            kind: workload.kind.kind(),
            accepted: workload.condition("Accepted").cloned(),
            complete: workload.condition("Complete").cloned(),
            namespace: workload.namespace,
            name: workload.name,
            created: workload.since,
            being_deleted: workload.being_deleted,
            running: workload.running,
            counts: workload.counts,
            message: workload.message,
        }
    }
}

pub async fn run(to: &Connection, wanted: &ListArgs, shell: &Shell) -> Result<Exit> {
    tokio::select! {
        end = show(to, wanted, shell) => end,
        _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
    }
}

async fn show(to: &Connection, wanted: &ListArgs, shell: &Shell) -> Result<Exit> {
    let connected = to.open().await?;
    let named = to.namespace.as_deref();
    let changes = select(
        changes_of::<EdgeDeployment>(&connected.client, named),
        changes_of::<EdgeWorkload>(&connected.client, named),
    );
    let list = async || {
        let choice = ListParams::default().labels(wanted.selector.as_deref().unwrap_or_default());
        let (scope, mut notes) = (Scope::of(named, &connected), Vec::new());
        let found: Vec<Workload> = read::list(&connected, scope, &choice, &mut notes).await?;
        Ok((found.into_iter().map(ListedWorkload::from).collect(), notes))
    };
    output::show(wanted.output, wanted.watch, changes, list, shell).await
}

impl Entry for ListedWorkload {
    const LIST: &'static str = "workloads";

    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// There may be one of each kind.
    fn key(&self) -> String {
        format!("{} {}", self.kind, self.path())
    }

    fn table(workloads: &[Self], now: Timestamp) -> String {
        let head = ["NAMESPACE", "KIND", "NAME", "ACCEPTED", "RUNNING", "FAILED", "OFFLINE", "AGE"];
        table(head, &workloads.iter().map(|workload| columns(workload, now)).collect::<Vec<_>>())
    }

    fn wide(workloads: &[Self], now: Timestamp) -> String {
        let head = [
            "NAMESPACE",
            "KIND",
            "NAME",
            "ACCEPTED",
            "RUNNING",
            "FAILED",
            "OFFLINE",
            "AGE",
            "DEPLOYING",
            "COMPLETE",
            "MESSAGE",
        ];
        let line = |workload: &Self| {
            let [namespace, kind, name, accepted, running, failed, offline, age] =
                columns(workload, now);
            let deploying = count(workload, |counts| counts.deploying);
            let complete = or_dash(&state(workload.complete.as_ref()));
            let message = or_dash(&workload.message);
            [
                namespace, kind, name, accepted, running, failed, offline, age, deploying,
                complete, message,
            ]
        };
        table(head, &workloads.iter().map(line).collect::<Vec<_>>())
    }
}

fn columns(workload: &ListedWorkload, now: Timestamp) -> [String; 8] {
    let accepted = if workload.being_deleted {
        "being deleted".to_owned()
    } else {
        state(workload.accepted.as_ref())
    };
    [
        or_dash(&workload.namespace),
        workload.kind.to_owned(),
        or_dash(&workload.name),
        or_dash(&accepted),
        or_dash(&workload.running),
        count(workload, |counts| counts.failed),
        count(workload, |counts| counts.offline),
        workload.created.map_or_else(|| "-".to_owned(), |since| ago(since, now)),
    ]
}

/// Without devices that were counted there is no number.
fn count(workload: &ListedWorkload, of: impl Fn(&WorkloadCounts) -> i32) -> String {
    if workload.running.is_empty() { "-".to_owned() } else { of(&workload.counts).to_string() }
}

#[cfg(test)]
mod tests;
