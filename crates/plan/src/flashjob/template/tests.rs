use flashjob_api::flashjob::GROUP;
use k8s_openapi::api::core::v1::{EnvVar, Pod};
use serde_json::{Value, json};

use super::*;
use crate::flashjob::facts::{Job, Settings};
use crate::flashjob::instances::Instance;
use crate::flashjob::ledger::Record;
use crate::flashjob::spec::Spec;

mod accepted;

/// A flash Pod without a template.
fn our_pod() -> Pod {
    let spec = json!({ "uuid": ["a"], "firmware": "f", "version": "v" });
    let settings = Settings { flashjob_image: Some("i".into()), ..Settings::default() };
    let spec = Spec::read(&spec, &settings).unwrap();
    let job = Job {
        namespace: "n".into(),
        name: "j".into(),
        uid: "u".into(),
        created: jiff::Timestamp::UNIX_EPOCH,
        generation: 1,
        deleting: false,
        finalizer: true,
        ledger: None,
        spec: Ok(spec.clone()),
    };
    let record = Record::new(&job.uid, "a", "r", job.created);
    crate::flashjob::pod::pod(
        &job,
        &spec,
        (0, &record),
        &Instance::default(),
        crate::flashjob::access::Address::Given("10.0.0.1"),
    )
}

fn read(template: &Value, unsafe_templates: bool) -> Result<Template, Invalid> {
    Template::read(template.as_object().unwrap(), unsafe_templates)
}

/// The flash Pod with this template, as JSON.
fn with(template: &Value, unsafe_templates: bool) -> Value {
    let mut pod = our_pod();
    match read(template, unsafe_templates) {
        Ok(template) => template.add_to(&mut pod),
        Err(Invalid(why)) => panic!("{template}: {why}"),
    }
    serde_json::to_value(pod).unwrap()
}

fn refusal(template: &Value, unsafe_templates: bool) -> String {
    match read(template, unsafe_templates) {
        Err(Invalid(why)) => why,
        Ok(_) => panic!("{template} was accepted"),
    }
}

fn spec(spec: Value) -> Value {
    json!({ "spec": spec })
}

fn flash(container: Value) -> Value {
    json!({ "spec": { "containers": [container] } })
}

fn mounted_at(path: &str) -> Value {
    flash(json!({ "volumeMounts": [{ "name": "x", "mountPath": path }] }))
}

/// What is written in a Pod, and the path by which it is refused.
fn refused_in_a_pod() -> Vec<(Value, &'static str)> {
    let metadata = |metadata: Value| json!({ "metadata": metadata });
    let volume = |volume: Value| json!({ "spec": { "volumes": [{ "name": "ok" }, volume] } });
    vec![
        (json!({ "kind": "Pod" }), "kind"),
        (json!({ "status": {} }), "status"),
        (metadata(json!({ "name": "x" })), "metadata.name"),
        (metadata(json!({ "namespace": "kube-system" })), "metadata.namespace"),
        (metadata(json!({ "finalizers": ["x/y"] })), "metadata.finalizers"),
        (
            metadata(
                json!({ "annotations": { format!("{APPARMOR}flash-container"): "unconfined" } }),
            ),
            "metadata.annotations[container.apparmor",
        ),
        (spec(json!({ "hostPID": true })), "spec.hostPID"),
        (spec(json!({ "hostIPC": true })), "spec.hostIPC"),
        (spec(json!({ "hostNetwork": false })), "spec.hostNetwork"),
        (spec(json!({ "nodeName": "n" })), "spec.nodeName"),
        (spec(json!({ "serviceAccountName": "admin" })), "spec.serviceAccountName"),
        (
            spec(json!({ "automountServiceAccountToken": true })),
            "spec.automountServiceAccountToken",
        ),
        (spec(json!({ "initContainers": [] })), "spec.initContainers"),
        (spec(json!({ "schedulerName": "x" })), "spec.schedulerName"),
        (spec(json!({ "shareProcessNamespace": true })), "spec.shareProcessNamespace"),
        (spec(json!({ "terminationGracePeriodSeconds": 0 })), "spec.terminationGracePeriodSeconds"),
        (spec(json!({ "securityContext": { "sysctls": [] } })), "spec.securityContext.sysctls"),
        (
            spec(json!({ "securityContext": { "runAsGroup": 0 } })),
            "spec.securityContext.runAsGroup",
        ),
        (volume(json!({ "name": "x", "hostPath": { "path": "/" } })), "spec.volumes[1].hostPath"),
        (volume(json!({ "name": "x", "projected": {} })), "spec.volumes[1].projected"),
        (volume(json!({ "name": "x", "csi": { "driver": "d" } })), "spec.volumes[1].csi"),
    ]
}

/// The same for the flash container.
fn refused_in_a_container() -> Vec<(Value, &'static str)> {
    vec![
        (spec(json!({ "containers": [{}, {}] })), "spec.containers[1]"),
        (flash(json!({ "name": "sidecar" })), "spec.containers[0].name"),
        (flash(json!({ "image": "evil" })), "spec.containers[0].image"),
        (flash(json!({ "command": ["sh"] })), "spec.containers[0].command"),
        (flash(json!({ "args": [] })), "spec.containers[0].args"),
        (flash(json!({ "lifecycle": {} })), "spec.containers[0].lifecycle"),
        (flash(json!({ "ports": [] })), "spec.containers[0].ports"),
        (flash(json!({ "volumeDevices": [] })), "spec.containers[0].volumeDevices"),
        (
            flash(json!({ "securityContext": { "privileged": true } })),
            "spec.containers[0].securityContext.privileged",
        ),
        (
            flash(json!({ "env": [{ "name": "A", "valueFrom": { "fileKeyRef": {} } }] })),
            "spec.containers[0].env[0].valueFrom.fileKeyRef",
        ),
        (mounted_at("/ota/certs"), "spec.containers[0].volumeMounts[0].mountPath"),
        (mounted_at("ota//certs/"), "spec.containers[0].volumeMounts[0].mountPath"),
        (mounted_at("/ota"), "spec.containers[0].volumeMounts[0].mountPath"),
        (mounted_at("/"), "spec.containers[0].volumeMounts[0].mountPath"),
        (mounted_at("/ota/certs/server.pem"), "spec.containers[0].volumeMounts[0].mountPath"),
    ]
}

