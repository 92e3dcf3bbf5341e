use flashjob_plan::edge::workloads::WorkloadKind;
use serde_json::{Value, json};

use super::*;
use crate::output::{Output, print};

fn now() -> Timestamp {
    "2026-11-19T12:00:00Z".parse().unwrap()
}

/// As the API server has it, whatever is in it.
fn workload(kind: WorkloadKind, name: &str, metadata: Value, status: Value) -> ListedWorkload {
    let mut object = json!({
        "metadata": { "name": name, "namespace": "default", "creationTimestamp": "2026-11-19T09:00:00Z" },
        "spec": {}, "status": status,
    });
    let merged = object["metadata"].as_object_mut().unwrap();
    merged.extend(metadata.as_object().unwrap().clone());
    Workload::read(kind, &serde_json::from_value(object).unwrap()).into()
}

fn all() -> Vec<ListedWorkload> {
    use WorkloadKind::{EdgeDeployment, EdgeWorkload};
    let condition = |type_: &str, status: &str, reason: &str| {
        let at = "2026-11-19T11:00:00Z";
        json!({ "type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": at })
    };
    let counted = json!({
        "conditions": [condition("Accepted", "True", "Accepted"), condition("Complete", "False", "Failed")],
        "counts": { "matched": 5, "running": 3, "deploying": 0, "failed": 1, "offline": 1 },
        "running": "3/5", "message": "3 of 5 devices run it,\u{1b} 1 failed, 1 offline",
    });
    let refused = json!({
        "conditions": [condition("Accepted", "False", "NameConflict")],
        "message": "NameConflict: the EdgeDeployment web is older",
    });
    let going = json!({ "deletionTimestamp": "2026-11-19T11:00:00Z" });
    let nonsense = json!({ "conditions": 7, "counts": [], "running": {}, "message": null });
    vec![
        workload(EdgeDeployment, "web", json!({}), counted),
        workload(EdgeWorkload, "web", json!({}), refused),
        workload(EdgeWorkload, "new", json!({}), Value::Null),
        workload(EdgeWorkload, "odd", going, nonsense),
    ]
}

fn printed(output: Output) -> String {
    print(&all(), output, now(), true).unwrap()
}

#[test]
fn both_kinds_are_in_one_table() {
    let wanted = "\
NAMESPACE   KIND             NAME   ACCEPTED             RUNNING   FAILED   OFFLINE   AGE
default     EdgeDeployment   web    True                 3/5       1        1         3h
default     EdgeWorkload     web    False NameConflict   -         -        -         3h
default     EdgeWorkload     new    -                    -         -        -         3h
default     EdgeWorkload     odd    being deleted        -         -        -         3h
";
    assert_eq!(printed(Output::Table), wanted);
    let wide = printed(Output::Wide);
    let first = "3h    0           False Failed   3 of 5 devices run it,  1 failed, 1 offline";
    assert!(wide.lines().nth(1).unwrap().ends_with(first), "{wide}");
}

#[test]
fn json_yaml_and_names_are_for_programs() {
    let json: Value = serde_json::from_str(&printed(Output::Json)).unwrap();
    assert_eq!(json["workloads"][0]["counts"]["matched"], 5);
    assert_eq!(json["workloads"][1]["accepted"]["reason"], "NameConflict");
    let yaml: Value = serde_saphyr::from_str(&printed(Output::Yaml)).unwrap();
    assert_eq!(yaml, json);
    assert_eq!(printed(Output::Name), "default/web\ndefault/web\ndefault/new\ndefault/odd\n");
}

#[test]
fn two_of_one_name_are_two_for_who_watches() {
    let all = all();
    assert_eq!(all[0].path(), all[1].path());
    assert_ne!(all[0].key(), all[1].key());
}
