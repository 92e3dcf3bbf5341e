//! `kubectl flashjob edge ca`: the certificates Edge stands on, and the two commands that replace the CA.
//!
//! A command is an annotation on Secret flotta-ca, and the operator does the work. Whether it was done is seen by what is in
//! the Secret then; why it was not is in its answer.

mod status;

use std::time::Duration;

use anyhow::{Result, bail};
use flashjob_plan::edge::certificates::{CA_SECRET, COMMAND};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::args::Connection;
use crate::connect::Connected;
use crate::edge::SYSTEM;
use crate::edge::args::{CaCommand, ChangeArgs};
use crate::edge::secrets::{Authority, Secrets, failed, id};
use crate::exit::Exit;
use crate::prompt::{is_meant, needs_yes};
use crate::shell::{Shell, clean};

/// Between two looks for the answer.
const PAUSE: Duration = Duration::from_millis(300);

pub async fn run(to: &Connection, command: CaCommand, shell: &Shell) -> Result<Exit> {
    match command {
        CaCommand::Status { home, output } => {
            let connected = to.open().await?;
            let only = to.namespace.as_deref();
            status::run(&connected, only, &home.operator_namespace, output, shell).await
        }
        CaCommand::Rotate(wanted) => {
            let connected = to.open().await?;
            order(&connected, &wanted, "rotate", shell).await
        }
        CaCommand::Retire { change, yes } => {
            needs_yes(yes, "bundles of the CA before this one are dead once it is retired", shell)?;
            let connected = to.open().await?;
            let secrets = read(&connected, &change.home.operator_namespace).await?;
            if ca(&secrets)?.previous.is_none() {
                shell.say("There is one CA, and nothing to retire.");
                return Ok(Exit::Done);
            }
            let question =
                "Bundles of the CA before this one are dead then. Do your images have a new one?";
            if !is_meant(yes, question, shell) {
                shell.say("Nothing was changed.");
                return Ok(Exit::Interrupted);
            }
            order(&connected, &change, "retire", shell).await
        }
    }
}

/// Asks the operator for it, and waits for the answer.
async fn order(to: &Connected, wanted: &ChangeArgs, command: &str, shell: &Shell) -> Result<Exit> {
    let home = &wanted.home.operator_namespace;
    let before = read(to, home).await?;
    if let Some(waiting) = &before.command {
        bail!(
            "{} was asked for before and is not answered yet; does the operator work? See `{}`",
            clean(waiting),
            SYSTEM.check
        );
    }
    let known = (id(ca(&before)?.pair.leaf()), ca(&before)?.previous.is_some());
    let change = json!({ "metadata": {
        // Whoever has changed it meanwhile may have given a command, too.
        "resourceVersion": before.version,
        "annotations": { (COMMAND): command },
    }});
    let api: Api<Secret> = Api::namespaced(to.client.clone(), home);
    let params = PatchParams::default();
    let asked = api.patch_metadata(CA_SECRET, &params, &Patch::Merge(change)).await;
    asked.map_err(|error| failed("change", home, &error))?;

    let end = Instant::now() + wanted.patience.timeout;
    loop {
        sleep(PAUSE).await;
        let after = read(to, home).await?;
        if after.command.is_none() {
            let answer = clean(after.answer.as_deref().unwrap_or_default());
            let now = (id(ca(&after)?.pair.leaf()), ca(&after)?.previous.is_some());
            if now == known {
                bail!("{answer}");
            }
            shell.out(&format!("{answer}\n"))?;
            shell.say(next(command));
            return Ok(Exit::Done);
        }
        if Instant::now() >= end {
            shell.say(&format!(
                "Not answered in time. The operator answers when it can; its log says what it waits for. See: kubectl flashjob \
                 edge ca status, and {}",
                SYSTEM.check
            ));
            return Ok(Exit::TimedOut);
        }
    }
}

/// What is to be done now.
fn next(command: &str) -> &'static str {
    match command {
        "rotate" => {
            "Devices move when they renew. Put a new bundle into your images (kubectl flashjob edge bundle); when ca status \
             shows nobody who depends on the CA before, retire it."
        }
        _ => "Certificates and bundles of that CA count no more.",
    }
}

async fn read(to: &Connected, home: &str) -> Result<Secrets> {
    Secrets::read(&to.client, home).await.map_err(|error| failed("read", home, &error))
}

/// The CA, which has to be there.
pub fn ca(secrets: &Secrets) -> Result<&Authority> {
    use flashjob_plan::edge::certificates::Found;
    match &secrets.ca {
        Found::Read(ca) => Ok(ca),
        Found::Unreadable(why) => bail!("{why}\nrestore it: see docs/edge-security.md"),
        Found::Missing => bail!(
            "there is no Secret {CA_SECRET}; the operator makes it at its first start. Is it there, and does it work? See `{}`",
            SYSTEM.check
        ),
    }
}
