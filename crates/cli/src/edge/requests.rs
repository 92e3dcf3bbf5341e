//! `kubectl flashjob edge requests`: who has asked to be let in, and what became of it.

use anyhow::Result;
use flashjob_api::edge::EdgeDeviceSignedRequest;
use jiff::Timestamp;
use kube::api::ListParams;
use serde::Serialize;

use crate::args::Connection;
use crate::connect::Connected;
use crate::edge::args::ListArgs;
use crate::edge::read;
use crate::edge::request::Request;
use crate::exit::Exit;
use crate::output::{self, Entry, Listed};
use crate::read::{Scope, changes_of};
use crate::shell::Shell;
use crate::table::{ago, or_dash, table};

/// A request as `-o json` and `-o yaml` print it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedRequest {
    namespace: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    created: Option<Timestamp>,
    target_namespace: String,
    target_set: String,
    phase: String,
    message: String,
    model: String,
    hostname: String,
    architecture: String,
}

impl From<Request> for ListedRequest {
    fn from(request: Request) -> ListedRequest {
        ListedRequest {
            phase: request.state().to_owned(),
            namespace: request.namespace,
            name: request.name,
            created: request.since,
            target_namespace: request.target_namespace,
            target_set: request.set,
            message: request.message,
            model: request.model,
            hostname: request.hostname,
            architecture: request.architecture,
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
    let changes = changes_of::<EdgeDeviceSignedRequest>(&connected.client, named);
    let list = async || list(&connected, Scope::of(named, &connected), wanted).await;
    output::show(wanted.output, wanted.watch, changes, list, shell).await
}

async fn list(
    to: &Connected,
    scope: Scope<'_>,
    wanted: &ListArgs,
) -> Result<Listed<ListedRequest>> {
    let choice = ListParams::default().labels(wanted.selector.as_deref().unwrap_or_default());
    let mut notes = Vec::new();
    let requests: Vec<Request> = read::list(to, scope, &choice, &mut notes).await?;
    Ok((requests.into_iter().map(ListedRequest::from).collect(), notes))
}

impl Entry for ListedRequest {
    const LIST: &'static str = "requests";

    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn table(requests: &[Self], now: Timestamp) -> String {
        let head = ["DEVICE", "TARGET NAMESPACE", "SET", "PHASE", "MODEL", "AGE"];
        table(head, &requests.iter().map(|request| columns(request, now)).collect::<Vec<_>>())
    }

    fn wide(requests: &[Self], now: Timestamp) -> String {
        let head = [
            "NAMESPACE",
            "DEVICE",
            "TARGET NAMESPACE",
            "SET",
            "PHASE",
            "MODEL",
            "AGE",
            "HOSTNAME",
            "ARCHITECTURE",
            "MESSAGE",
        ];
        let line = |request: &Self| {
            let [device, target, set, phase, model, age] = columns(request, now);
            let more = [&request.namespace, &request.hostname, &request.architecture];
            let [namespace, hostname, architecture] = more.map(|text| or_dash(text));
            let message = or_dash(&request.message);
            [namespace, device, target, set, phase, model, age, hostname, architecture, message]
        };
        table(head, &requests.iter().map(line).collect::<Vec<_>>())
    }
}

fn columns(request: &ListedRequest, now: Timestamp) -> [String; 6] {
    [
        or_dash(&request.name),
        or_dash(&request.target_namespace),
        or_dash(&request.target_set),
        or_dash(&request.phase),
        or_dash(&request.model),
        request.created.map_or_else(|| "-".to_owned(), |since| ago(since, now)),
    ]
}

#[cfg(test)]
mod tests;
