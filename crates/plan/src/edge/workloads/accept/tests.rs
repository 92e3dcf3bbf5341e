use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::tests::{labels, pod, workload};
use super::*;

/// What is said of a workload with this spec, if it is refused.
fn refusal(spec: &Value) -> Option<String> {
    let problem = accept(&workload("web", spec)).err()?;
    assert_eq!(problem.reason, EdgeReason::InvalidSpec, "{spec}");
    Some(problem.message)
}

/// The same for a PodSpec with these fields more.
fn pod_refusal(more: Value) -> Option<String> {
    let mut spec = json!({ "pod": pod() });
    merge(&mut spec["pod"]["spec"], more);
    refusal(&spec)
}

/// And for a second container with these fields more.
fn container_refusal(more: &Value) -> Option<String> {
    let mut second = json!({ "name": "side", "image": "busybox" });
    merge(&mut second, more.clone());
    pod_refusal(json!({ "containers": [{ "name": "web", "image": "nginx" }, second] }))
}

fn merge(into: &mut Value, more: Value) {
    let (Value::Object(into), Value::Object(more)) = (into, more) else { panic!("no objects") };
    into.extend(more);
}

fn assert_refused(refusal: Option<String>, wanted: &str) {
    let refusal = refusal.unwrap_or_else(|| panic!("accepted; wanted: {wanted}"));
    assert!(refusal.starts_with(wanted), "{refusal}\nwanted: {wanted}");
}

#[test]
fn what_devices_do_not_do_in_a_container_is_refused_with_its_path() {
    let probe = json!({ "httpGet": { "path": "/", "port": 80 } });
    let field =
        |field: &str| json!([{ "name": "A", "valueFrom": { field: { "fieldPath": "x" } } }]);
    let port =
        |host: u16| json!([{ "containerPort": 1 }, { "containerPort": 80, "hostPort": host }]);
    for (field, value, wanted) in [
        ("livenessProbe", probe.clone(), "livenessProbe: devices do not probe; take it out"),
        ("readinessProbe", probe.clone(), "readinessProbe: devices do not probe; take it out"),
        ("startupProbe", probe, "startupProbe: devices do not probe; take it out"),
        ("lifecycle", json!({ "preStop": {} }), "lifecycle: devices run no hooks; take it out"),
        ("volumeDevices", json!([{ "name": "a" }]), "volumeDevices: devices give containers no"),
        ("env", field("fieldRef"), "env[0].valueFrom.fieldRef: devices do not know it"),
        ("env", field("resourceFieldRef"), "env[0].valueFrom.resourceFieldRef: devices do not"),
        ("ports", port(9100), "ports[1].hostPort: is where devices have metrics of their own"),
    ] {
        let more = json!({ field: value });
        assert_refused(container_refusal(&more), &format!("spec.pod.spec.containers[1].{wanted}"));
        let mut first = json!({ "name": "first", "image": "busybox" });
        merge(&mut first, more);
        let refusal = pod_refusal(json!({ "initContainers": [first] }));
        assert_refused(refusal, &format!("spec.pod.spec.initContainers[0].{wanted}"));
        assert_eq!(container_refusal(&json!({ field: null })), None, "null is absent");
    }
    assert_eq!(container_refusal(&json!({ "ports": port(9101), "volumeDevices": [] })), None);
}

