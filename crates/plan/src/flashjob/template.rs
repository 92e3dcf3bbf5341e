//! What a job adds to its flash Pods: `spec.podTemplate`, in the form of a PodTemplateSpec.
//!
//! Who may create FlashJobs is not always who may create Pods, and the operator creates Pods for all of them. So a
//! template may say where and with what a flash runs, and nothing that gives it more rights on its node. The lists
//! below are all there is: a field Kubernetes adds later is refused until somebody has thought about it.

use std::collections::BTreeMap;
use std::fmt::Display;

use flashjob_api::flashjob::flash_pod;
use k8s_openapi::DeepMerge;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use crate::flashjob::names;
use crate::flashjob::spec::Invalid;

const ROOT: &str = "spec.podTemplate";
const META: &str = "spec.podTemplate.metadata";
const SPEC: &str = "spec.podTemplate.spec";

/// What is allowed, level by level.
const METADATA: &[&str] = &["labels", "annotations"];
#[rustfmt::skip]
const POD: &[&str] = &[
    "nodeSelector", "tolerations", "affinity", "topologySpreadConstraints", "priorityClassName",
    "imagePullSecrets", "runtimeClassName", "dnsConfig", "securityContext", "volumes", "containers",
];
const FLASH_CONTAINER: &[&str] =
    &["name", "resources", "env", "envFrom", "volumeMounts", "imagePullPolicy", "securityContext"];
const SECURITY: &[&str] = &["runAsUser", "runAsNonRoot"];
const VOLUME: &[&str] = &["name", "emptyDir", "configMap", "secret", "persistentVolumeClaim"];
const VALUE_FROM: &[&str] = &["configMapKeyRef", "secretKeyRef", "fieldRef", "resourceFieldRef"];

/// The names in the Pod that are ours. Each must stay what pod.rs says it is, whatever the operator allows.
const OWN_LABELS: &[&str] = &["app", "uuid"];
const OWN_VOLUMES: &[&str] = &["tls", "registry", "tmp"];
const OWN_MOUNTS: [&str; 3] =
    [flash_pod::TLS_FOLDER, flash_pod::REGISTRY_FOLDER, flash_pod::SCRATCH_FOLDER];
/// The original's images carry their certificates here.
const CERTIFICATES: &str = "/ota/certs";
/// An annotation that switches AppArmor off, as securityContext would.
const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

const TOO_MUCH: &str = "a flash Pod gets only what flashing needs; remove it, or have the operator \
                        started with --unsafe-pod-templates";
const OURS: &str = "the operator needs it to follow the flash; remove it, or use another name";
const RETRY: &str = "the operator itself counts and repeats attempts; remove it";

/// What a job adds to its flash Pods.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Template {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    spec: PodSpec,
}

impl Template {
    /// Reads `spec.podTemplate`. The error names the first field that is not allowed, unknown, or of the wrong type.
    ///
    /// `unsafe_templates` lets everything of a PodSpec through, except what would lose the flash from sight.
    pub fn read(
        template: &Map<String, Value>,
        unsafe_templates: bool,
    ) -> Result<Template, Invalid> {
        let template = without_nulls(&Value::Object(template.clone()));
        let (metadata, spec) = (&template["metadata"], &template["spec"]);
        only(ROOT, &template, &["metadata", "spec"], "a template has no such part; remove it")?;
        only(META, metadata, METADATA, "the operator names and owns the Pod; remove it")?;
        // Each container by itself first, for the sake of the path.
        for (at, container) in entries(SPEC, spec, "containers") {
            typed::<Container>(&at, container)?;
        }
        let ObjectMeta { labels, annotations, .. } = typed(META, metadata)?;
        let mut pod: PodSpec = typed(SPEC, spec)?;
        for container in pod.containers.iter_mut().filter(|c| c.name.is_empty()) {
            container.name = flash_pod::CONTAINER.into();
        }
        let read = Template {
            labels: labels.unwrap_or_default(),
            annotations: annotations.unwrap_or_default(),
            spec: pod,
        };
        read.leaves_ours_alone()?;
        if !unsafe_templates {
            read.stays_in_its_sandbox(spec)?;
        }
        Ok(read)
    }

