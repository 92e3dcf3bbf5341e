use flashjob_api::edge::{EdgeReason, Hardware};
use serde_json::json;

use super::super::report::Agent;
use super::*;

const NOTHING: Value = Value::Null;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn wanted(name: &str) -> Wanted<'_> {
    Wanted { name, problem: None }
}

/// A device that reports and is to have no more than version v1.
fn view(before: &Value) -> StatusView<'_> {
    StatusView {
        generation: Some(3),
        before,
        report: None,
        workloads: &[],
        served: Some(Served { version: "v1", since: at(-3600) }),
        held: false,
        live: Live::Reporting,
        registered: Some(at(-7200)),
        problems: &[],
        storage: None,
        certificate_end: None,
        unsupported: &[],
        data_obc: None,
    }
}

fn report(version: &str, workloads: &[(&str, &str)]) -> Report {
    let told = |(name, phase): &(&str, &str)| {
        ((*name).to_owned(), Told { phase: (*phase).into(), ..Told::default() })
    };
    Report {
        phase: Some("up".into()),
        version: Some(version.into()),
        workloads: workloads.iter().map(told).collect(),
        ..Report::default()
    }
}

fn decide(view: &StatusView<'_>, second: i64) -> DeviceStatus {
    device_status(view, at(second)).status
}

fn written(view: &StatusView<'_>, second: i64) -> Value {
    serde_json::to_value(decide(view, second)).unwrap()
}

/// The status, reason and message of a condition.
fn condition<'a>(status: &'a DeviceStatus, type_: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_)?;
    Some((&found.status, &found.reason, &found.message))
}

fn holds<'a>(status: &'a DeviceStatus, type_: &str) -> (&'a str, &'a str) {
    let (status, reason, _) = condition(status, type_).unwrap();
    (status, reason)
}

fn problem(reason: EdgeReason, message: &str) -> Problem {
    Problem::new(reason, message)
}

#[test]
fn a_device_that_came_in_waits_for_its_first_heartbeat() {
    let workloads = [wanted("nginx")];
    let view = StatusView { live: Live::Never, workloads: &workloads, ..view(&NOTHING) };
    let expected = json!({
        "running": "0/1",
        "workloads": [{ "name": "nginx", "phase": "Deploying", "lastTransitionTime": "2027-01-15T08:00:00Z" }],
        "deployments": [{ "name": "nginx", "phase": "Deploying", "lastTransitionTime": "2027-01-15T08:00:00Z" }],
        "conditions": [
            { "type": "Ready", "status": "Unknown", "reason": "NeverReported", "observedGeneration": 3,
              "message": "no heartbeat yet; the device came in at 2027-01-15T06:00:00Z",
              "lastTransitionTime": "2027-01-15T08:00:00Z" },
            { "type": "Synced", "status": "Unknown", "reason": "NeverReported", "observedGeneration": 3,
              "message": "the device has not said which configuration it has",
              "lastTransitionTime": "2027-01-15T08:00:00Z" },
            { "type": "Configured", "status": "True", "reason": "Complete", "observedGeneration": 3,
              "message": "all that the device is to have can be sent",
              "lastTransitionTime": "2027-01-15T08:00:00Z" },
        ],
    });
    assert_eq!(written(&view, 0), expected);
}

#[test]
fn a_heartbeat_says_how_the_device_and_its_workloads_are() {
    let workloads = [wanted("cron"), wanted("nginx"), wanted("redis")];
    let mut said =
        report("v1", &[("redis", "Exited"), ("nginx", "Running"), ("foreign", "Running")]);
    let redis = said.workloads.get_mut("redis").unwrap();
    (redis.exit_code, redis.restarts, redis.message) = (Some(137), Some(2), Some("killed".into()));
    redis.last_data_upload = Some(at(-60));
    said.upgrade = Some(flashjob_api::edge::UpgradeInformation {
        current_commit_id: Some("c".into()),
        ..Default::default()
    });
    let obc = Some("edge1");
    let view =
        StatusView { report: Some(&said), workloads: &workloads, data_obc: obc, ..view(&NOTHING) };
    let status = written(&view, 0);
    let now = "2027-01-15T08:00:00Z";
    let expected = json!([
        { "name": "cron", "phase": "Deploying", "lastTransitionTime": now },
        { "name": "nginx", "phase": "Running", "lastTransitionTime": now },
        { "name": "redis", "phase": "Exited", "lastTransitionTime": now, "exitCode": 137,
          "restarts": 2, "message": "killed", "lastDataUpload": "2027-01-15T07:59:00Z" },
    ]);
    assert_eq!((&status["workloads"], &status["deployments"]), (&expected, &expected));
    assert_eq!(status["running"], "1/3");
    assert_eq!((&status["phase"], &status["dataObc"]), (&json!("up"), &json!("edge1")));
    assert_eq!(status["lastSyncedResourceVersion"], "v1");
    assert_eq!(status["upgradeInformation"], json!({ "currentCommitID": "c" }));
    let status = decide(&view, 0);
    assert_eq!(holds(&status, "Ready"), ("True", "Reporting"));
    assert_eq!(holds(&status, "Synced"), ("True", "CarriedOut"));
}

