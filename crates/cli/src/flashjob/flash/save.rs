//! The job as a file: in the shape the original documents, or whole.

use std::path::Path;

use anyhow::{Context, Result};
use flashjob_api::flashjob::FlashJob;
use flashjob_plan::flashjob::instances::Instance;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::shell::Shell;

/// The eight fields the original has.
const DOCUMENTED: [&str; 8] = [
    "applicationType",
    "device",
    "externalIP",
    "firmware",
    "flashjobPodImage",
    "hostEndpoint",
    "uuid",
    "version",
];

/// The job as the original's script writes it, and its operator takes it. Says what is not in it.
pub fn documented(job: &FlashJob, devices: &[Instance], shell: &Shell) -> Result<String> {
    let spec = serde_json::to_value(&job.spec)?;
    let mut fields: serde_json::Map<String, Value> =
        DOCUMENTED.map(|name| (name.to_owned(), spec[name].clone())).into_iter().collect();
    // The original knows devices by uid alone.
    fields["uuid"] = devices.iter().map(|device| device.uid.clone()).collect();
    let left_out = left_out(&spec);
    if !left_out.is_empty() {
        let left_out = left_out.join(", ");
        shell
            .note(&format!("not in the file, because the original has no such fields: {left_out}"));
    }
    if devices.len() < job.spec.uuid.as_ref().map_or(0, Vec::len) {
        shell.note("devices that are not there now are not in the file: they have no uid");
    }
    if job.spec.flashjob_pod_image.is_none() {
        shell.note("flashjobPodImage is empty; the original operator needs one, say --image");
    }
    yaml(job, &Value::Object(fields))
}

/// The job with everything in it.
pub fn whole(job: &FlashJob) -> Result<String> {
    yaml(job, &serde_json::to_value(&job.spec)?)
}

fn yaml(job: &FlashJob, spec: &Value) -> Result<String> {
    let metadata = json!({ "name": job.name_any(), "namespace": job.namespace() });
    let api_version = "application.flashjob.nbfc.io/v1alpha1";
    let object = json!({
        "apiVersion": api_version, "kind": "FlashJob", "metadata": metadata, "spec": spec,
    });
    serde_saphyr::to_string(&object).context("cannot write the job as YAML")
}

/// The fields that are set and not among the original's, as paths.
fn left_out(spec: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    for (name, value) in spec.as_object().into_iter().flatten() {
        match value {
            _ if DOCUMENTED.contains(&name.as_str()) => {}
            Value::Object(inner) => paths.extend(inner.keys().map(|key| format!("{name}.{key}"))),
            _ => paths.push(name.clone()),
        }
    }
    paths
}

/// Writes a file; `-` is standard output.
pub fn write(file: &Path, text: &str, shell: &Shell) -> Result<()> {
    if file == Path::new("-") {
        return shell.out(text);
    }
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    shell.say(&format!("UUIDs saved to {}", file.display()));
    Ok(())
}