    /// Adds it to a Pod that is otherwise complete. What is in the Pod's lists stays there and first.
    pub fn add_to(&self, pod: &mut Pod) {
        add_missing(&mut pod.metadata.labels, &self.labels);
        add_missing(&mut pod.metadata.annotations, &self.annotations);
        let ours = pod.spec.get_or_insert_default();
        let mut theirs = self.spec.clone();
        // DeepMerge would replace some of these lists and mix the entries of others.
        append(&mut ours.volumes, theirs.volumes.take());
        let our = ours.containers.iter_mut().find(|c| c.name == flash_pod::CONTAINER);
        let their = theirs.containers.iter_mut().find(|c| c.name == flash_pod::CONTAINER);
        if let (Some(our), Some(their)) = (our, their) {
            append(&mut our.env, their.env.take());
            append(&mut our.env_from, their.env_from.take());
            append(&mut our.volume_mounts, their.volume_mounts.take());
        }
        ours.merge_from(theirs);
    }

    /// What no template may touch, since a flash could not start, be found or be judged without it.
    fn leaves_ours_alone(&self) -> Result<(), Invalid> {
        for key in self.labels.keys() {
            let own = names::is_ours(key) || OWN_LABELS.contains(&key.as_str());
            refuse_if(own, format_args!("{META}.labels[{key}]"), OURS)?;
        }
        for key in self.annotations.keys() {
            refuse_if(names::is_ours(key), format_args!("{META}.annotations[{key}]"), OURS)?;
        }
        let deadline = self.spec.active_deadline_seconds.is_some();
        let why = "spec.timeouts.deviceSeconds says how long a flash may take; remove it";
        refuse_if(deadline, format_args!("{SPEC}.activeDeadlineSeconds"), why)?;
        refuse_if(self.spec.restart_policy.is_some(), format_args!("{SPEC}.restartPolicy"), RETRY)?;
        for (i, volume) in self.spec.volumes.iter().flatten().enumerate() {
            let own = OWN_VOLUMES.contains(&volume.name.as_str());
            refuse_if(own, format_args!("{SPEC}.volumes[{i}].name {}", volume.name), OURS)?;
        }
        let containers = self.spec.containers.iter().enumerate();
        for (nth, (i, flash)) in
            containers.filter(|(_, c)| c.name == flash_pod::CONTAINER).enumerate()
        {
            let at = format!("{SPEC}.containers[{i}]");
            let why = "an entry before it is the flash container already; make them one";
            refuse_if(nth > 0, &at, why)?;
            refuse_if(flash.restart_policy.is_some(), format_args!("{at}.restartPolicy"), RETRY)?;
            for (i, env) in flash.env.iter().flatten().enumerate() {
                let own = flash_pod::env::ALL.contains(&env.name.as_str());
                refuse_if(own, format_args!("{at}.env[{i}].name {}", env.name), OURS)?;
            }
            for (i, mount) in flash.volume_mounts.iter().flatten().enumerate() {
                let path = &mount.mount_path;
                let own = OWN_MOUNTS.iter().any(|own| directories(own) == directories(path));
                let why = "the operator mounts a volume there itself; use another path";
                refuse_if(own, format_args!("{at}.volumeMounts[{i}].mountPath {path}"), why)?;
            }
        }
        Ok(())
    }

    /// What a template may do unless the operator trusts it.
    fn stays_in_its_sandbox(&self, spec: &Value) -> Result<(), Invalid> {
        for key in self.annotations.keys().filter(|key| key.starts_with(APPARMOR)) {
            refuse_if(true, format_args!("{META}.annotations[{key}]"), TOO_MUCH)?;
        }
        only(SPEC, spec, POD, TOO_MUCH)?;
        only_user(SPEC, spec)?;
        for (at, volume) in entries(SPEC, spec, "volumes") {
            only(&at, volume, VOLUME, TOO_MUCH)?;
        }
        for (at, container) in entries(SPEC, spec, "containers") {
            let other = container["name"].as_str().is_some_and(|name| name != flash_pod::CONTAINER);
            refuse_if(other, format_args!("{at}.name"), TOO_MUCH)?;
            only(&at, container, FLASH_CONTAINER, TOO_MUCH)?;
            only_user(&at, container)?;
            for (at, env) in entries(&at, container, "env") {
                only(&format!("{at}.valueFrom"), &env["valueFrom"], VALUE_FROM, TOO_MUCH)?;
            }
            for (at, mount) in entries(&at, container, "volumeMounts") {
                let path = directories(mount["mountPath"].as_str().unwrap_or_default());
                let certificates = directories(CERTIFICATES);
                let hides = certificates.starts_with(&path) || path.starts_with(&certificates);
                let why = "images carry their certificates in /ota/certs; use another path";
                refuse_if(hides, format_args!("{at}.mountPath"), why)?;
            }
        }
        Ok(())
    }
}

