use serde_json::{Value, json};

use super::super::tests::labels;
use super::*;

fn read(selector: Value) -> Result<Selector, Problem> {
    Selector::read(&serde_json::from_value(selector).unwrap())
}

fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] })
}

#[test]
fn every_operator_chooses_as_in_kubernetes() {
    let device = labels("site=athens spare= device.cpu-architecture=arm64 flotta/member-of=line");
    for (selector, chosen) in [
        (json!({}), true),
        (json!({ "matchLabels": {}, "matchExpressions": [] }), true),
        (json!({ "matchLabels": { "site": "athens", "spare": "" } }), true),
        (json!({ "matchLabels": { "site": "athens", "other": "" } }), false),
        (json!({ "matchLabels": { "site": "patras" } }), false),
        (json!({ "matchLabels": { "device.cpu-architecture": "arm64" } }), true),
        (json!({ "matchLabels": { "flotta/member-of": "line" } }), true),
        (expression("site", "In", &["patras", "athens"]), true),
        (expression("site", "In", &["patras"]), false),
        (expression("other", "In", &["", "athens"]), false),
        (expression("site", "NotIn", &["patras"]), true),
        (expression("site", "NotIn", &["patras", "athens"]), false),
        (expression("other", "NotIn", &["athens"]), true),
        (expression("spare", "Exists", &[]), true),
        (expression("other", "Exists", &[]), false),
        (expression("spare", "DoesNotExist", &[]), false),
        (expression("other", "DoesNotExist", &[]), true),
        (
            json!({
                "matchLabels": { "site": "athens" },
                "matchExpressions": [
                    { "key": "spare", "operator": "Exists", "values": null },
                    { "key": "site", "operator": "NotIn", "values": ["athens"] },
                ],
            }),
            false,
        ),
    ] {
        assert_eq!(read(selector.clone()).unwrap().matches(&device), chosen, "{selector}");
    }
}

#[test]
fn what_cannot_be_meant_is_refused_with_its_path() {
    let pair = |key: &str, value: &str| json!({ "matchLabels": { key: value } });
    let many: Vec<Value> =
        (0..65).map(|n| json!({ "key": format!("k{n}"), "operator": "Exists" })).collect();
    let long = "a".repeat(64);
    for (selector, wanted) in [
        (pair("", "a"), "matchLabels: \"\" is not the name of a label"),
        (pair("a b", "a"), "matchLabels: \"a b\" is not the name of a label"),
        (pair("/a", "a"), "matchLabels: \"/a\" is not the name of a label"),
        (pair("A.b/c", "a"), "matchLabels: \"A.b/c\" is not the name of a label"),
        (pair("a/b/c", "a"), "matchLabels: \"a/b/c\" is not the name of a label"),
        (pair(&long, "a"), "matchLabels: \"aaaa"),
        (pair("a", "b c"), "matchLabels.a: \"b c\" cannot be the value of a label"),
        (pair("a", &long), "matchLabels.a: \"aaaa"),
        (expression("a", "In", &[]), "matchExpressions[0].values: is empty"),
        (expression("a", "NotIn", &[]), "matchExpressions[0].values: is empty"),
        (expression("a", "In", &["b", "c d"]), "matchExpressions[0].values: \"c d\" cannot be"),
        (expression("a", "Exists", &["b"]), "matchExpressions[0].values: has values"),
        (expression("a", "DoesNotExist", &["b"]), "matchExpressions[0].values: has values"),
        (expression("a", "in", &["b"]), "matchExpressions[0].operator: has to be In, NotIn"),
        (expression("a", "Gt", &["1"]), "matchExpressions[0].operator: has to be In, NotIn"),
        (json!({ "matchExpressions": [{}] }), "matchExpressions[0].key: \"\" is not the name"),
    ] {
        let problem = read(selector.clone()).unwrap_err();
        let wanted = format!("spec.deviceSelector.{wanted}");
        assert!(problem.message.starts_with(&wanted), "{selector}: {}", problem.message);
    }
    let problem = read(json!({ "matchExpressions": many })).unwrap_err();
    assert_eq!(problem.message, "spec.deviceSelector: has more than 64 labels and expressions");
}

#[test]
fn labels_that_come_from_workloads_or_from_us_choose_nothing() {
    for key in ["workload/web", "edgedeviceSignedRequest", "management.project-flotta.io/x"] {
        let problem = read(expression(key, "DoesNotExist", &[])).unwrap_err();
        let wanted = format!("{key} is a label of the operator's, and chooses no devices");
        assert_eq!(
            problem.message,
            format!("spec.deviceSelector.matchExpressions[0].key: {wanted}")
        );
        assert!(read(json!({ "matchLabels": { key: "true" } })).is_err());
    }
    for key in ["workload", "workloads/web", "workload.x/web", "management.project-flotta.io.x/y"] {
        assert!(read(expression(key, "Exists", &[])).is_ok(), "{key}");
    }
}

#[test]
fn a_label_that_all_have_is_found_in_either_form() {
    let selector = read(json!({
        "matchLabels": { "b": "2" },
        "matchExpressions": [
            { "key": "a", "operator": "In", "values": ["1", "1"] },
            { "key": "c", "operator": "In", "values": ["1", "2"] },
            { "key": "d", "operator": "NotIn", "values": ["1"] },
        ],
    }));
    assert_eq!(selector.unwrap().pairs().collect::<Vec<_>>(), [("b", "2"), ("a", "1")]);
}
