//! `kubectl flashjob edge approve` and `decline`: the answer to devices that ask to be let in.

use anyhow::Result;
use flashjob_api::edge::EdgeDeviceSignedRequest;
use kube::Resource;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::args::Connection;
use crate::check::some_of;
use crate::connect::Connected;
use crate::edge::args::{AnswerArgs, Which};
use crate::edge::request::{DECLINED, Request};
use crate::edge::{SYSTEM, for_each, read};
use crate::exit::Exit;
use crate::prompt::{is_meant, needs_yes};
use crate::read::{Scope, dynamic};
use crate::shell::Shell;
use crate::table::counted;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Approve,
    Decline,
}

impl Verdict {
    /// What has been done.
    fn word(self) -> &'static str {
        match self {
            Verdict::Approve => "approved",
            Verdict::Decline => "declined",
        }
    }
}

pub async fn run(
    to: &Connection,
    wanted: &AnswerArgs,
    verdict: Verdict,
    shell: &Shell,
) -> Result<Exit> {
    let AnswerArgs { which, yes } = wanted;
    if which.all {
        let what = match verdict {
            Verdict::Approve => "lets in every device that waits",
            Verdict::Decline => "refuses every device that waits",
        };
        needs_yes(*yes, &format!("--all {what}"), shell)?;
    }
    let connected = to.open().await?;
    let only = to.namespace.as_deref();
    if !which.request.is_empty() {
        return for_each(&which.request, shell, async |written: &String| {
            let request: Request = read::get(&connected, only, written).await?;
            give(&connected, &request, verdict, shell).await
        })
        .await;
    }
    let requests = several(&connected, only, which, shell).await?;
    if requests.is_empty() {
        shell.say(if which.all { "No device waits." } else { "No requests found." });
        return Ok(Exit::Done);
    }
    if which.all {
        let names: Vec<String> = requests.iter().map(|request| request.name.clone()).collect();
        let verb = if verdict == Verdict::Approve { "Let in" } else { "Refuse" };
        let question = format!("{verb} {}: {}?", counted(names.len(), "device"), some_of(&names));
        if !is_meant(*yes, &question, shell) {
            shell.say("Nothing was changed.");
            return Ok(Exit::Interrupted);
        }
    }
    for_each(&requests, shell, async |request: &Request| {
        give(&connected, request, verdict, shell).await
    })
    .await
}

async fn several(
    to: &Connected,
    only: Option<&str>,
    which: &Which,
    shell: &Shell,
) -> Result<Vec<Request>> {
    let choice = ListParams::default().labels(which.selector.as_deref().unwrap_or_default());
    let mut notes = Vec::new();
    let mut requests: Vec<Request> =
        read::list(to, Scope::of(only, to), &choice, &mut notes).await?;
    notes.iter().for_each(|note| shell.note(note));
    requests.retain(|request| !which.all || request.waits());
    Ok(requests)
}

async fn give(to: &Connected, request: &Request, verdict: Verdict, shell: &Shell) -> Result<()> {
    let Request { namespace, name, .. } = request;
    let change = match change(request, verdict) {
        Ok(change) => change,
        Err(why) => {
            shell.say(&format!("{name}: {why}"));
            return Ok(());
        }
    };
    let requests = dynamic::<EdgeDeviceSignedRequest>(&to.client, Some(namespace));
    let done = requests.patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
    let what = || format!("cannot change EdgeDeviceSignedRequest {name} in namespace {namespace}");
    done.map_err(|error| SYSTEM.failed(what(), &error))?;
    let (plural, word) = (EdgeDeviceSignedRequest::plural(&()), verdict.word());
    shell.out(&format!("{plural}.management.project-flotta.io/{name} {word}\n"))?;
    if verdict == Verdict::Decline && request.approved {
        shell.note(&format!(
            "{name} was approved before; if it has registered it stays in. To send it away: kubectl flashjob edge remove \
             {name} --decline"
        ));
    }
    Ok(())
}

/// What is to be changed, or why nothing is.
fn change(request: &Request, verdict: Verdict) -> Result<Value, &'static str> {
    let declined = match verdict {
        _ if request.being_deleted => return Err("its request is being deleted"),
        Verdict::Approve if request.approved && !request.declined => {
            return Err("it is approved already");
        }
        Verdict::Decline if request.declined => return Err("it is declined already"),
        Verdict::Approve => Value::Null,
        Verdict::Decline => json!("true"),
    };
    // The uid, because another box may have asked under this name since.
    let metadata = json!({ "uid": request.uid, "annotations": { (DECLINED): declined } });
    Ok(match verdict {
        Verdict::Approve => json!({ "metadata": metadata, "spec": { "approved": true } }),
        Verdict::Decline => json!({ "metadata": metadata }),
    })
}

#[cfg(test)]
mod tests;