#[test]
fn what_is_not_on_the_list_is_refused_by_its_path() {
    let table = [refused_in_a_pod(), refused_in_a_container()].concat();
    for (template, path) in table {
        let why = refusal(&template, false);
        let path = format!("spec.podTemplate.{path}");
        assert!(why.starts_with(&path), "{why}\ninstead of {path}");
        assert!(why.contains(" is not allowed: "), "{why}");
    }
}

/// Also when the operator allows everything else.
#[test]
fn what_the_operator_needs_is_never_given_away() {
    let named = |list: &str, name: &str| json!({ list: [{ "name": "ok" }, { "name": name }] });
    let label = |key: &str| json!({ "metadata": { "labels": { key: "x" } } });
    let mut table = vec![
        (label("app"), "metadata.labels[app]".to_owned()),
        (label("uuid"), "metadata.labels[uuid]".to_owned()),
        (label(crate::flashjob::names::TARGET), format!("metadata.labels[{GROUP}/target]")),
        (
            json!({ "metadata": { "annotations": { crate::flashjob::names::LEDGER: "x" } } }),
            format!("metadata.annotations[{GROUP}/ledger]"),
        ),
        (spec(json!({ "restartPolicy": "Always" })), "spec.restartPolicy".into()),
        (spec(json!({ "activeDeadlineSeconds": 5 })), "spec.activeDeadlineSeconds".into()),
        (flash(json!({ "restartPolicy": "Always" })), "spec.containers[0].restartPolicy".into()),
        (
            spec(json!({ "containers": [{}, { "name": flash_pod::CONTAINER }] })),
            "spec.containers[1]".into(),
        ),
    ];
    for name in OWN_VOLUMES {
        table.push((spec(named("volumes", name)), format!("spec.volumes[1].name {name}")));
    }
    for name in flash_pod::env::ALL {
        table.push((flash(named("env", name)), format!("spec.containers[0].env[1].name {name}")));
    }
    for path in ["/var/run/flashjob/tls", "/var/run/flashjob/registry/", "/tmp", "tmp", "/a/../tmp"]
    {
        let at = format!("spec.containers[0].volumeMounts[0].mountPath {path}");
        table.push((mounted_at(path), at));
    }
    for (template, path) in table {
        for unsafe_templates in [false, true] {
            let why = refusal(&template, unsafe_templates);
            let path = format!("spec.podTemplate.{path}");
            let found = why.starts_with(&format!("{path} is not allowed: "));
            assert!(!why.contains("--unsafe-pod-templates"), "{why}");
            assert!(found, "{why}\ninstead of {path}");
        }
    }
}

#[test]
fn what_cannot_be_read_is_refused_with_serdes_message() {
    let table = [
        (json!({ "metadata": 1 }), "metadata", "invalid type"),
        (json!({ "spec": "x" }), "spec", "invalid type: string \"x\""),
        (json!({ "metadata": { "labels": { "a": 1 } } }), "metadata.labels", "integer `1`"),
        (spec(json!({ "tolerations": "x" })), "spec.tolerations", "invalid type: string \"x\""),
        (spec(json!({ "nodeSelector": ["a"] })), "spec.nodeSelector", "invalid type: sequence"),
        (spec(json!({ "volumes": {} })), "spec.volumes", "invalid type: map"),
        (spec(json!({ "containers": {} })), "spec.containers", "invalid type: map"),
        (spec(json!({ "containers": ["x"] })), "spec.containers[0]", "invalid type: string"),
        (flash(json!({ "name": 5 })), "spec.containers[0].name", "invalid type: integer"),
        (
            flash(json!({ "env": [{ "name": "A", "value": 1 }] })),
            "spec.containers[0].env",
            "integer `1`, expected a string",
        ),
        (
            flash(json!({ "securityContext": { "runAsUser": "root" } })),
            "spec.containers[0].securityContext",
            "expected i64",
        ),
    ];
    for (template, path, message) in table {
        for unsafe_templates in [false, true] {
            let why = refusal(&template, unsafe_templates);
            assert!(why.starts_with(&format!("spec.podTemplate.{path} cannot be read: ")), "{why}");
            assert!(why.contains(message), "{why}");
        }
    }
}

#[test]
fn a_misspelled_field_is_not_passed_over() {
    let table = [
        (spec(json!({ "tolerations": [{ "kye": "a" }] })), "spec.tolerations[0].kye"),
        (
            flash(json!({ "resources": { "limit": { "cpu": "1" } } })),
            "spec.containers[0].resources.limit",
        ),
        (
            spec(json!({ "volumes": [{ "name": "a", "secret": { "name": "b" } }] })),
            "spec.volumes[0].secret.name",
        ),
    ];
    for (template, path) in table {
        for unsafe_templates in [false, true] {
            let why = refusal(&template, unsafe_templates);
            assert!(why.starts_with(&format!("spec.podTemplate.{path} is not allowed: ")), "{why}");
        }
    }
}
