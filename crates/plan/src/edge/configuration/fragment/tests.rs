use flashjob_api::edge::wire;
use serde_json::json;

use super::super::material::tests::Namespace;
use super::*;

/// A workload that takes the variable from the key `key` of that Secret.
pub fn workload(secret: Option<&str>) -> WorkloadSpec {
    let env = secret.map(|name| {
        json!([{ "name": "A", "valueFrom": { "secretKeyRef": { "name": name, "key": "key" } } }])
    });
    let pod = json!({ "spec": { "containers": [{ "name": "main", "image": "i", "env": env }] } });
    serde_json::from_value(json!({ "pod": pod })).unwrap()
}

/// What a workload of that name is sent as.
pub fn render(name: &str, spec: &WorkloadSpec, from: &dyn Material) -> Result<Fragment, Lack> {
    let none = BTreeMap::new();
    let (labels, annotations) = (&none, &none);
    fragment(&WorkloadInput { namespace: "default", name, labels, annotations, spec }, from)
}

/// A workload whose spec is that, in a namespace without anything.
pub fn rendered(spec: Value) -> Fragment {
    render("nginx", &serde_json::from_value(spec).unwrap(), &Namespace::default()).unwrap()
}

fn sent(fragment: &Fragment) -> wire::Workload {
    serde_json::from_str(&fragment.json).unwrap()
}

/// A pod with that in its only container, beside those volumes.
fn pod(container: Value, volumes: Value) -> WorkloadSpec {
    let spec = json!({ "containers": [container], "volumes": volumes });
    serde_json::from_value(json!({ "pod": { "spec": spec } })).unwrap()
}