#[test]
fn a_container_that_cannot_be_read_is_refused_with_its_path() {
    let env = |entry: Value| json!({ "env": [entry] });
    let from = |from: Value| json!({ "env": [{ "name": "A", "valueFrom": from }] });
    let key = |key: Value| from(json!({ "secretKeyRef": key }));
    let env_from = |from: Value| json!({ "envFrom": [from] });
    for (more, wanted) in [
        (json!({ "name": null }), "name: is missing"),
        (json!({ "name": "" }), "name: has to be 1 to 63 letters"),
        (json!({ "name": "../up" }), "name: has to be 1 to 63 letters"),
        (json!({ "name": "web" }), "name: there is another container web"),
        (json!({ "name": 7 }), "name: has to be a text"),
        (json!({ "image": null }), "image: is missing"),
        (json!({ "image": "" }), "image: is empty"),
        (json!({ "command": "sh" }), "command: has to be a list"),
        (json!({ "args": ["-c", 1] }), "args[1]: has to be a text; put it in quotes"),
        (json!({ "env": { "A": "b" } }), "env: has to be a list"),
        (env(json!("A=b")), "env[0]: has to be an object"),
        (env(json!(null)), "env[0]: has to be an object"),
        (env(json!({ "value": "b" })), "env[0].name: is missing"),
        (
            env(json!({ "name": "A", "value": 1 })),
            "env[0].value: has to be a text; put it in quotes",
        ),
        (from(json!({})), "env[0].valueFrom: has to be secretKeyRef or configMapKeyRef"),
        (from(json!({ "fileKeyRef": {} })), "env[0].valueFrom.fileKeyRef: devices do not know it"),
        (
            from(json!({
                "secretKeyRef": { "name": "a", "key": "b" },
                "configMapKeyRef": { "name": "a", "key": "b" },
            })),
            "env[0].valueFrom: has to be secretKeyRef or configMapKeyRef",
        ),
        (key(json!("a")), "env[0].valueFrom.secretKeyRef: has to be an object"),
        (key(json!({ "name": "a" })), "env[0].valueFrom.secretKeyRef.key: is missing"),
        (key(json!({ "key": "a" })), "env[0].valueFrom.secretKeyRef.name: is missing"),
        (
            key(json!({ "key": "a", "name": "../../kube-system/secrets/a" })),
            "env[0].valueFrom.secretKeyRef.name: is not the name of an object",
        ),
        (
            key(json!({ "key": "a", "name": "a", "optional": "yes" })),
            "env[0].valueFrom.secretKeyRef.optional: has to be true or false",
        ),
        (env_from(json!({})), "envFrom[0]: has to be secretRef or configMapRef"),
        (env_from(json!({ "prefix": 1 })), "envFrom[0].prefix: has to be a text"),
        (env_from(json!({ "secretRef": {} })), "envFrom[0].secretRef.name: is missing"),
        (
            env_from(json!({ "configMapRef": { "name": "A" } })),
            "envFrom[0].configMapRef.name: is not",
        ),
        (env_from(json!({ "fieldRef": {} })), "envFrom[0].fieldRef: devices do not know it"),
    ] {
        let wanted = format!("spec.pod.spec.containers[1].{wanted}");
        assert_refused(container_refusal(&more), &wanted);
    }
}

#[test]
fn a_port_that_is_none_is_refused_with_its_path() {
    let port = |port: Value| json!({ "ports": [{ "containerPort": port }] });
    for (more, wanted) in [
        (json!({ "ports": 80 }), "ports: has to be a list"),
        (json!({ "ports": [80] }), "ports[0]: has to be an object"),
        (json!({ "ports": [{ "hostPort": 80 }] }), "ports[0].containerPort: is missing"),
        (port(json!("80")), "ports[0].containerPort: has to be a number from 1 to 65535"),
        (port(json!(0)), "ports[0].containerPort: has to be a number from 1 to 65535"),
        (port(json!(65536)), "ports[0].containerPort: has to be a number from 1 to 65535"),
        (
            json!({ "ports": [{ "containerPort": 80, "hostPort": -1 }] }),
            "ports[0].hostPort: has to be a number from 0 to 65535",
        ),
    ] {
        let wanted = format!("spec.pod.spec.containers[1].{wanted}");
        assert_refused(container_refusal(&more), &wanted);
    }
}

