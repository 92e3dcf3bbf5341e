//! Hold a rollout, let it go on, end it, or have its failures tried again: one small edit of the job each.

use anyhow::Result;
use flashjob_api::flashjob::FlashJob;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::clock;
use crate::connect::{Connected, failed};
use crate::exit::End;
use crate::flashjob::read::{self, Job};
use crate::shell::Shell;

#[derive(Clone, Copy)]
pub enum Change {
    Pause,
    Resume,
    Abort,
    Retry,
}

pub async fn apply(to: &Connected, name: &str, change: Change, shell: &Shell) -> Result<End> {
    // It must be there; and what it says tells whether there is anything to do.
    let job = read::job(&to.client, &to.namespace, name).await?;
    let (spec, word, then) = edit(&job, change);
    let Some(spec) = spec else {
        shell.say(&format!("{name}: {then}"));
        return Ok(End::Done);
    };
    let jobs: Api<FlashJob> = Api::namespaced(to.client.clone(), &to.namespace);
    let patch = Patch::Merge(json!({ "spec": spec }));
    let done = jobs.patch(name, &PatchParams::default(), &patch).await;
    done.map_err(|error| failed(format!("cannot change FlashJob {name}"), &error))?;
    shell.out(&format!("flashjob.application.flashjob.nbfc.io/{name} {word}\n"))?;
    shell.say(then);
    Ok(End::Done)
}

/// What is to be changed in the spec, how that is called, and what follows. `None`: nothing, and why.
fn edit(job: &Job, change: Change) -> (Option<Value>, &'static str, &'static str) {
    let is = |field: &str| job.spec[field].as_bool() == Some(true);
    let over = job.status.completion_time.is_some() && job.is_current();
    match change {
        Change::Pause if is("suspend") => (None, "", "it is held already"),
        Change::Pause if over => (None, "", "it has ended already; there is nothing to hold"),
        Change::Pause => {
            (Some(json!({ "suspend": true })), "paused", "What is being flashed finishes.")
        }
        Change::Resume if !is("suspend") && !is("abort") => (None, "", "it is not held"),
        Change::Resume => {
            (Some(json!({ "suspend": null, "abort": null })), "resumed", "It goes on.")
        }
        Change::Abort if is("abort") => (None, "", "it is being ended already"),
        Change::Abort if over => (None, "", "it has ended already"),
        Change::Abort => {
            (Some(json!({ "abort": true })), "aborted", "What is being flashed finishes.")
        }
        Change::Retry => {
            let nonce = clock::now().to_string();
            let then = if is("suspend") || is("abort") {
                "Devices that failed are tried again once the rollout is resumed."
            } else {
                "Devices that failed are tried again."
            };
            match job.status.counts.map_or(0, |counts| counts.failed) {
                0 if job.is_current() => (None, "", "no device has failed"),
                _ => (Some(json!({ "retry": { "nonce": nonce } })), "retried", then),
            }
        }
    }
}