#[test]
fn a_workload_has_the_time_of_its_last_change_and_nobody_elses() {
    let workloads = [wanted("nginx")];
    let since = |before: &Value, said: &Report, second| {
        let view = StatusView { report: Some(said), workloads: &workloads, ..view(before) };
        let status = written(&view, second);
        let since = status["workloads"][0]["lastTransitionTime"].clone();
        (status, since)
    };
    let (first, _) = since(&NOTHING, &report("v1", &[]), 0);
    let (second, moved) = since(&first, &report("v1", &[("nginx", "Running")]), 60);
    assert_eq!(moved, "2027-01-15T08:01:00Z");
    let (mut third, moved) = since(&second, &report("v2", &[("nginx", "Running")]), 120);
    assert_eq!(moved, "2027-01-15T08:01:00Z");
    for nonsense in ["2999-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "yesterday"] {
        third["workloads"][0]["lastTransitionTime"] = json!(nonsense);
        let (_, moved) = since(&third, &report("v2", &[("nginx", "Running")]), 180);
        assert_eq!(moved, "2027-01-15T08:03:00Z", "{nonsense}");
    }
}

#[test]
fn after_a_restart_the_status_is_what_is_known() {
    let workloads = [wanted("nginx"), wanted("redis")];
    let mut said = report("v1", &[("nginx", "Running")]);
    said.hardware = Some(Hardware { hostname: Some("edge1".into()), ..Hardware::default() });
    let full = StatusView { report: Some(&said), workloads: &workloads, ..view(&NOTHING) };
    let before = written(&full, 0);
    let live = Live::Grace { seen: Some(at(-10)) };
    let restarted = StatusView { workloads: &workloads, live, served: None, ..view(&before) };
    assert_eq!(written(&restarted, 0), before);
    let one_less = StatusView { workloads: &workloads[1..], ..restarted };
    assert_eq!(decide(&one_less, 0).running.as_deref(), Some("0/1"));
}

#[test]
fn a_workload_that_the_device_tells_of_no_more_is_deploying_again() {
    let workloads = [wanted("nginx")];
    let said = report("v1", &[("nginx", "Running")]);
    let running = StatusView { report: Some(&said), workloads: &workloads, ..view(&NOTHING) };
    let before = written(&running, 0);
    let said = report("v1", &[]);
    let gone = StatusView { report: Some(&said), workloads: &workloads, ..view(&before) };
    assert_eq!(decide(&gone, 0).workloads[0].phase.as_deref(), Some(DEPLOYING));
}

#[test]
fn hardware_that_is_not_mentioned_is_as_it_was_and_nonsense_in_it_costs_no_other_field() {
    let before = json!({ "hardware": {
        "hostname": "edge1", "cpu": { "count": "many" }, "disks": [{ "name": "sda" }], "color": "red"
    } });
    let said = Hardware { hostname: Some("edge2".into()), ..Hardware::default() };
    let said = Report { hardware: Some(said), ..report("v1", &[]) };
    let status = written(&StatusView { report: Some(&said), ..view(&before) }, 0);
    assert_eq!(status["hardware"], json!({ "hostname": "edge2", "disks": [{ "name": "sda" }] }));
}

#[test]
fn a_device_is_behind_when_a_minute_has_passed_and_not_before() {
    let said = report("v1", &[]);
    let first = StatusView { report: Some(&said), ..view(&NOTHING) };
    let before = written(&first, 0);
    let served = Some(Served { version: "v2", since: at(0) });
    let edited = StatusView { served, before: &before, ..first.clone() };
    let decided = device_status(&edited, at(59));
    assert_eq!(holds(&decided.status, "Synced"), ("True", "CarriedOut"));
    assert_eq!(decided.look_again, Some(at(60)));
    let decided = device_status(&edited, at(60));
    let expected = ("False", "Behind", "the device has version v1, and the latest is v2");
    assert_eq!(condition(&decided.status, "Synced"), Some(expected));
    assert_eq!(decided.look_again, None);
    let behind = written(&edited, 60);
    let served = Some(Served { version: "v3", since: at(90) });
    let again = decide(&StatusView { served, before: &behind, ..first.clone() }, 91);
    assert_eq!(holds(&again, "Synced"), ("False", "Behind"), "it still is");
    let new = StatusView { served, ..first };
    assert_eq!(holds(&decide(&new, 91), "Synced"), ("Unknown", "InProgress"));
    let silent = Report::default();
    let without = decide(&StatusView { report: Some(&silent), ..view(&NOTHING) }, 0);
    let expected = "the device has no configuration yet, and the latest is v1";
    assert_eq!(condition(&without, "Synced"), Some(("False", "Behind", expected)));
}