#[test]
fn a_pod_that_devices_cannot_run_is_refused_with_its_path() {
    let volume = |volume: Value| json!({ "volumes": [volume] });
    let many: Vec<Value> =
        (0..101).map(|n| json!({ "name": format!("c{n}"), "image": "a" })).collect();
    for (more, wanted) in [
        (json!({ "containers": null }), ": has no containers"),
        (json!({ "containers": [] }), ": has no containers"),
        (json!({ "containers": {} }), ".containers: has to be a list"),
        (json!({ "containers": ["web"] }), ".containers[0]: has to be an object"),
        (json!({ "containers": many }), ": has more than 100 containers"),
        (
            json!({ "initContainers": [{ "name": "web", "image": "a" }] }),
            ".containers[0].name: there is another container web",
        ),
        (json!({ "ephemeralContainers": [{}] }), ".ephemeralContainers: devices have none"),
        (json!({ "restartPolicy": "Sometimes" }), ".restartPolicy: has to be Always, OnFailure or"),
        (json!({ "volumes": "a" }), ".volumes: has to be a list"),
        (volume(json!({ "emptyDir": {} })), ".volumes[0].name: is missing"),
        (volume(json!({ "name": "a" })), ".volumes[0]: has to be one of hostPath, emptyDir"),
        (
            volume(json!({ "name": "a", "emptyDir": {}, "hostPath": { "path": "/" } })),
            ".volumes[0]: has to be one of hostPath, emptyDir",
        ),
        (
            volume(json!({ "name": "a", "nfs": {} })),
            ".volumes[0].nfs: devices have no such volumes",
        ),
        (volume(json!({ "name": "a", "projected": {} })), ".volumes[0].projected: devices have no"),
        (volume(json!({ "name": "a", "csi": {} })), ".volumes[0].csi: devices have no such"),
        (volume(json!({ "name": "a", "downwardAPI": {} })), ".volumes[0].downwardAPI: devices"),
        (
            volume(json!({ "name": "a", "emptyDir": 1 })),
            ".volumes[0].emptyDir: has to be an object",
        ),
        (volume(json!({ "name": "a", "hostPath": {} })), ".volumes[0].hostPath.path: is missing"),
        (volume(json!({ "name": "a", "configMap": {} })), ".volumes[0].configMap.name: is missing"),
        (
            volume(json!({ "name": "a", "configMap": { "name": "b", "items": [{ "key": "c" }] } })),
            ".volumes[0].configMap.items[0].path: is missing",
        ),
        (
            volume(json!({ "name": "a", "secret": { "secretName": "a/b" } })),
            ".volumes[0].secret.secretName: is not the name of an object",
        ),
        (
            volume(json!({ "name": "a", "persistentVolumeClaim": {} })),
            ".volumes[0].persistentVolumeClaim.claimName: is missing",
        ),
    ] {
        assert_refused(pod_refusal(more), &format!("spec.pod.spec{wanted}"));
    }
}

