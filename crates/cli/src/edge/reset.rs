//! `kubectl flashjob edge reset`: another box may register as this device, or the same one that has lost its key.
//!
//! While the label is there, the registration certificate may register the device. The key in use stays good until the new one
//! is used, so a reset by mistake harms nobody. The record of keys is only taken away together with setting the label: without
//! the label any certificate that the device was ever given would count again.

use anyhow::{Result, bail};
use flashjob_api::edge::EdgeDevice;
use flashjob_plan::edge::{keys, labels};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::args::Connection;
use crate::edge::args::ResetArgs;
use crate::edge::device::{Device, KeyState};
use crate::edge::{SYSTEM, read};
use crate::exit::Exit;
use crate::read::dynamic;
use crate::shell::Shell;

pub async fn run(to: &Connection, wanted: &ResetArgs, shell: &Shell) -> Result<Exit> {
    let connected = to.open().await?;
    let device: Device = read::get(&connected, to.namespace.as_deref(), &wanted.device).await?;
    let Device { namespace, name, .. } = &device;
    if device.being_deleted {
        bail!(
            "EdgeDevice {name} is being deleted; when it is gone its box may ask to be let in again"
        );
    }
    let Some(change) = change(&device, wanted.forget_key) else {
        shell.say(&format!("{name}: it waits for a box to register already"));
        return Ok(Exit::Done);
    };
    let devices = dynamic::<EdgeDevice>(&connected.client, Some(namespace));
    let done = devices.patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
    done.map_err(|error| SYSTEM.failed(format!("cannot reset EdgeDevice {name}"), &error))?;
    shell.out(&format!("edgedevices.management.project-flotta.io/{name} reset\n"))?;
    shell.say(&next(&device, wanted.forget_key));
    Ok(Exit::Done)
}

/// What is to be changed; `None`: nothing.
fn change(device: &Device, forget: bool) -> Option<Value> {
    let mut metadata = json!({
        "uid": device.uid,
        "labels": { (labels::UNCLAIMED): "true" },
    });
    // One that says nothing is none.
    let on_record = !matches!(&device.keys, Ok(keys) if keys.ca().is_none());
    if forget && on_record {
        metadata["annotations"] = json!({ (keys::ANNOTATION): null });
    } else if device.unclaimed {
        return None;
    }
    Some(json!({ "metadata": metadata }))
}

/// What happens next.
fn next(device: &Device, forgotten: bool) -> String {
    let who = "Now whoever has the registration certificate may register it, once.";
    let Device { namespace, name, .. } = device;
    match device.key() {
        KeyState::Unreadable if !forgotten => format!(
            "{who} Its record of keys cannot be read, so no box is served until one registers; that writes the record anew."
        ),
        KeyState::InUse(_) if !forgotten => format!(
            "{who} The key in use stays good until the new one is used. If it was a mistake: kubectl label edgedevice {name} \
             -n {namespace} {}-",
            labels::UNCLAIMED
        ),
        KeyState::Awaited if !forgotten => who.to_owned(),
        _ => format!(
            "{who} The box that was this device may do nothing but register again, as any other. What it runs goes on."
        ),
    }
}

#[cfg(test)]
mod tests;
