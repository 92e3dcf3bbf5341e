//! `check` of any system: is everything there that it needs?
//!
//! First everything is read, each thing by itself, so that one that cannot be read hides no other. Then it is judged, by
//! functions that see nothing but what was read.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use crate::connect::message;
use crate::exit::Exit;
use crate::shell::{Shell, Style, clean};

pub mod operator;
pub mod rights;

/// How long one thing may take. All are read together.
const PATIENCE: Duration = Duration::from_secs(15);
/// How many names are listed.
const NAMES: usize = 5;

/// How a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Ok,
    Fail,
    /// It cannot be told, or it is not as it should be and hinders nothing.
    Unsure,
}

/// What was found about one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub mark: Mark,
    pub what: &'static str,
    pub finding: String,
    pub fix: Option<String>,
}

impl Check {
    pub fn ok(what: &'static str, finding: impl Into<String>) -> Check {
        Check { mark: Mark::Ok, what, finding: finding.into(), fix: None }
    }

    pub fn fail(what: &'static str, finding: impl Into<String>, fix: impl Into<String>) -> Check {
        Check { mark: Mark::Fail, what, finding: finding.into(), fix: Some(fix.into()) }
    }

    pub fn unsure(what: &'static str, finding: impl Into<String>, fix: impl Into<String>) -> Check {
        Check { mark: Mark::Unsure, what, finding: finding.into(), fix: Some(fix.into()) }
    }
}

/// Why a thing could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The user may not.
    Forbidden,
    /// With the server's message, or the network's.
    Failed(String),
}

impl ReadError {
    /// What is said of a thing that could not be read.
    pub fn unsure(&self, what: &'static str, whom: &str) -> Check {
        match self {
            ReadError::Forbidden => {
                Check::unsure(what, "you may not look", format!("somebody who may: {whom}"))
            }
            ReadError::Failed(message) => {
                let fix = "see what is said of the API server, then check again";
                Check::unsure(what, format!("cannot be read: {message}"), fix)
            }
        }
    }
}

/// What was read of a thing, or why not.
pub type Observed<T> = Result<T, ReadError>;

/// Reads a thing, in time.
pub async fn soon<T>(call: impl Future<Output = kube::Result<T>>) -> Observed<T> {
    match tokio::time::timeout(PATIENCE, call).await {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(kube::Error::Api(status))) if status.is_forbidden() => Err(ReadError::Forbidden),
        Ok(Err(error)) => Err(ReadError::Failed(message(&error))),
        Err(_) => Err(ReadError::Failed(format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}

/// An object that may not be there.
pub async fn get<K>(client: &Client, namespace: &str, name: &str) -> kube::Result<Option<K>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    Api::<K>::namespaced(client.clone(), namespace).get_opt(name).await
}

/// The resources of a group that are served, by their plurals: what everybody may ask.
pub async fn served(client: &Client, version: &str) -> kube::Result<Vec<String>> {
    match client.list_api_group_resources(version).await {
        Ok(list) => Ok(list.resources.into_iter().map(|resource| resource.name).collect()),
        // By its code: of a group that is not there, old servers say so in plain text and give no reason.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// In all namespaces; where that is forbidden, in one's own.
pub async fn here_or_everywhere<K>(
    own: &str,
    list: impl AsyncFn(Option<&str>) -> kube::Result<Vec<K>>,
) -> kube::Result<Vec<K>> {
    match list(None).await {
        Err(kube::Error::Api(status)) if status.is_forbidden() => list(Some(own)).await,
        listed => listed,
    }
}

/// What the API server says of itself.
pub async fn version(client: &Client) -> Observed<String> {
    soon(async { client.apiserver_version().await.map(|info| info.git_version) }).await
}

pub fn api_server(observed: &Observed<String>) -> Check {
    let what = "API server";
    match observed {
        Ok(version) => Check::ok(what, format!("it answers, version {version}")),
        // It has answered, if only that.
        Err(ReadError::Forbidden) => Check::ok(what, "it answers; you may not ask for its version"),
        Err(ReadError::Failed(message)) => Check::fail(
            what,
            message,
            "kubectl cluster-info; is the cluster up, the context the right one, and are you logged in?",
        ),
    }
}

/// The first few, and how many more.
pub fn some_of(names: &[String]) -> String {
    let named = names.iter().take(NAMES).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Prints what was found. The exit code tells whether something has to be mended.
pub fn show(checks: &[Check], shell: &Shell) -> Result<Exit> {
    let terminal = std::io::stdout().is_terminal();
    let mut text = String::new();
    for check in checks {
        // Colours are decided by standard error; this goes to standard output, which may be a file.
        let paint = |style, word: &str| {
            if terminal { shell.paint(style, word) } else { word.to_owned() }
        };
        text.push_str(&draw(check, paint));
    }
    shell.out(&text)?;
    if checks.iter().any(|check| check.mark == Mark::Fail) {
        return Ok(Exit::NotAllDone);
    }
    Ok(Exit::Done)
}

pub fn draw(check: &Check, paint: impl Fn(Style, &str) -> String) -> String {
    let mark = match check.mark {
        Mark::Ok => paint(Style::Good, "ok  "),
        Mark::Fail => paint(Style::Bad, "FAIL"),
        Mark::Unsure => paint(Style::Bold, "?   "),
    };
    let mut text = format!("{mark}  {}: {}\n", check.what, clean(&check.finding));
    if let Some(fix) = &check.fix {
        text.push_str(&format!("      fix: {}\n", clean(fix)));
    }
    text
}