#[test]
fn what_the_rest_of_a_spec_gets_wrong_is_refused_with_its_path() {
    let folder = |source: &str| json!({ "egress": [{ "source": source, "target": "." }] });
    let data = |data: Value| json!({ "data": data });
    let metrics = |metrics: Value| json!({ "metrics": metrics });
    let fine = json!({ "source": "a", "target": "b" });
    for (more, wanted) in [
        (json!({ "pod": null }), "spec.pod.spec: is missing"),
        (json!({ "pod": {} }), "spec.pod.spec: is missing"),
        (json!({ "pod": { "spec": [] } }), "spec.pod.spec: cannot be read: invalid type"),
        (json!({ "type": "ansible" }), "spec.type: devices run nothing but pods"),
        (json!({ "type": "" }), "spec.type: devices run nothing but pods"),
        (
            json!({ "device": "a".repeat(254) }),
            "spec.device: is longer than the name of any device",
        ),
        (
            json!({ "deviceSelector": { "matchLabels": { "a b": "" } } }),
            "spec.deviceSelector.match",
        ),
        (data(folder("")), "spec.data.egress[0].source: is missing; the folder itself is ."),
        (data(folder("/etc")), "spec.data.egress[0].source: must not begin with a slash"),
        (data(folder("a/../../b")), "spec.data.egress[0].source: must not lead out of the folder"),
        (data(folder("..")), "spec.data.egress[0].source: must not lead out of the folder"),
        (data(folder("a\0")), "spec.data.egress[0].source: has a character that no path has"),
        (data(folder(&"a".repeat(1025))), "spec.data.egress[0].source: is longer than any path"),
        (data(json!({ "ingress": [fine, { "source": "a" }] })), "spec.data.ingress[1].target: is"),
        (
            data(json!({ "paths": [{ "source": "a", "target": "/" }] })),
            "spec.data.paths[0].target: ",
        ),
        (data(json!({ "paths": vec![fine; 257] })), "spec.data.paths: has more than 256 entries"),
        (
            json!({ "imageRegistries": { "secretRef": { "name": "a/b" } } }),
            "spec.imageRegistries.secretRef.name: is not the name of an object",
        ),
        (
            metrics(json!({ "port": 65536 })),
            "spec.metrics.port: has to be a number from 0 to 65535",
        ),
        (metrics(json!({ "allowList": { "name": "?" } })), "spec.metrics.allowList.name: is not"),
        (
            metrics(json!({ "containers": { "web": { "port": -1 } } })),
            "spec.metrics.containers.web.port: has to be a number",
        ),
    ] {
        let mut spec = json!({ "pod": pod() });
        merge(&mut spec, more);
        assert_refused(refusal(&spec), wanted);
    }
}

#[test]
fn all_that_devices_can_do_is_accepted() {
    let container = json!({
        "name": "web", "image": "nginx", "command": ["sh"], "args": [],
        "resources": { "limits": { "cpu": 1 }, "requests": { "memory": "1Gi" } },
        "env": [
            { "name": "A", "value": "" }, { "name": "B" },
            { "name": "C", "valueFrom": { "secretKeyRef": { "name": "s.1", "key": "k" } } },
            { "name": "D", "valueFrom": { "configMapKeyRef":
                { "name": "c", "key": "k", "optional": true }, "fieldRef": null } },
        ],
        "envFrom": [
            { "prefix": "P_", "secretRef": { "name": "s" } },
            { "configMapRef": { "name": "c" } },
        ],
        "ports": [
            { "containerPort": 80, "hostPort": 8080, "protocol": "TCP" },
            { "containerPort": 81 },
        ],
        "volumeMounts": [{ "name": "a", "mountPath": "/a" }],
        "livenessProbe": null,
    });
    let volumes = json!([
        { "name": "a", "hostPath": { "path": "/a", "type": "File" } },
        { "name": "b", "emptyDir": {} },
        { "name": "c", "configMap": { "name": "c", "items": [{ "key": "k", "path": "p" }] } },
        { "name": "d", "secret": { "secretName": "s", "optional": false }, "nfs": null },
        { "name": "e", "persistentVolumeClaim": { "claimName": "p" } },
    ]);
    let spec = json!({
        "type": "pod", "device": "", "deviceSelector": {},
        "pod": { "spec": {
            "containers": [container], "initContainers": null, "ephemeralContainers": [],
            "volumes": volumes, "imagePullSecrets": [{ "name": "x" }], "restartPolicy": "Never",
            "hostNetwork": true, "whatever": { "else": [1] },
        } },
        "data": { "egress": [
            { "source": ".", "target": "a/b/" },
            { "source": "..a", "target": "." },
        ] },
        "imageRegistries": { "secretRef": { "name": "" } },
        "metrics": { "port": 0, "containers": { "web": { "port": 65535 } } },
    });
    let facts = workload("web", &spec);
    let accepted = accept(&facts).unwrap();
    assert!(accepted.ends && accepted.target.chooses("any", &labels("a=b")));
    assert!(Arc::ptr_eq(&accepted.spec, facts.spec.as_ref().unwrap()), "nothing is copied");
    assert!(!accept(&workload("web", &json!({ "pod": pod() }))).unwrap().ends);
}

