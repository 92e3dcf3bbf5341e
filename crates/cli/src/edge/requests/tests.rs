use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::*;
use crate::output::{Output, print};

fn now() -> Timestamp {
    "2026-11-19T12:00:00Z".parse().unwrap()
}

fn request(name: &str, annotations: Value, spec: Value, status: Value) -> ListedRequest {
    let object: DynamicObject = serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "default", "annotations": annotations, "creationTimestamp": "2026-11-19T11:55:00Z",
        },
        "spec": spec,
        "status": status,
    }))
    .unwrap();
    Request::read(&object).into()
}

fn requests() -> Vec<ListedRequest> {
    let pending =
        json!({ "phase": "pending", "conditions": [{ "message": "waits for somebody" }] });
    let declined = json!({ "management.project-flotta.io/declined": "true" });
    vec![
        request(
            "edge2",
            json!({}),
            json!({
                "targetNamespace": "factory",
                "targetSet": "cameras",
                "features": { "modelName": "Pi\u{1b}4", "hardware": { "hostname": "camera-7" } },
            }),
            pending.clone(),
        ),
        // The operator has not said so yet.
        request("edge3", declined, json!({ "approved": true }), pending),
        request("edge4", json!({}), json!(null), json!(null)),
        request("edge5", json!({}), json!({ "approved": true }), json!({ "phase": "approved" })),
    ]
}

#[test]
fn the_table_says_who_waits_and_for_what() {
    let wanted = "\
DEVICE   TARGET NAMESPACE   SET       PHASE      MODEL   AGE
edge2    factory            cameras   pending    Pi 4    5m
edge3    -                  -         declined   -       5m
edge4    -                  -         pending    -       5m
edge5    -                  -         approved   -       5m
";
    assert_eq!(print(&requests(), Output::Table, now(), true).unwrap(), wanted);
}

#[test]
fn wide_and_json_have_the_rest() {
    let wide = print(&requests(), Output::Wide, now(), true).unwrap();
    assert!(wide.contains("5m    camera-7   -              waits for somebody"), "{wide}");
    let json = print(&requests(), Output::Json, now(), true).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["requests"][0]["targetSet"], "cameras");
    assert_eq!(json["requests"][1]["phase"], "declined");
}
