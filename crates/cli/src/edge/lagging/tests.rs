use flashjob_plan::edge::workloads::WorkloadKind;
use serde_json::{Value, json};

use super::*;

pub fn now() -> Timestamp {
    "2026-11-19T12:00:00Z".parse().unwrap()
}

/// The workload `web`, of whose devices so many run it.
pub fn web(running: i32, policy: &str) -> Workload {
    let object = json!({
        "metadata": { "name": "web", "namespace": "default", "generation": 2 },
        "spec": { "pod": { "spec": {
            "restartPolicy": policy, "containers": [{ "name": "c", "image": "i" }]
        } } },
        "status": {
            "conditions": [
                { "type": "Accepted", "status": "True", "reason": "Accepted", "message": "devices can run it" },
                { "type": "Complete", "status": "False", "reason": "Deploying", "message": "" },
            ],
            "counts": { "matched": 6, "running": running, "deploying": 2, "failed": 1, "offline": 1 },
            "running": format!("{running}/6"), "message": format!("{running} of 6 devices run it"),
            "observedGeneration": 2,
        },
    });
    Workload::read(WorkloadKind::EdgeWorkload, &serde_json::from_value(object).unwrap())
}

/// A device that reports, unless `ready` says otherwise, with this entry for `web`.
pub fn device(name: &str, ready: Option<Value>, synced: Value, entry: Value) -> Device {
    let reporting = json!({ "type": "Ready", "status": "True", "reason": "Reporting" });
    let mut synced_condition = json!({ "type": "Synced" });
    synced_condition.as_object_mut().unwrap().extend(synced.as_object().unwrap().clone());
    let mut workload = json!({ "name": "web" });
    workload.as_object_mut().unwrap().extend(entry.as_object().unwrap().clone());
    let object = json!({
        "metadata": { "name": name, "namespace": "default" },
        "status": {
            "conditions": [ready.unwrap_or(reporting), synced_condition], "workloads": [workload],
        },
    });
    Device::read(serde_json::from_value(object).unwrap())
}

pub fn fleet() -> Vec<Device> {
    let silent = json!({
        "type": "Ready", "status": "Unknown", "reason": "NoHeartbeat", "message": "no heartbeat since 11:50\u{1b}",
    });
    let in_step = || json!({ "status": "True" });
    let since = "2026-11-19T11:58:00Z";
    vec![
        device("edge1", None, in_step(), json!({ "phase": "Running" })),
        device(
            "edge2",
            None,
            in_step(),
            json!({ "phase": "Deploying", "lastTransitionTime": since }),
        ),
        device(
            "edge3",
            None,
            in_step(),
            json!({ "phase": "Exited", "exitCode": 1, "message": "no such file", "lastTransitionTime": since }),
        ),
        device("edge4", Some(silent), in_step(), json!({ "phase": "Running" })),
        device(
            "edge5",
            None,
            in_step(),
            json!({ "phase": "Deploying", "message": "SecretMissing: there is no Secret default/password" }),
        ),
        device(
            "edge6",
            None,
            json!({ "status": "False", "reason": "InProgress", "message": "for 5s" }),
            json!({ "phase": "Running" }),
        ),
    ]
}

fn told(running: i32, policy: &str) -> Vec<String> {
    let lags = lagging(&web(running, policy), &fleet(), now());
    let line = |lag: Lagging| {
        let advice = lag.advice.map(|advice| format!(" ({advice})")).unwrap_or_default();
        format!("{} {}: {}{advice}", lag.device, lag.state, lag.why)
    };
    lags.into_iter().map(line).collect()
}

#[test]
fn each_device_that_lags_says_why() {
    let wanted = [
        "edge2 Deploying: Deploying for 2m",
        "edge3 Failed: Exited, exit code 1 for 2m: no such file",
        "edge4 Offline: NoHeartbeat: no heartbeat since 11:50  (check power and network of the device)",
        "edge5 Failed: Deploying: SecretMissing: there is no Secret default/password (make the Secret, or take the reference out)",
        "edge6 Deploying: InProgress: for 5s",
    ];
    assert_eq!(told(1, "Always"), wanted);
    let all_but_the_last = told(2, "Always");
    assert_eq!(all_but_the_last, wanted[..4], "the operator counts it among those that run it");
}

#[test]
fn a_pod_that_has_done_its_work_does_not_lag() {
    let done = device(
        "edge1",
        None,
        json!({ "status": "True" }),
        json!({ "phase": "Exited", "exitCode": 0 }),
    );
    assert_eq!(lagging(&web(1, "Never"), std::slice::from_ref(&done), now()), []);
    assert_eq!(lagging(&web(0, "Always"), &[done], now()).len(), 1);
}

#[test]
fn a_device_that_runs_it_and_cannot_be_sent_the_edit_is_held() {
    let entry = json!({ "phase": "Running", "message": "SecretKeyMissing: no key a" });
    let held = device("edge1", None, json!({ "status": "False" }), entry);
    let lags = lagging(&web(1, "Always"), &[held], now());
    assert_eq!((lags[0].state, lags[0].advice.is_some()), ("Held", true), "{lags:?}");
}

#[test]
fn a_device_whose_status_is_nonsense_lags_and_nothing_breaks() {
    let object = json!({
        "metadata": { "name": "odd", "namespace": "default" },
        "status": { "conditions": [7], "workloads": "web" },
    });
    let odd = Device::read(serde_json::from_value(object).unwrap());
    let lags = lagging(&web(0, "Always"), &[odd], now());
    assert_eq!((lags[0].state, lags[0].why.as_str()), ("Offline", "it has not reported yet"));
}