#[test]
fn problems_are_named_with_their_workloads_and_the_first_gives_the_reason() {
    let missing = problem(EdgeReason::SecretMissing, "Secret keys is not there");
    let workloads = [Wanted { name: "nginx", problem: Some(&missing) }, wanted("redis")];
    let problems = [problem(EdgeReason::SetMissing, "EdgeDeviceSet shops is not there")];
    let said = report("v1", &[("nginx", "Running"), ("redis", "Running")]);
    let view = StatusView {
        report: Some(&said),
        workloads: &workloads,
        problems: &problems,
        held: true,
        ..view(&NOTHING)
    };
    let status = decide(&view, 0);
    let message = "the device keeps the configuration it has: EdgeDeviceSet shops is not there; \
                   workload nginx: Secret keys is not there";
    assert_eq!(condition(&status, "Configured"), Some(("False", "SetMissing", message)));
    assert_eq!(holds(&status, "Synced"), ("False", "SetMissing"), "the latest is not made");
    let of_nginx = status.workloads[0].message.as_deref();
    assert_eq!(of_nginx, Some("SecretMissing: Secret keys is not there"));
    assert_eq!((status.running.as_deref(), &status.workloads[1].message), (Some("2/2"), &None));
}

#[test]
fn a_problem_that_is_gone_is_not_taken_for_a_word_of_the_device() {
    let missing = problem(EdgeReason::SecretMissing, "Secret keys is not there");
    let workloads = [Wanted { name: "nginx", problem: Some(&missing) }];
    let before = written(&StatusView { workloads: &workloads, ..view(&NOTHING) }, 0);
    let workloads = [wanted("nginx")];
    let status = decide(&StatusView { workloads: &workloads, ..view(&before) }, 0);
    assert_eq!(status.workloads[0].message, None);
}

#[test]
fn ready_says_since_when_there_is_no_heartbeat() {
    let said = report("v1", &[]);
    let here = StatusView { report: Some(&said), ..view(&NOTHING) };
    let ready = |view: &StatusView<'_>| {
        let status = decide(view, 0);
        let (status, reason, message) = condition(&status, "Ready").unwrap();
        format!("{status} {reason}: {message}")
    };
    let since = "Unknown NoHeartbeat: no heartbeat since 2027-01-15T07:00:00Z";
    let missing = StatusView { live: Live::Missing { since: at(-3600) }, ..here.clone() };
    assert_eq!(ready(&missing), since);
    let before = written(&missing, 0);
    // In a process that has just started, with a roll and without one.
    for seen in [Some(at(-3600)), None] {
        assert_eq!(ready(&StatusView { live: Live::Grace { seen }, ..view(&before) }), since);
    }
    assert_eq!(ready(&StatusView { live: Live::Never, ..view(&before) }), since);
    let before = written(&here, 0);
    let live = Live::Grace { seen: None };
    let reports = "True Reporting: the device reports";
    assert_eq!(ready(&StatusView { live, ..view(&before) }), reports);
    let lost = "Unknown NoHeartbeat: no heartbeat for three periods; when the last one came is not on record";
    assert_eq!(ready(&StatusView { live: Live::Never, ..view(&before) }), lost);
    // Of an operator that had no such condition.
    let older = json!({ "phase": "up" });
    assert_eq!(ready(&StatusView { live, ..view(&older) }), reports);
    let eaten = json!({ "type": "Ready", "status": "Unknown", "reason": "Eaten", "message": "m" });
    let nonsense = json!({ "phase": "up", "conditions": [7, eaten] });
    assert_eq!(ready(&StatusView { live, ..view(&nonsense) }), reports);
    assert!(ready(&StatusView { live, ..view(&NOTHING) }).starts_with("Unknown NeverReported"));
}

