//! Hold a rollout, let it go on, end it, or have its failures tried again: one small edit of the job each.

use anyhow::Result;
use flashjob_api::flashjob::FlashJob;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::clock;
use crate::connect::Connected;
use crate::exit::Exit;
use crate::flashjob::SYSTEM;
use crate::flashjob::read::{self, JobObject};
use crate::shell::Shell;

#[derive(Clone, Copy)]
pub enum RolloutAction {
    Pause,
    Resume,
    Abort,
    Retry,
}

pub async fn apply(
    to: &Connected,
    name: &str,
    action: RolloutAction,
    shell: &Shell,
) -> Result<Exit> {
    // It must be there; and what it says tells whether there is anything to do.
    let job = read::job(&to.client, &to.namespace, name).await?;
    let (spec, word, then) = edit(&job, action);
    let Some(spec) = spec else {
        shell.say(&format!("{name}: {then}"));
        return Ok(Exit::Done);
    };
    let jobs: Api<FlashJob> = Api::namespaced(to.client.clone(), &to.namespace);
    let patch = Patch::Merge(json!({ "spec": spec }));
    let done = jobs.patch(name, &PatchParams::default(), &patch).await;
    done.map_err(|error| SYSTEM.failed(format!("cannot change FlashJob {name}"), &error))?;
    shell.out(&format!("flashjob.application.flashjob.nbfc.io/{name} {word}\n"))?;
    shell.say(then);
    Ok(Exit::Done)
}

/// What is to be changed in the spec, how that is called, and what follows. `None`: nothing, and why.
fn edit(job: &JobObject, action: RolloutAction) -> (Option<Value>, &'static str, &'static str) {
    use RolloutAction::{Abort, Pause, Resume, Retry};
    let is = |field: &str| job.spec[field].as_bool() == Some(true);
    let over = job.status.completion_time.is_some() && job.is_current();
    match action {
        Pause if is("suspend") => (None, "", "it is held already"),
        Pause if over => (None, "", "it has ended already; there is nothing to hold"),
        Pause => (Some(json!({ "suspend": true })), "paused", "What is being flashed finishes."),
        Resume if !is("suspend") && !is("abort") => (None, "", "it is not held"),
        Resume => (Some(json!({ "suspend": null, "abort": null })), "resumed", "It goes on."),
        Abort if is("abort") => (None, "", "it is being ended already"),
        Abort if over => (None, "", "it has ended already"),
        Abort => (Some(json!({ "abort": true })), "aborted", "What is being flashed finishes."),
        Retry => {
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
