use flashjob_api::edge::{Cpu, Disk};
use serde_json::{Value, json};

use super::*;

fn report(said: Value) -> Report {
    Report::of(&serde_json::from_value(said).unwrap())
}

#[test]
fn a_heartbeat_of_flottas_agent_says_what_it_means_and_nothing_else() {
    let said = json!({
        "status": "up", "version": "54429", "playbook-executions": null, "events": null,
        "workloads": [
            { "name": "nginx", "status": "Running", "last_data_upload": "0001-01-01T00:00:00.000Z" }
        ],
        "upgrade": { "current_commit_ID": "unknown" }, "time": "2022-03-20T14:45:25Z"
    });
    let told = Told { phase: "Running".into(), ..Told::default() };
    let upgrade = UpgradeInformation {
        current_commit_id: Some("unknown".into()),
        ..UpgradeInformation::default()
    };
    let expected = Report {
        phase: Some("up".into()),
        version: Some("54429".into()),
        workloads: [("nginx".to_owned(), told)].into(),
        upgrade: Some(upgrade),
        hardware: None,
        agent: None,
    };
    assert_eq!(report(said), expected);
    assert_eq!(report(json!({})), Report::default());
}

#[test]
fn our_agent_says_more() {
    let said = report(json!({
        "agent": { "name": "flashjob-agent", "version": "0.1.0" },
        "workloads": [{
            "name": "n", "status": "Exited", "exit_code": 137, "message": " killed\n", "restarts": 3,
            "last_data_upload": "2026-11-18T12:00:00.271Z"
        }]
    }));
    assert!(said.agent.as_ref().unwrap().is_ours());
    let told = &said.workloads["n"];
    assert_eq!((told.exit_code, told.restarts), (Some(137), Some(3)));
    assert_eq!(told.message.as_deref(), Some("killed"));
    assert_eq!(told.last_data_upload.unwrap().to_string(), "2026-11-18T12:00:00Z");
    assert_eq!(said.newest_upload(), told.last_data_upload);
}

#[test]
fn numbers_and_times_that_cannot_be_are_not_kept() {
    let said = report(json!({ "workloads": [{
        "name": "n", "exit_code": i64::MAX, "restarts": -1, "last_data_upload": "9026-11-18T12:00:00Z"
    }] }));
    assert_eq!(said.workloads["n"], Told::default());
}

#[test]
fn the_order_of_workloads_is_no_matter_even_where_names_are_twice_or_too_many() {
    let workload =
        |n: usize| json!({ "name": format!("w{:04}", n % 600), "status": format!("s{n}") });
    let mut list: Vec<_> = (0..700).map(workload).collect();
    list.push(json!({ "name": "x".repeat(254), "status": "Running" }));
    list.push(json!({ "status": "Running" }));
    let forward = report(json!({ "workloads": list }));
    list.reverse();
    assert_eq!(forward, report(json!({ "workloads": list })));
    assert_eq!(forward.workloads.len(), MOST_WORKLOADS);
    assert_eq!(forward.workloads["w0000"].phase, "s600");
    assert!(forward.workloads.contains_key("w0511") && !forward.workloads.contains_key("w0512"));
}

#[test]
fn the_fingerprint_moves_with_all_that_is_written_but_an_upload() {
    let base = json!({
        "status": "up", "version": "1", "hardware": { "hostname": "a" },
        "upgrade": { "current_commit_ID": "c" }, "agent": { "name": "a" },
        "workloads": [{ "name": "n", "status": "Running", "last_data_upload": "2026-11-18T12:00:00Z",
            "exit_code": 1, "message": "m", "restarts": 1 }]
    });
    let first = report(base.clone());
    let changed = |pointer: &str, to: Value| {
        let mut said = base.clone();
        *said.pointer_mut(pointer).unwrap() = to;
        report(said)
    };
    for (pointer, to) in [
        ("/status", json!("degraded")),
        ("/version", json!("2")),
        ("/hardware/hostname", json!("b")),
        ("/upgrade/current_commit_ID", json!("d")),
        ("/agent/name", json!("b")),
        ("/workloads/0/name", json!("o")),
        ("/workloads/0/status", json!("Exited")),
        ("/workloads/0/exit_code", json!(2)),
        ("/workloads/0/message", json!("n")),
        ("/workloads/0/restarts", json!(2)),
    ] {
        assert_ne!(changed(pointer, to).fingerprint(), first.fingerprint(), "{pointer}");
    }
    let later = changed("/workloads/0/last_data_upload", json!("2026-11-18T13:00:00Z"));
    assert_eq!(later.fingerprint(), first.fingerprint());
    assert_ne!(later.newest_upload(), first.newest_upload());
}

#[test]
fn a_part_of_the_hardware_leaves_the_rest_as_it_was() {
    let known = Hardware {
        hostname: Some("a".into()),
        cpu: Some(Cpu { count: Some(4), ..Cpu::default() }),
        disks: Some(vec![Disk::default()]),
        ..Hardware::default()
    };
    let said =
        Hardware { hostname: Some("b".into()), disks: Some(Vec::new()), ..Hardware::default() };
    let merged = merge_hardware(Some(known.clone()), Some(&said)).unwrap();
    assert_eq!(merged.hostname.as_deref(), Some("b"));
    assert_eq!((merged.cpu, merged.disks), (known.cpu.clone(), Some(Vec::new())));
    assert_eq!(merge_hardware(Some(known.clone()), None), Some(known));
    assert_eq!(merge_hardware(None, Some(&said)), Some(said));
}

#[test]
fn hardware_does_not_grow_from_heartbeat_to_heartbeat() {
    let many = |n| vec![Disk { serial: Some("s".repeat(250)), ..Disk::default() }; n];
    let known = Hardware { disks: Some(many(512)), ..Hardware::default() };
    let other = Hardware { hostname: Some("s".repeat(256)), ..Hardware::default() };
    let merged = merge_hardware(Some(known), Some(&other)).unwrap();
    assert!(merged.disks.is_some());
    let huge = Hardware { disks: Some(many(1100)), ..Hardware::default() };
    assert_eq!(merge_hardware(Some(huge), Some(&other)), Some(other));
}