#[test]
fn storage_is_spoken_of_only_where_there_is_to_be_some() {
    assert_eq!(condition(&decide(&view(&NOTHING), 0), "StorageReady"), None);
    let with = |storage| decide(&StatusView { storage: Some(storage), ..view(&NOTHING) }, 0);
    assert_eq!(holds(&with(Ok(())), "StorageReady"), ("True", "Available"));
    let refused = problem(EdgeReason::BucketRefused, "quota exceeded");
    let expected = ("False", "BucketRefused", "quota exceeded");
    assert_eq!(condition(&with(Err(&refused)), "StorageReady"), Some(expected));
    assert_eq!(holds(&with(Err(&refused)), "Configured").0, "True", "all else is served");
}

#[test]
fn what_our_agent_does_not_do_is_said_of_our_agent_alone() {
    let agent = |name: &str| Report {
        agent: Some(Agent { name: name.into(), version: None }),
        ..report("v1", &[])
    };
    let (ours, other) = (agent("flashjob-agent"), agent("other"));
    let asked = ["os", "metrics"];
    let status = |before: &Value, report| {
        written(&StatusView { report, unsupported: &asked, ..view(before) }, 0)
    };
    let of = |status: &Value| {
        let status: DeviceStatus = serde_json::from_value(status.clone()).unwrap();
        condition(&status, "NotSupportedByAgent").map(|(_, _, message)| message.to_owned())
    };
    let said = Some("the agent does nothing about os, metrics".to_owned());
    let before = status(&NOTHING, Some(&ours));
    assert_eq!(of(&before), said);
    assert_eq!(of(&status(&before, None)), said, "after a restart");
    assert_eq!(of(&status(&before, Some(&other))), None);
    assert_eq!(of(&status(&NOTHING, Some(&report("v1", &[])))), None, "Flotta's");
    let nothing_asked = StatusView { report: Some(&ours), ..view(&before) };
    assert_eq!(of(&written(&nothing_asked, 0)), None);
}

#[test]
fn a_certificate_that_ends_is_announced_a_fortnight_before() {
    let day = 24 * 3600;
    let view = StatusView { certificate_end: Some(at(20 * day)), ..view(&NOTHING) };
    let decided = device_status(&view, at(0));
    assert_eq!(condition(&decided.status, "CertificateExpiring"), None);
    assert_eq!(decided.look_again, Some(at(6 * day)));
    let decided = device_status(&view, at(6 * day));
    let message = "the certificate of the device ends at 2027-02-04T08:00:00Z";
    let expected = Some(("True", "ExpiresSoon", message));
    assert_eq!(condition(&decided.status, "CertificateExpiring"), expected);
    assert_eq!(decided.look_again, Some(at(20 * day)));
    let decided = device_status(&view, at(21 * day));
    let message = condition(&decided.status, "CertificateExpiring").unwrap().2;
    assert!(message.contains("ended"), "{message}");
}

#[test]
fn a_status_fits_whatever_there_is_to_say() {
    let quotes = "\"".repeat(4000);
    let missing = problem(EdgeReason::SecretMissing, &quotes);
    let names: Vec<_> = (0..2000).map(|n| format!("{n:04}{}", "w".repeat(59))).collect();
    let workloads: Vec<_> =
        names.iter().map(|name| Wanted { name, problem: Some(&missing) }).collect();
    let word = "\"".repeat(64);
    let mut said = report(&"\"".repeat(128), &[]);
    let told =
        Told { phase: word, exit_code: Some(i32::MIN), restarts: Some(9), ..Told::default() };
    said.workloads = names.iter().take(512).map(|name| (name.clone(), told.clone())).collect();
    said.agent = Some(Agent { name: "flashjob-agent".into(), version: None });
    let problems = vec![missing.clone(); 50];
    let view = StatusView {
        report: Some(&said),
        workloads: &workloads,
        problems: &problems,
        held: false,
        storage: Some(Err(&missing)),
        certificate_end: Some(at(0)),
        unsupported: &[&quotes],
        data_obc: Some(&quotes),
        ..view(&NOTHING)
    };
    let status = written(&view, 0);
    let size = status.to_string().len();
    assert!(size < 60 * 1024, "{size}");
    let listed = status["workloads"].as_array().unwrap();
    assert!(listed.len() > 40 && listed[0].get("message").is_some());
    assert_eq!(status["running"], "0/2000");
    let configured = decide(&view, 0);
    let (_, _, message) = condition(&configured, "Configured").unwrap();
    assert!(message.len() <= 1024 && message.ends_with(" more"), "{message}");
    let many: Vec<_> = names.iter().map(|name| wanted(&name[..8])).take(150).collect();
    assert_eq!(decide(&StatusView { workloads: &many, ..view }, 0).workloads.len(), 150);
}
