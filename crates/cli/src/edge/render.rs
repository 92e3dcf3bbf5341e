//! `kubectl flashjob edge render`: what a device would be told, made here from what the user may read.

mod bucket;

use std::collections::BTreeSet;

use anyhow::{Result, anyhow, bail};
use flashjob_api::edge::wire::DeviceConfigurationMessage;
use flashjob_api::edge::{EdgeDevice, Settings};
use flashjob_plan::edge::configuration::{
    NOT_READABLE, Needs, Serve, SettingsText, Wanted, masked, render_settings, serve,
};
use flashjob_plan::edge::heartbeat::{status::DEPLOYING, told};
use flashjob_plan::edge::preview::{self, Index};
use flashjob_plan::edge::storage::Claim;
use kube::api::{DynamicObject, ListParams};
use kube::{Client, ResourceExt};

use crate::args::Connection;
use crate::edge::args::RenderArgs;
use crate::edge::fleet;
use crate::edge::material::LiveMaterial;
use crate::edge::read::{self, Kind};
use crate::exit::Exit;
use crate::read::{dynamic, pages_of};
use crate::shell::{Shell, clean};
use bucket::Bucket;

/// An EdgeDevice as it is, with what it may run by its status.
#[derive(Clone)]
struct Target {
    namespace: String,
    name: String,
    device: preview::Device,
    runs: BTreeSet<String>,
}

impl Kind for Target {
    const KIND: &'static str = "EdgeDevice";
    const PLURAL: &'static str = "EdgeDevices";
    const LISTS: &'static str = "kubectl flashjob edge devices";

    async fn pages(
        client: &Client,
        namespace: Option<&str>,
        choice: &ListParams,
    ) -> kube::Result<Vec<Self>> {
        let read = |object: DynamicObject| Target {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            device: preview::Device::read(&object.metadata, &object.data["spec"]),
            runs: runs(&object),
        };
        pages_of(&dynamic::<EdgeDevice>(client, namespace), choice.clone(), read).await
    }

    fn place(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}

/// What the device has told of.
fn runs(object: &DynamicObject) -> BTreeSet<String> {
    let told = told(&object.data["status"]).into_iter().filter(|(_, told)| told.phase != DEPLOYING);
    told.map(|(name, _)| name).collect()
}

pub async fn run(to: &Connection, wanted: &RenderArgs, shell: &Shell) -> Result<Exit> {
    let connected = to.open().await?;
    let target: Target = read::get(&connected, to.namespace.as_deref(), &wanted.device).await?;
    let index = fleet::without_devices(&connected, &target.namespace).await?.index();
    let (settings, _) = index.settings_of(&target.device);
    let home = &wanted.home.operator_namespace;
    let bucket = Bucket::read(&connected.client, &target.device, &settings, home).await?;
    let mut material = LiveMaterial::default();
    for needs in needs(&target, &index, &settings, &bucket.claim) {
        material.read(&connected.client, &target.namespace, &needs).await?;
    }
    let (message, notes) = render(&target, &index, &material, &bucket)?;
    for what in material.unreadable() {
        shell.note(&format!(
            "{what} you may not read: what is in it is shown as {NOT_READABLE}, or left out"
        ));
    }
    notes.iter().for_each(|note| shell.note(&clean(note)));
    shell.out(&wanted.output.print(&message)?)?;
    Ok(Exit::Done)
}

fn needs(target: &Target, index: &Index, settings: &Settings, claim: &Claim) -> Vec<Needs> {
    let mut of_device = Needs::of_settings(settings);
    claim.needs(&target.name, &mut of_device);
    let workloads = index.workloads_of(&target.device);
    let of_workloads = workloads.iter().map(|workload| Needs::of_workload(&workload.spec));
    of_workloads.chain([of_device]).collect()
}

/// What it would be told, without passwords, and what is to be said beside it. A version that stands for something that was not
/// seen is none.
fn render(
    target: &Target,
    index: &Index,
    material: &LiveMaterial,
    bucket: &Bucket,
) -> Result<(DeviceConfigurationMessage, Vec<String>)> {
    let Target { namespace, name, device, runs } = target;
    let (settings, mut problems) = index.settings_of(device);
    let claimed = bucket.claim.clone().read(bucket::place(device), &bucket.server, material, None);
    let rendered = render_settings(namespace, &settings, claimed.bucket.as_ref(), material);
    problems.extend(rendered.problems);
    problems.extend(claimed.said.and_then(Result::err));
    let mut notes: Vec<String> =
        problems.iter().map(|problem| format!("{}: {}", problem.reason, problem.message)).collect();
    notes.extend(bucket.unseen.clone());
    let text = SettingsText::new(&rendered.configuration);
    let workloads = index.rendered(device, material);
    // For who runs nothing yet nothing is held back.
    let nothing = BTreeSet::new();
    let wanted = Wanted {
        device: name,
        settings: Some(&text),
        workloads: &workloads,
        runs: &nothing,
        last: None,
        labels: None,
    };
    let served = serve(wanted);
    for (workload, problems) in &served.problems {
        for problem in problems {
            let what = format!("{workload} is not sent: {}: {}", problem.reason, problem.message);
            notes.push(what);
        }
        if runs.contains(workload) {
            notes.push(format!(
                "{name} runs {workload}, so until that is mended it keeps the configuration that it has, and is told nothing of this"
            ));
        }
    }
    let Serve::New(configuration) = served.serve else {
        bail!("something that {name} needs could not be read");
    };
    let message: DeviceConfigurationMessage =
        serde_json::from_str(&configuration.content_json())
            .map_err(|error| anyhow!("what {name} would be told cannot be read: {error}"))?;
    let mut message = masked(&message);
    if bucket.unseen.is_some() || !material.unreadable().is_empty() {
        message.version = NOT_READABLE.to_owned();
    }
    Ok((message, notes))
}

#[cfg(test)]
mod tests;
