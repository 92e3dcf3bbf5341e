//! Which PodSpecs devices can run: those without what Podman does not do, and in the shape that is relied on where they are
//! sent. Whatever else is in them is sent as it is.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::super::problem::Problem;
use super::shape::{At, invalid, is_label_name};

const PATH: &str = "spec.pod.spec";

/// More containers than anybody has in a pod.
const MOST_CONTAINERS: usize = 100;

/// On this port of every device its own metrics are found.
const NODE_EXPORTER: u16 = 9100;

/// Fields of a container that devices do nothing about, each with why.
const UNSUPPORTED: [(&str, &str); 5] = [
    ("livenessProbe", "devices do not probe; take it out"),
    ("readinessProbe", "devices do not probe; take it out"),
    ("startupProbe", "devices do not probe; take it out"),
    ("lifecycle", "devices run no hooks; take it out"),
    ("volumeDevices", "devices give containers no block devices; take it out"),
];

const VOLUMES: [&str; 5] = ["hostPath", "emptyDir", "configMap", "secret", "persistentVolumeClaim"];

/// Refuses what devices cannot run.
pub(super) fn check(pod: &Map<String, Value>) -> Result<(), Problem> {
    let field = |key| At::field_of(pod, PATH, key);
    if let Some(ephemeral) = field("ephemeralContainers")
        && !ephemeral.list()?.is_empty()
    {
        return Err(ephemeral.refuse("devices have none; take it out"));
    }
    let missing = || invalid(PATH, "has no containers");
    let containers = field("containers").ok_or_else(missing)?.list()?;
    if containers.is_empty() {
        return Err(missing());
    }
    let first = field("initContainers").map_or(Ok(Vec::new()), |field| field.list())?;
    if first.len() + containers.len() > MOST_CONTAINERS {
        return Err(invalid(PATH, format!("has more than {MOST_CONTAINERS} containers")));
    }
    let mut names = HashSet::new();
    for container in first.iter().chain(&containers) {
        check_container(container, &mut names)?;
    }
    for volume in field("volumes").map_or(Ok(Vec::new()), |field| field.list())? {
        check_volume(&volume)?;
    }
    match field("restartPolicy") {
        Some(policy) if !["Always", "OnFailure", "Never"].contains(&policy.text()?) => {
            Err(policy.refuse("has to be Always, OnFailure or Never"))
        }
        _ => Ok(()),
    }
}

/// Whether the pod is one that is to come to an end. The spec is one that was checked.
pub(super) fn ends(pod: &Map<String, Value>) -> bool {
    let policy = pod.get("restartPolicy").and_then(Value::as_str);
    matches!(policy, Some("Never" | "OnFailure"))
}

fn check_container<'a>(container: &At<'a>, names: &mut HashSet<&'a str>) -> Result<(), Problem> {
    for (key, why) in UNSUPPORTED {
        match container.field(key)? {
            Some(field) if key != "volumeDevices" || !field.list()?.is_empty() => {
                return Err(field.refuse(why));
            }
            _ => {}
        }
    }
    let name = container.required("name")?;
    let text = name.text()?;
    if !is_label_name(text) {
        return Err(name.refuse(
            "has to be 1 to 63 letters, digits and -_., with a letter or digit at both ends",
        ));
    }
    if !names.insert(text) {
        return Err(name.refuse(&format!("there is another container {text}")));
    }
    container.required("image")?.word()?;
    for key in ["command", "args"] {
        container.list_in(key)?.iter().try_for_each(|word| word.text().map(drop))?;
    }
    container.list_in("env")?.iter().try_for_each(check_env)?;
    container.list_in("envFrom")?.iter().try_for_each(check_env_from)?;
    container.list_in("ports")?.iter().try_for_each(check_port)
}

fn check_env(env: &At<'_>) -> Result<(), Problem> {
    env.required("name")?.word()?;
    if let Some(value) = env.field("value")? {
        value.text()?;
    }
    let Some(from) = env.field("valueFrom")? else { return Ok(()) };
    let mut kinds = 0;
    for key in from.keys()? {
        if !matches!(key, "secretKeyRef" | "configMapKeyRef") {
            return Err(from.refuse_field(key, "devices do not know it; take it out"));
        }
        let reference = from.required(key)?;
        reference.required("key")?.word()?;
        check_reference(&reference, "name")?;
        kinds += 1;
    }
    if kinds == 1 { Ok(()) } else { Err(from.refuse("has to be secretKeyRef or configMapKeyRef")) }
}

fn check_env_from(from: &At<'_>) -> Result<(), Problem> {
    let mut kinds = 0;
    for key in from.keys()? {
        match key {
            "prefix" => drop(from.required(key)?.text()?),
            "secretRef" | "configMapRef" => {
                check_reference(&from.required(key)?, "name")?;
                kinds += 1;
            }
            _ => return Err(from.refuse_field(key, "devices do not know it; take it out")),
        }
    }
    if kinds == 1 { Ok(()) } else { Err(from.refuse("has to be secretRef or configMapRef")) }
}

/// What names a Secret or ConfigMap, in the field `name`.
fn check_reference(reference: &At<'_>, name: &str) -> Result<(), Problem> {
    reference.required(name)?.object_name()?;
    reference.field("optional")?.map_or(Ok(()), |optional| optional.bool().map(drop))
}

fn check_port(port: &At<'_>) -> Result<(), Problem> {
    port.required("containerPort")?.port(1)?;
    match port.field("hostPort")? {
        Some(host) if host.port(0)? == NODE_EXPORTER => {
            Err(host.refuse("is where devices have metrics of their own; take another"))
        }
        _ => Ok(()),
    }
}

fn check_volume(volume: &At<'_>) -> Result<(), Problem> {
    volume.required("name")?.word()?;
    let mut kinds = volume.keys()?;
    kinds.retain(|key| *key != "name");
    if let Some(unknown) = kinds.iter().find(|kind| !VOLUMES.contains(kind)) {
        let known = VOLUMES.join(", ");
        let why = format!("devices have no such volumes; use one of {known}");
        return Err(volume.refuse_field(unknown, &why));
    }
    let [kind] = kinds.as_slice() else {
        return Err(volume.refuse(&format!("has to be one of {}", VOLUMES.join(", "))));
    };
    let source = volume.required(kind)?;
    match *kind {
        "hostPath" => source.required("path")?.word().map(drop),
        "configMap" => check_reference(&source, "name"),
        "secret" => check_reference(&source, "secretName"),
        "persistentVolumeClaim" => source.required("claimName")?.object_name(),
        _ => source.object().map(drop),
    }?;
    // Of a ConfigMap or Secret: which keys become which files.
    source.list_in("items")?.iter().try_for_each(|item| {
        item.required("key")?.word()?;
        item.required("path")?.word().map(drop)
    })
}
