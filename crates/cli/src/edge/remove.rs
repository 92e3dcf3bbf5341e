//! `kubectl flashjob edge remove`: devices are sent away, and each removes all it runs.
//!
//! With `--decline` none comes back by itself. A request that is declined while the EdgeDevice is still there is deleted with
//! it, so the order is: delete, wait until it is gone, decline. A box that gets in between is sent away once more.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use flashjob_api::edge::{EdgeDevice, EdgeDeviceSignedRequest};
use flashjob_plan::edge::device_id::DeviceId;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::check::{DEPLOYMENT, namespaces};
use crate::args::Connection;
use crate::check::get;
use crate::connect::Connected;
use crate::edge::args::RemoveArgs;
use crate::edge::device::Device;
use crate::edge::request::{DECLINED, Request};
use crate::edge::{SYSTEM, for_each, read};
use crate::exit::Exit;
use crate::prompt::{is_meant, needs_yes};
use crate::read::dynamic;
use crate::shell::{Shell, clean};

/// Between two looks whether an EdgeDevice is gone.
const PAUSE: Duration = Duration::from_millis(300);
/// How often a box that comes back meanwhile is sent away.
const TRIES: usize = 3;

pub async fn run(to: &Connection, wanted: &RemoveArgs, shell: &Shell) -> Result<Exit> {
    needs_yes(wanted.yes, "a device that is removed removes all it runs", shell)?;
    let connected = to.open().await?;
    let only = to.namespace.as_deref();
    let named = wanted.device.iter().map(|name| clean(name)).collect::<Vec<_>>().join(", ");
    let question = format!("Have {named} disconnect and remove everything that runs there?");
    if !is_meant(wanted.yes, &question, shell) {
        shell.say("Nothing was changed.");
        return Ok(Exit::Interrupted);
    }
    let end = for_each(&wanted.device, shell, async |written: &String| {
        if wanted.decline {
            return keep_out(&connected, written, only, wanted, shell).await;
        }
        let device: Device = read::get(&connected, only, written).await?;
        delete(&connected, &device, shell).await
    })
    .await?;
    shell.say(if wanted.decline {
        "A device disconnects and removes what it runs when it next asks, and is not let in again. If it may come back after \
         all: kubectl flashjob edge approve"
    } else {
        "A device disconnects and removes what it runs when it next asks. Where nobody has to approve it may come back after \
         that; to keep it out, say --decline."
    });
    Ok(end)
}

/// Deletes exactly the EdgeDevice that was seen.
async fn delete(to: &Connected, device: &Device, shell: &Shell) -> Result<()> {
    let Device { name, namespace, uid, .. } = device;
    let seen = Preconditions { uid: Some(uid.clone()), ..Preconditions::default() };
    let params = DeleteParams { preconditions: Some(seen), ..DeleteParams::default() };
    match devices(to, namespace).delete(name, &params).await {
        Ok(_) => shell.out(&format!("edgedevices.management.project-flotta.io/{name} deleted\n")),
        // Somebody was faster.
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => {
            let what = format!("cannot delete EdgeDevice {name} in namespace {namespace}");
            Err(SYSTEM.failed(what, &error))
        }
    }
}

async fn keep_out(
    to: &Connected,
    written: &str,
    only: Option<&str>,
    wanted: &RemoveArgs,
    shell: &Shell,
) -> Result<()> {
    let mut device: Option<Device> = read::find(to, only, written).await?;
    let name = written.rsplit('/').next().unwrap_or(written);
    let home = match &wanted.request_namespace {
        Some(namespace) => namespace.clone(),
        None => request_namespace(to, name, &wanted.home.operator_namespace, shell).await?,
    };
    for _ in 0..TRIES {
        if let Some(device) = &device {
            delete(to, device, shell).await?;
            gone(to, device, wanted.patience.timeout).await?;
        }
        decline(to, &home, name, shell).await?;
        device = read::find(to, only, written).await?;
        if device.is_none() {
            return Ok(());
        }
        shell.note(&format!("{name} has come back in between; it is sent away again"));
    }
    bail!("{name} has come back each time; have devices approved (AUTO_APPROVAL_PROCESS=false)")
}

/// Waits until the operator has let it go.
async fn gone(to: &Connected, device: &Device, patience: Duration) -> Result<()> {
    let Device { name, namespace, uid, .. } = device;
    let end = Instant::now() + patience;
    loop {
        let there = devices(to, namespace).get_opt(name).await;
        let what = || format!("cannot read EdgeDevice {name}");
        let there = there.map_err(|error| SYSTEM.failed(what(), &error))?;
        if there.is_none_or(|there| there.uid().as_ref() != Some(uid)) {
            return Ok(());
        }
        if Instant::now() >= end {
            bail!(
                "EdgeDevice {name} is deleted, and after {} s still there, so it is not declined yet; does the operator work? \
                 See `{}`, then say the same again",
                patience.as_secs(),
                SYSTEM.check
            );
        }
        sleep(PAUSE).await;
    }
}

/// Refuses it, whether it has asked already or not.
async fn decline(to: &Connected, namespace: &str, name: &str, shell: &Shell) -> Result<()> {
    let name = DeviceId::read(name).map_err(|why| anyhow!("{}: {why}", clean(name)))?;
    let requests = dynamic::<EdgeDeviceSignedRequest>(&to.client, Some(namespace));
    let metadata = json!({ "name": name.as_str(), "annotations": { (DECLINED): "true" } });
    let object = json!({
        "apiVersion": "management.project-flotta.io/v1alpha1",
        "kind": "EdgeDeviceSignedRequest",
        "metadata": metadata,
        "spec": {},
    });
    let object: DynamicObject = serde_json::from_value(object)?;
    let made = match requests.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {
            let change = json!({ "metadata": { "annotations": { (DECLINED): "true" } } });
            let params = PatchParams::default();
            requests.patch(name.as_str(), &params, &Patch::Merge(change)).await
        }
        made => made,
    };
    let what = || format!("{name} cannot be declined in namespace {namespace}");
    made.map_err(|error| SYSTEM.failed(what(), &error))?;
    shell.out(&format!("edgedevicesignedrequest.management.project-flotta.io/{name} declined\n"))
}

/// Where requests are: in the first of the namespaces that are served. Else where the device has asked before; that request
/// goes with the EdgeDevice.
async fn request_namespace(
    to: &Connected,
    name: &str,
    operator: &str,
    shell: &Shell,
) -> Result<String> {
    let deployment = get::<Deployment>(&to.client, operator, DEPLOYMENT).await.ok().flatten();
    if let Some(first) = deployment.and_then(|found| namespaces(&found).into_iter().next()) {
        return Ok(first);
    }
    let asked: Vec<Request> = read::named(to, None, name).await?;
    if let [asked] = asked.as_slice() {
        return Ok(asked.namespace.clone());
    }
    shell.note(
        "the operator's --edge-namespaces cannot be seen; the request is written into namespace default. If another one is the \
         first of them, say --request-namespace",
    );
    Ok("default".to_owned())
}

fn devices(to: &Connected, namespace: &str) -> Api<DynamicObject> {
    dynamic::<EdgeDevice>(&to.client, Some(namespace))
}