fn problems(spec: &WorkloadSpec, namespace: &Namespace) -> Vec<(EdgeReason, String)> {
    match render("nginx", spec, namespace) {
        Err(Lack::Problems(problems)) => {
            problems.into_iter().map(|problem| (problem.reason, problem.message)).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_that_is_missing_is_said_with_its_name_and_who_needs_it() {
    let spec = pod(
        json!({
            "envFrom": [{ "secretRef": { "name": "s1" } }, { "configMapRef": { "name": "c1" } }],
            "env": [
                { "valueFrom": { "secretKeyRef": { "name": "there", "key": "no" } } },
                { "valueFrom": { "configMapKeyRef": { "name": "map", "key": "no" } } }
            ]
        }),
        json!([{ "secret": { "secretName": "there", "items": [{ "key": "no", "path": "a" }] } }]),
    );
    let namespace = Namespace::default()
        .secret("there", &[("key", "hunter2")])
        .config_map("map", &[("key", "value")]);
    let container = "spec.pod.spec.containers[0]";
    let said = [
        (
            EdgeReason::SecretMissing,
            format!("there is no Secret default/s1; {container}.envFrom[0].secretRef needs it"),
        ),
        (
            EdgeReason::SecretKeyMissing,
            format!(
                "the Secret default/there has no key no; \
                 {container}.env[0].valueFrom.secretKeyRef needs it"
            ),
        ),
        (
            EdgeReason::SecretKeyMissing,
            "the Secret default/there has no key no; \
             spec.pod.spec.volumes[0].secret.items[0] needs it"
                .into(),
        ),
        (
            EdgeReason::ConfigMapMissing,
            format!(
                "there is no ConfigMap default/c1; {container}.envFrom[1].configMapRef needs it"
            ),
        ),
        (
            EdgeReason::ConfigMapKeyMissing,
            format!(
                "the ConfigMap default/map has no key no; \
                 {container}.env[1].valueFrom.configMapKeyRef needs it"
            ),
        ),
    ];
    assert_eq!(problems(&spec, &namespace), said);
}

#[test]
fn what_is_optional_may_be_missing_and_is_sent_where_it_is_there() {
    let env = |name: &str, field: &str| {
        let optional = json!({ "name": name, "key": "no", "optional": true });
        json!({ "valueFrom": { field: optional } })
    };
    let spec = pod(
        json!({
            "envFrom": [{ "secretRef": { "name": "gone", "optional": true } }],
            "env": [env("s", "secretKeyRef"), env("gone", "configMapKeyRef")]
        }),
        json!([{ "configMap": { "name": "c", "optional": true, "items": [{ "key": "no" }] } }]),
    );
    let namespace = Namespace::default().secret("s", &[("a", "b")]).config_map("c", &[]);
    let fragment = render("nginx", &spec, &namespace).unwrap();
    assert_eq!(fragment.secrets.iter().map(|secret| &secret.name).collect::<Vec<_>>(), ["s"]);
    assert_eq!(sent(&fragment).configmaps.len(), 1);
}

#[test]
fn who_may_miss_a_secret_does_not_speak_for_who_may_not() {
    let reference = |optional: bool| json!({ "secretRef": { "name": "s", "optional": optional } });
    let spec = pod(json!({ "envFrom": [reference(true), reference(false)] }), json!([]));
    assert_eq!(problems(&spec, &Namespace::default())[0].0, EdgeReason::SecretMissing);
}

#[test]
fn what_was_not_read_yet_is_waited_for_whatever_else_is_missing() {
    let namespace = Namespace::default().unread("s");
    let unread =
        |spec: &WorkloadSpec| matches!(render("nginx", spec, &namespace), Err(Lack::Unread(_)));
    assert!(unread(&workload(Some("s"))));
    let optional = json!({ "secretRef": { "name": "s", "optional": true } });
    assert!(unread(&pod(
        json!({ "envFrom": [optional, { "secretRef": { "name": "gone" } }] }),
        json!([])
    )));
}

#[test]
fn a_secret_changes_what_is_sent_and_an_edit_of_another_does_not() {
    let versions = |value: &str| {
        let namespace =
            Namespace::default().secret("s", &[("key", value)]).secret("o", &[("k", value)]);
        let with = render("nginx", &workload(Some("s")), &namespace).unwrap();
        let without = render("nginx", &workload(None), &namespace).unwrap();
        (with.secrets[0].hash, with.hash, without.hash)
    };
    let (before, after) = (versions("a"), versions("b"));
    assert_ne!(before.0, after.0);
    assert_eq!((before.1, before.2), (after.1, after.2));
}

#[test]
fn no_sentence_and_no_log_has_what_is_in_a_secret() {
    let spec: WorkloadSpec = serde_json::from_value(json!({
        "imageRegistries": { "secretRef": { "name": "login" } },
        "metrics": { "port": 1, "allowList": { "name": "list" } }
    }))
    .unwrap();
    let namespace = Namespace::default()
        .secret("login", &[(".dockerconfigjson", "")])
        .config_map("list", &[("metrics_list.yaml", "names: [hunter2")]);
    let said = problems(&spec, &namespace);
    assert_eq!(
        said,
        [
            (
                EdgeReason::SecretKeyMissing,
                ".dockerconfigjson of the Secret default/login is empty or too long; \
                 spec.imageRegistries.secretRef needs it"
                    .into()
            ),
            (
                EdgeReason::ConfigMapKeyMissing,
                "metrics_list.yaml of the ConfigMap default/list is not YAML of the form \
                 `names: [a, b]`; spec.metrics.allowList needs it"
                    .into()
            ),
        ]
    );
    let namespace = Namespace::default().secret("s", &[("key", "hunter2")]);
    let fragment = render("nginx", &workload(Some("s")), &namespace).unwrap();
    let shown = format!("{fragment:?} {:?}", fragment.secrets);
    assert!(!shown.contains("hunter2") && !shown.contains("aHVudGVyMg"), "{shown}");
}

#[test]
fn a_spec_that_names_a_thousand_missing_things_says_some_of_them_and_always_the_same() {
    let from: Vec<_> =
        (0..1000).map(|i| json!({ "secretRef": { "name": format!("s{i}") } })).collect();
    let spec = pod(json!({ "envFrom": from }), json!([]));
    let said = problems(&spec, &Namespace::default());
    assert_eq!(said.len(), 16);
    assert_eq!(said, problems(&spec, &Namespace::default()));
}

#[test]
fn a_name_that_no_object_can_have_is_missing_and_nobody_is_asked_for_it() {
    struct Nobody;
    impl Material for Nobody {
        fn secret(&self, _: &str, name: &str) -> super::super::Found<SecretData> {
            panic!("asked for {name}")
        }
        fn config_map(&self, _: &str, name: &str) -> super::super::Found<ConfigMapData> {
            panic!("asked for {name}")
        }
    }
    let rendered = render("nginx", &workload(Some("../x\n")), &Nobody);
    let Err(Lack::Problems(said)) = rendered else { panic!() };
    assert!(said[0].message.starts_with(r#"there is no Secret default/"../x\n"; "#), "{said:?}");
}

#[test]
fn the_older_name_of_egress_counts_too_and_nothing_twice() {
    let path = |source: &str| json!({ "source": source, "target": "t" });
    let fragment = rendered(json!({
        "data": { "egress": [path("a")], "paths": [path("a"), path("b")], "ingress": null }
    }));
    let sent: Value = serde_json::from_str(&fragment.json).unwrap();
    assert_eq!(sent["data"], json!({ "egress": [path("a"), path("b")], "ingress": [] }));
    assert_eq!(serde_json::from_str::<Value>(&rendered(json!({})).json).unwrap().get("data"), None);
}

#[test]
fn metrics_need_a_port_and_have_defaults() {
    let metrics = |metrics: Value| {
        let containers = json!([{ "name": "a" }, { "name": "b" }]);
        let spec = json!({ "pod": { "spec": { "containers": containers } }, "metrics": metrics });
        serde_json::from_str::<Value>(&rendered(spec).json).unwrap()["metrics"].clone()
    };
    let cases = [
        (json!({ "path": "/m", "interval": 5 }), json!(null)),
        (json!({ "port": 0, "containers": { "a": { "path": "/m" } } }), json!(null)),
        (json!({ "port": 80 }), json!({ "path": "/", "port": 80, "interval": 60 })),
        (
            json!({
                "port": 80, "interval": 0,
                "containers": { "a": { "path": "/m" }, "b": { "disabled": true } }
            }),
            json!({
                "path": "/", "port": 80, "interval": 60,
                "containers": {
                    "a": { "path": "/m", "port": 80 },
                    "b": { "disabled": true, "path": "/", "port": 80 }
                }
            }),
        ),
        (
            // The agent would go to port 0 of b.
            json!({ "interval": 5, "containers": { "a": { "port": 81 } } }),
            json!({
                "path": "/", "interval": 5,
                "containers": { "a": { "path": "/", "port": 81 }, "b": { "disabled": true } }
            }),
        ),
    ];
    for (said, wanted) in cases {
        assert_eq!(metrics(said.clone()), wanted, "{said}");
    }
}

#[test]
fn a_workload_of_any_size_is_refused_before_it_is_written_out() {
    let volume = |name: &str| json!({ "configMap": { "name": name } });
    let big = "x".repeat(LARGEST_WORKLOAD / 2 - 4096);
    let namespace =
        Namespace::default().config_map("a", &[("k", &big)]).config_map("b", &[("k", &big)]);
    let fits = pod(json!({}), json!([volume("a"), volume("b")]));
    assert_eq!(sent(&render("nginx", &fits, &namespace).unwrap()).configmaps.len(), 2);
    let namespace = namespace.config_map("c", &[("k", &"x".repeat(8192))]);
    let larger = pod(json!({}), json!([volume("a"), volume("b"), volume("c")]));
    assert_eq!(problems(&larger, &namespace)[0].0, EdgeReason::TooLarge);
    // Each of these is two bytes longer in YAML, and three in the JSON around it.
    let namespace =
        Namespace::default().config_map("a", &[("k", &"\n".repeat(LARGEST_WORKLOAD / 2))]);
    let written = pod(json!({}), json!([volume("a")]));
    assert_eq!(problems(&written, &namespace)[0].0, EdgeReason::TooLarge);
}
