//! What a pod template may say and what it may not, path by path.

use serde_json::{Value, json};

/// A template, a place in the Pod, and what is there; of a list, what one entry has.
pub type Row = (Value, &'static str, Value);

/// A template, and the path its refusal begins with.
pub type Refused = (Value, String);

pub fn metadata(metadata: Value) -> Value {
    json!({ "metadata": metadata })
}

pub fn spec(spec: Value) -> Value {
    json!({ "spec": spec })
}

pub fn flash(container: Value) -> Value {
    spec(json!({ "containers": [container] }))
}

pub fn volume(volume: Value) -> Value {
    spec(json!({ "volumes": [volume] }))
}

pub fn mounted_at(path: &str) -> Value {
    let mounts = json!([{ "name": "x", "mountPath": path }]);
    spec(json!({
        "volumes": [{ "name": "x", "emptyDir": {} }], "containers": [{ "volumeMounts": mounts }],
    }))
}

/// `class` is the name of a RuntimeClass and a PriorityClass that are there.
pub fn allowed(class: &str) -> Vec<Row> {
    let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "k", "operator": "Exists" }] }],
    } } });
    let spread = json!({ "maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule" });
    let keep = |key: &str, value: Value| spec(json!({ key: value }));
    let own = |key: &str, value: Value| flash(json!({ key: value }));
    let user = json!({ "runAsUser": 7, "runAsNonRoot": true });
    let mut rows = vec![
        (
            metadata(json!({ "labels": { "team": "a" } })),
            "/metadata/labels",
            json!({ "team": "a" }),
        ),
        (
            metadata(json!({ "annotations": { "a": "b" } })),
            "/metadata/annotations",
            json!({ "a": "b" }),
        ),
        (keep("nodeSelector", json!({ "a": "b" })), "/spec/nodeSelector", json!({ "a": "b" })),
        (
            keep("tolerations", json!([{ "operator": "Exists" }])),
            "/spec/tolerations",
            json!({ "operator": "Exists" }),
        ),
        (keep("affinity", affinity.clone()), "/spec/affinity", affinity),
        (
            keep("topologySpreadConstraints", json!([spread])),
            "/spec/topologySpreadConstraints",
            spread,
        ),
        (keep("priorityClassName", json!(class)), "/spec/priorityClassName", json!(class)),
        (
            keep("imagePullSecrets", json!([{ "name": "s" }])),
            "/spec/imagePullSecrets",
            json!({ "name": "s" }),
        ),
        (keep("runtimeClassName", json!(class)), "/spec/runtimeClassName", json!(class)),
        (
            keep("dnsConfig", json!({ "nameservers": ["10.0.0.10"] })),
            "/spec/dnsConfig/nameservers",
            json!("10.0.0.10"),
        ),
        (keep("securityContext", user.clone()), "/spec/securityContext", user.clone()),
        (own("securityContext", user.clone()), "/spec/containers/0/securityContext", user),
        (
            own("resources", json!({ "limits": { "cpu": 2 }, "requests": { "memory": "1Mi" } })),
            "/spec/containers/0/resources",
            json!({ "limits": { "cpu": "2" }, "requests": { "memory": "1Mi" } }),
        ),
        (
            own("imagePullPolicy", json!("Always")),
            "/spec/containers/0/imagePullPolicy",
            json!("Always"),
        ),
        (
            own("name", json!("flash-container")),
            "/spec/containers/0/name",
            json!("flash-container"),
        ),
        (
            mounted_at("/cache"),
            "/spec/containers/0/volumeMounts",
            json!({ "name": "x", "mountPath": "/cache" }),
        ),
        (
            mounted_at("/tmp/big"),
            "/spec/containers/0/volumeMounts",
            json!({ "name": "x", "mountPath": "/tmp/big" }),
        ),
    ];
    for source in [
        json!({ "emptyDir": { "sizeLimit": "1Gi" } }),
        json!({ "configMap": { "name": "c" } }),
        json!({ "secret": { "secretName": "s" } }),
        json!({ "persistentVolumeClaim": { "claimName": "p" } }),
    ] {
        let mut named = source;
        named["name"] = json!("mine");
        rows.push((volume(named.clone()), "/spec/volumes", named));
    }
    for source in
        [json!({ "configMapRef": { "name": "c" } }), json!({ "secretRef": { "name": "s" } })]
    {
        rows.push((own("envFrom", json!([source])), "/spec/containers/0/envFrom", source));
    }
    for source in [
        json!({ "value": "$(VERSION)" }),
        json!({ "valueFrom": { "secretKeyRef": { "name": "s", "key": "k" } } }),
        json!({ "valueFrom": { "configMapKeyRef": { "name": "c", "key": "k" } } }),
        json!({ "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }),
        json!({ "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } }),
    ] {
        let mut named = source;
        named["name"] = json!("MINE");
        rows.push((own("env", json!([named])), "/spec/containers/0/env", named));
    }
    rows
}

/// What is refused. The first list is a matter of trust, the second is not.
pub fn refused() -> (Vec<Refused>, Vec<Refused>) {
    let group = "application.flashjob.nbfc.io";
    let apparmor = "container.apparmor.security.beta.kubernetes.io/flash-container";
    let mut too_much = vec![
        (
            metadata(json!({ "annotations": { apparmor: "unconfined" } })),
            format!("metadata.annotations[{apparmor}]"),
        ),
        (
            volume(json!({ "name": "x", "hostPath": { "path": "/" } })),
            "spec.volumes[0].hostPath".into(),
        ),
        (
            volume(json!({ "name": "x", "nfs": { "server": "s", "path": "/" } })),
            "spec.volumes[0].nfs".into(),
        ),
        (volume(json!({ "name": "x", "projected": {} })), "spec.volumes[0].projected".into()),
        (volume(json!({ "name": "x", "csi": { "driver": "d" } })), "spec.volumes[0].csi".into()),
        (
            spec(json!({ "securityContext": { "runAsGroup": 0 } })),
            "spec.securityContext.runAsGroup".into(),
        ),
        (
            spec(json!({ "securityContext": { "sysctls": [] } })),
            "spec.securityContext.sysctls".into(),
        ),
        (flash(json!({ "name": "sidecar" })), "spec.containers[0].name".into()),
    ];
    for (key, value) in [
        ("hostPID", json!(true)),
        ("hostIPC", json!(true)),
        ("hostNetwork", json!(true)),
        ("nodeName", json!("n")),
        ("serviceAccountName", json!("admin")),
        ("automountServiceAccountToken", json!(true)),
        ("initContainers", json!([])),
        ("schedulerName", json!("x")),
        ("shareProcessNamespace", json!(true)),
        ("terminationGracePeriodSeconds", json!(0)),
    ] {
        too_much.push((spec(json!({ key: value })), format!("spec.{key}")));
    }
    for (key, value) in [
        ("image", json!("evil")),
        ("command", json!(["sh"])),
        ("args", json!([])),
        ("lifecycle", json!({})),
        ("ports", json!([])),
        ("volumeDevices", json!([])),
    ] {
        too_much.push((flash(json!({ key: value })), format!("spec.containers[0].{key}")));
    }
    for key in ["privileged", "allowPrivilegeEscalation"] {
        let path = format!("spec.containers[0].securityContext.{key}");
        too_much.push((flash(json!({ "securityContext": { key: true } })), path));
    }
    for path in ["/ota/certs", "ota//certs/", "/ota", "/", "/ota/certs/server.pem"] {
        too_much.push((mounted_at(path), "spec.containers[0].volumeMounts[0].mountPath".into()));
    }

    let mut ours = vec![
        (json!({ "kind": "Pod" }), "kind".to_owned()),
        (spec(json!({ "restartPolicy": "Always" })), "spec.restartPolicy".into()),
        (spec(json!({ "activeDeadlineSeconds": 5 })), "spec.activeDeadlineSeconds".into()),
        (flash(json!({ "restartPolicy": "Always" })), "spec.containers[0].restartPolicy".into()),
        (spec(json!({ "containers": [{}, {}] })), "spec.containers[1]".into()),
        (spec(json!({ "tolerations": [{ "kye": "a" }] })), "spec.tolerations[0].kye".into()),
        (spec(json!({ "tolerations": "x" })), "spec.tolerations".into()),
        (
            metadata(json!({ "annotations": { format!("{group}/ledger"): "x" } })),
            format!("metadata.annotations[{group}/ledger]"),
        ),
    ];
    for key in ["name", "namespace", "finalizers"] {
        ours.push((metadata(json!({ key: "x" })), format!("metadata.{key}")));
    }
    for label in ["app".to_owned(), "uuid".into(), format!("{group}/target")] {
        let path = format!("metadata.labels[{label}]");
        ours.push((metadata(json!({ "labels": { label: "x" } })), path));
    }
    for name in ["tls", "registry", "tmp"] {
        ours.push((volume(json!({ "name": name })), format!("spec.volumes[0].name {name}")));
    }
    for name in [
        "FIRMWARE",
        "UUID",
        "HOST_ENDPOINT",
        "DEVICE",
        "APPLICATION_TYPE",
        "VERSION",
        "EXTERNAL_IP",
        "PERMIT",
        "ATTEMPT",
        "PREVIOUS_VERSION",
        "VERIFY",
        "VERSION_POLICY",
        "DEADLINE_SECONDS",
    ] {
        let env = flash(json!({ "env": [{ "name": name, "value": "x" }] }));
        ours.push((env, format!("spec.containers[0].env[0].name {name}")));
    }
    for path in ["/var/run/flashjob/tls", "/var/run/flashjob/registry/", "tmp"] {
        let at = format!("spec.containers[0].volumeMounts[0].mountPath {path}");
        ours.push((mounted_at(path), at));
    }
    (too_much, ours)
}