#[test]
fn a_name_has_to_be_one_that_a_label_can_have() {
    let of_name = |name: &str| accept(&workload(name, &json!({ "pod": pod() })));
    assert!(of_name(&"a".repeat(63)).is_ok() && of_name("a.b-1").is_ok());
    let long = of_name(&"a".repeat(64)).unwrap_err();
    assert_eq!(long.reason, EdgeReason::NameTooLong);
    assert!(long.message.starts_with("metadata.name: has 64 characters"), "{}", long.message);
    for name in ["", "a/b", "-a", "a\n"] {
        assert_eq!(of_name(name).unwrap_err().reason, EdgeReason::InvalidSpec, "{name:?}");
    }
}

#[test]
fn a_spec_is_not_longer_than_devices_take_and_a_sentence_than_people_do() {
    let command = |length: usize| json!({ "command": ["a".repeat(length)] });
    assert_eq!(container_refusal(&command(250 * 1024)), None);
    assert_refused(container_refusal(&command(256 * 1024)), "spec: has 262");
    let long = json!({ "type": "ä".repeat(9_000), "deviceSelector": "ä".repeat(90_000) });
    let refusal = refusal(&long).unwrap();
    assert!(refusal.starts_with("spec.deviceSelector: cannot be read"), "{refusal}");
    assert_eq!(refusal.chars().count(), 1025, "{refusal}");
}

#[test]
fn what_is_in_an_environment_is_never_repeated() {
    for value in [json!(42_424_242), json!({ "x": "hunter2-42424242" }), json!(["42424242"])] {
        let refusal = container_refusal(&json!({ "env": [{ "name": "A", "value": value }] }));
        assert!(!refusal.clone().unwrap().contains("42424242"), "{refusal:?}");
    }
}

#[test]
fn a_device_by_its_name_wins_over_any_selector() {
    let target = |more: Value| {
        let mut spec = json!({ "pod": pod() });
        merge(&mut spec, more);
        accept(&workload("web", &spec)).unwrap().target
    };
    let chosen = |target: &Target| -> BTreeSet<&str> {
        let devices = [("one", "site=a"), ("two", "site=b")];
        let chosen = devices.iter().filter(|(name, of)| target.chooses(name, &labels(of)));
        chosen.map(|(name, _)| *name).collect()
    };
    let site_b = json!({ "matchLabels": { "site": "b" } });
    for (spec, wanted) in [
        (json!({ "device": "one", "deviceSelector": site_b }), "one"),
        (json!({ "device": "one", "deviceSelector": { "matchLabels": { "?": "" } } }), "one"),
        (json!({ "device": "three", "deviceSelector": {} }), ""),
        (json!({ "deviceSelector": site_b }), "two"),
        (json!({ "device": "", "deviceSelector": {} }), "one two"),
        (json!({ "deviceSelector": { "matchLabels": null, "matchExpressions": [] } }), "one two"),
        (json!({ "deviceSelector": null }), ""),
        (json!({}), ""),
    ] {
        let wanted: BTreeSet<&str> = wanted.split_whitespace().collect();
        assert_eq!(chosen(&target(spec.clone())), wanted, "{spec}");
    }
}

#[test]
fn one_pod_for_other_devices_is_the_same_pod() {
    let with = |more: Value| {
        let mut spec = json!({ "pod": pod(), "device": "one" });
        merge(&mut spec, more);
        accept(&workload("web", &spec)).unwrap()
    };
    let one = with(json!({}));
    assert!(one.is_same_pod(&with(json!({ "device": null, "deviceSelector": {} }))));
    assert!(!one.is_same_pod(&with(json!({ "logCollection": "syslog" }))));
    assert!(!one.is_same_pod(&Accepted { labels: labels("a=b"), ..one.clone() }));
    assert!(!one.is_same_pod(&Accepted { annotations: labels("a=b"), ..one.clone() }));
}
