use flashjob_plan::edge::workloads::WorkloadKind;
use serde_json::json;

use super::*;
use crate::edge::lagging::tests::{fleet, now, web};

#[test]
fn a_bar_and_a_line_for_each_device_that_lags() {
    let workload = web(1, "Always");
    let lines = picture(&workload, &lagging(&workload, &fleet(), now()), 24);
    let wanted = [
        "default/web: 1 of 6 devices run it",
        "all       [###xxx..............]  1 of 6, 1 failed",
        "  edge2  Deploying  Deploying for 2m",
        "  edge3  Failed     Exited, exit code 1 for 2m: no such file",
        "  edge4  Offline    NoHeartbeat: no heartbeat since 11:50",
        "  edge5  Failed     Deploying: SecretMissing: there is no Secret default/password",
        "  edge6  Deploying  InProgress: for 5s",
    ];
    assert_eq!(lines, wanted);
    let small = picture(&workload, &lagging(&workload, &fleet(), now()), 6);
    assert_eq!(small.last().map(String::as_str), Some("  ... and 3 devices more"), "{small:#?}");
}

#[test]
fn what_the_operator_has_not_seen_and_what_it_refuses_has_no_false_bar() {
    let read = |status: serde_json::Value, generation: i64| {
        let metadata = json!({ "name": "web", "namespace": "default", "generation": generation });
        let object = json!({ "metadata": metadata, "status": status });
        Workload::read(WorkloadKind::EdgeWorkload, &serde_json::from_value(object).unwrap())
    };
    let new = read(json!({}), 1);
    assert!(picture(&new, &[], 24)[0].starts_with("default/web: nobody has looked at it yet"));
    assert!(!new.is_complete());
    let refused = json!({
        "conditions": [{ "type": "Accepted", "status": "False", "reason": "InvalidSpec", "message": "spec.type: x" }],
        "message": "InvalidSpec: spec.type: x", "observedGeneration": 1,
    });
    assert_eq!(
        picture(&read(refused.clone(), 1), &[], 24),
        ["default/web: InvalidSpec: spec.type: x"]
    );
    let edited = read(refused, 2);
    assert!(!edited.is_current && picture(&edited, &[], 24)[0].contains("it was edited"));
}

#[test]
fn it_has_failed_only_when_nothing_else_is_left() {
    let mut workload = web(1, "Always");
    assert!(!has_failed(&workload), "some are deploying");
    workload.counts.deploying = 0;
    assert!(!has_failed(&workload), "one may come back");
    workload.counts.offline = 0;
    assert!(has_failed(&workload));
    workload.is_current = false;
    assert!(!has_failed(&workload), "that was before the edit");
}

#[test]
fn where_nobody_sees_pictures_each_change_is_told_once() {
    let shell = Shell::new();
    let mut screen = Screen::new(&shell);
    let workload = web(1, "Always");
    let mut lags = lagging(&workload, &fleet(), now());
    assert_eq!(screen.news(&workload, &lags).len(), 6);
    assert!(screen.news(&workload, &lags).is_empty());
    lags[0].why = "Deploying for 3m".into();
    assert!(screen.news(&workload, &lags).is_empty(), "how long it lasts is no news");
    lags[0].state = "Failed";
    assert_eq!(screen.news(&workload, &lags), ["  edge2  Failed     Deploying for 3m"]);
}