/// Of a securityContext, who the container runs as.
fn only_user(at: &str, of: &Value) -> Result<(), Invalid> {
    only(&format!("{at}.securityContext"), &of["securityContext"], SECURITY, TOO_MUCH)
}

/// Refuses a map's keys other than these.
fn only(at: &str, map: &Value, allowed: &[&str], why: &str) -> Result<(), Invalid> {
    for key in map.as_object().into_iter().flat_map(Map::keys) {
        refuse_if(!allowed.contains(&key.as_str()), format_args!("{at}.{key}"), why)?;
    }
    Ok(())
}

fn refuse_if(bad: bool, at: impl Display, why: &str) -> Result<(), Invalid> {
    if bad { Err(Invalid(format!("{at} is not allowed: {why}"))) } else { Ok(()) }
}

/// The entries of a list and their paths; none if there is no list.
fn entries<'a>(at: &str, of: &'a Value, key: &str) -> impl Iterator<Item = (String, &'a Value)> {
    let list = of[key].as_array().into_iter().flatten().enumerate();
    list.map(move |(i, entry)| (format!("{at}.{key}[{i}]"), entry))
}

/// Reads a Kubernetes type. Serde does not say which field is wrong and passes over those it does not know, so each is
/// read by itself first, and what came of all is compared with what was written.
fn typed<T: DeserializeOwned + Serialize + Default>(at: &str, value: &Value) -> Result<T, Invalid> {
    if value.is_null() {
        return Ok(T::default());
    }
    let unreadable = |at: &str, error| Invalid(format!("{at} cannot be read: {error}"));
    for (key, field) in value.as_object().into_iter().flatten() {
        T::deserialize(&json!({ key: field }))
            .map_err(|error| unreadable(&format!("{at}.{key}"), error))?;
    }
    let typed = T::deserialize(value).map_err(|error| unreadable(at, error))?;
    let read = serde_json::to_value(&typed).map_err(|error| unreadable(at, error))?;
    known(at, value, &read)?;
    Ok(typed)
}

/// Refuses what was written and not read: a field that is misspelled must not be ignored.
fn known(at: &str, written: &Value, read: &Value) -> Result<(), Invalid> {
    for (key, field) in written.as_object().into_iter().flatten() {
        let at = format!("{at}.{key}");
        let why = "the operator knows no such field here; correct or remove it";
        refuse_if(read[key].is_null(), &at, why)?;
        known(&at, field, &read[key])?;
    }
    let [written, read] = [written, read].map(|value| value.as_array().into_iter().flatten());
    for (i, (written, read)) in written.zip(read).enumerate() {
        known(&format!("{at}[{i}]"), written, read)?;
    }
    Ok(())
}

/// Explicit nulls are as good as nothing.
fn without_nulls(value: &Value) -> Value {
    let some = |value: &&Value| !value.is_null();
    match value {
        Value::Object(map) => {
            let map = map.iter().filter(|(_, value)| some(value));
            map.map(|(key, value)| (key.clone(), without_nulls(value))).collect()
        }
        Value::Array(list) => list.iter().filter(some).map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// A path as the container runtime understands it: `tmp`, `/tmp/` and `/x/../tmp` are all the same place.
fn directories(path: &str) -> Vec<&str> {
    let mut directories = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(directories.pop()),
            name => directories.push(name),
        }
    }
    directories
}

fn append<T>(ours: &mut Option<Vec<T>>, theirs: Option<Vec<T>>) {
    if let Some(theirs) = theirs {
        ours.get_or_insert_default().extend(theirs);
    }
}

fn add_missing(ours: &mut Option<BTreeMap<String, String>>, theirs: &BTreeMap<String, String>) {
    for (key, value) in theirs {
        let ours = ours.get_or_insert_default();
        ours.entry(key.clone()).or_insert_with(|| value.clone());
    }
}

#[cfg(test)]
mod tests;
