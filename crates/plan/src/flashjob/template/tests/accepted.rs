//! What a template may add, and where it is then in the Pod.

use super::*;

/// What is written, where to look in the Pod, and what is there.
type Row = (Value, &'static str, Value);

fn user() -> Value {
    json!({ "securityContext": { "runAsUser": 7, "runAsNonRoot": false } })
}

/// Where the Pod says whether it may run as root.
const ROOT_USER: &str = "/spec/securityContext/runAsNonRoot";

fn in_metadata() -> Vec<Row> {
    let annotations =
        json!({ "metadata": { "annotations": { "a": "b", "linkerd.io/inject": "on" } } });
    let label = json!({ "metadata": { "labels": { "team": "edge" } } });
    vec![
        (label.clone(), "/metadata/labels/team", json!("edge")),
        (label, "/metadata/labels/app", json!("j")),
        (annotations.clone(), "/metadata/annotations/a", json!("b")),
        (annotations, "/metadata/annotations/linkerd.io~1inject", json!("disabled")),
    ]
}

fn in_the_pod() -> Vec<Row> {
    let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "k", "operator": "Exists" }] }],
    } } });
    let spread =
        json!([{ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule" }]);
    let volumes = json!([
        { "name": "a", "emptyDir": { "sizeLimit": "1Gi" } },
        { "name": "b", "configMap": { "name": "c" } },
        { "name": "d", "secret": { "secretName": "s" } },
        { "name": "e", "persistentVolumeClaim": { "claimName": "p" } },
    ]);
    vec![
        (spec(json!({ "nodeSelector": { "a": "b" } })), "/spec/nodeSelector", json!({ "a": "b" })),
        (
            spec(json!({ "tolerations": [{ "operator": "Exists" }] })),
            "/spec/tolerations",
            json!([{ "operator": "Exists" }]),
        ),
        (spec(json!({ "affinity": affinity })), "/spec/affinity", affinity),
        (
            spec(json!({ "topologySpreadConstraints": spread })),
            "/spec/topologySpreadConstraints",
            spread,
        ),
        (spec(json!({ "priorityClassName": "p" })), "/spec/priorityClassName", json!("p")),
        (
            spec(json!({ "imagePullSecrets": [{ "name": "s" }] })),
            "/spec/imagePullSecrets/0/name",
            json!("s"),
        ),
        (spec(json!({ "runtimeClassName": "kata" })), "/spec/runtimeClassName", json!("kata")),
        (
            spec(json!({ "dnsConfig": { "nameservers": ["10.0.0.10"] } })),
            "/spec/dnsConfig/nameservers/0",
            json!("10.0.0.10"),
        ),
        (spec(user()), "/spec/securityContext/runAsUser", json!(7)),
        (spec(user()), ROOT_USER, json!(false)),
        (spec(user()), "/spec/securityContext/seccompProfile/type", json!("RuntimeDefault")),
        (spec(json!({ "volumes": volumes })), "/spec/volumes/0/name", json!("tls")),
        (spec(json!({ "volumes": volumes })), "/spec/volumes/3", volumes[0].clone()),
        (spec(json!({ "volumes": volumes })), "/spec/volumes/6", volumes[3].clone()),
    ]
}

fn in_the_container() -> Vec<Row> {
    let from = json!([
        { "name": "A", "value": "$(VERSION)" },
        { "name": "B", "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } },
        { "name": "C", "valueFrom": { "configMapKeyRef": { "name": "c", "key": "k" } } },
        { "name": "D", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } },
        { "name": "E", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } },
    ]);
    vec![
        (flash(user()), "/spec/containers/0/securityContext/runAsNonRoot", json!(false)),
        (flash(user()), "/spec/containers/0/securityContext/capabilities/drop/0", json!("ALL")),
        (flash(user()), ROOT_USER, json!(true)),
        (flash(json!({ "env": from })), "/spec/containers/0/env/13", from[0].clone()),
        (flash(json!({ "env": from })), "/spec/containers/0/env/17", from[4].clone()),
        (
            flash(json!({ "envFrom": [{ "secretRef": { "name": "s" } }] })),
            "/spec/containers/0/envFrom/0/configMapRef/name",
            json!("flashjob-flasher"),
        ),
        (
            flash(json!({ "envFrom": [{ "secretRef": { "name": "s" } }] })),
            "/spec/containers/0/envFrom/1/secretRef/name",
            json!("s"),
        ),
        (mounted_at("/tmp/big"), "/spec/containers/0/volumeMounts/3/mountPath", json!("/tmp/big")),
        (mounted_at("/ota-more"), "/spec/containers/0/volumeMounts/2/mountPath", json!("/tmp")),
        (
            flash(json!({ "imagePullPolicy": "Always" })),
            "/spec/containers/0/imagePullPolicy",
            json!("Always"),
        ),
        // As people write it in YAML.
        (
            flash(json!({ "name": flash_pod::CONTAINER, "resources": { "limits": { "cpu": 2 } } })),
            "/spec/containers/0/resources/limits/cpu",
            json!("2"),
        ),
    ]
}

#[test]
fn what_is_on_the_list_is_in_the_pod() {
    let table = [in_metadata(), in_the_pod(), in_the_container()].concat();
    for (template, at, expected) in table {
        let pod = with(&template, false);
        assert_eq!(pod.pointer(at), Some(&expected), "{template}: {at}");
        assert_eq!(pod["spec"]["containers"].as_array().unwrap().len(), 1);
        assert_eq!(pod["spec"]["restartPolicy"], "Never");
    }
}

#[test]
fn nothing_adds_nothing() {
    let nulls = json!({
        "metadata": { "creationTimestamp": null, "labels": null },
        "spec": { "hostPID": null, "restartPolicy": null, "tolerations": null, "containers": [null] },
    });
    for empty in [json!({}), nulls, json!({ "spec": null }), json!({ "metadata": {}, "spec": {} })]
    {
        assert_eq!(read(&empty, false), Ok(Template::default()));
        assert_eq!(with(&empty, false), serde_json::to_value(our_pod()).unwrap());
    }
    assert_eq!(with(&flash(json!({})), false), serde_json::to_value(our_pod()).unwrap());
}

#[test]
fn an_unsafe_template_may_do_what_a_pod_may() {
    let pod = with(
        &json!({ "spec": {
            "hostNetwork": true,
            "initContainers": [{ "name": "first", "image": "i", "restartPolicy": "Always" }],
            "volumes": [{ "name": "dev", "hostPath": { "path": "/dev" } }],
            "containers": [
                { "name": "sidecar", "image": "s", "env": [{ "name": "VERSION", "value": "1" }] },
                {
                    "securityContext": { "privileged": true, "allowPrivilegeEscalation": true },
                    "volumeMounts": [{ "name": "dev", "mountPath": "/ota/certs" }],
                    "command": ["debug"],
                },
            ],
        } }),
        true,
    );
    let table = [
        ("/spec/hostNetwork", json!(true)),
        ("/spec/initContainers/0/restartPolicy", json!("Always")),
        ("/spec/volumes/3/hostPath/path", json!("/dev")),
        ("/spec/containers/0/name", json!(flash_pod::CONTAINER)),
        ("/spec/containers/0/image", json!("i")),
        ("/spec/containers/0/command/0", json!("debug")),
        ("/spec/containers/0/securityContext/privileged", json!(true)),
        ("/spec/containers/0/securityContext/allowPrivilegeEscalation", json!(true)),
        ("/spec/containers/0/securityContext/capabilities/drop/0", json!("ALL")),
        ("/spec/containers/0/volumeMounts/3/mountPath", json!("/ota/certs")),
        ("/spec/containers/1/name", json!("sidecar")),
    ];
    for (at, expected) in table {
        assert_eq!(pod.pointer(at), Some(&expected), "{at}");
    }
}

/// The lists of what is ours are of the Pod that is really made.
#[test]
fn the_lists_are_those_of_the_pod() {
    let pod = our_pod();
    let spec = pod.spec.unwrap();
    let container = &spec.containers[0];
    let mut env: Vec<_> = container.env.iter().flatten().map(|EnvVar { name, .. }| name).collect();
    let mut own_env = flash_pod::env::ALL.to_vec();
    env.sort();
    own_env.sort();
    assert_eq!(env, own_env);
    assert!(spec.volumes.iter().flatten().map(|v| &v.name).eq(OWN_VOLUMES));
    assert!(container.volume_mounts.iter().flatten().map(|m| &m.mount_path).eq(OWN_MOUNTS));
    for key in pod.metadata.labels.iter().flat_map(BTreeMap::keys) {
        assert!(key.starts_with(GROUP) || OWN_LABELS.contains(&key.as_str()), "{key}");
    }
}
