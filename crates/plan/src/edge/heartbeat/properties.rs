//! What holds for any heartbeat and any status, whoever made them up.

use flashjob_api::edge::wire;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::changes::{Urgency, urgency};
use super::liveness::Live;
use super::report::{MOST_WORKLOADS, Report};
use super::status::{Served, StatusView, Wanted, device_status};
use super::{events, report};
use crate::edge::problem::Problem;

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => Just("Running".to_owned()),
        1 => Just(String::new()),
        2 => any::<String>(),
        1 => ("[a-z\"\\\\\u{1}]", 1..2000_usize).prop_map(|(c, n)| c.repeat(n)),
    ]
}

/// A value of the right type, null, or none at all.
fn maybe(value: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Option<Value>> {
    prop_oneof![4 => value.prop_map(Some), 1 => Just(Some(Value::Null)), 1 => Just(None)].boxed()
}

fn object(
    fields: Vec<(&'static str, BoxedStrategy<Option<Value>>)>,
) -> impl Strategy<Value = Value> {
    let (keys, values): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
    values.prop_map(move |values| {
        let fields = keys.iter().zip(values);
        let said = fields.filter_map(|(key, value)| Some(((*key).to_owned(), value?)));
        said.collect::<Map<_, _>>().into()
    })
}

fn string() -> BoxedStrategy<Option<Value>> {
    maybe(text().prop_map(Value::from))
}

fn list(of: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Option<Value>> {
    let of = prop_oneof![9 => of, 1 => Just(Value::Null)];
    maybe(proptest::collection::vec(of, 0..8).prop_map(Value::from))
}

fn time() -> BoxedStrategy<Option<Value>> {
    let times = ["", "0001-01-01T00:00:00Z", "2026-11-18T12:00:00.271Z", "9999-01-01T00:00:00Z"];
    maybe(proptest::sample::select(times.to_vec()).prop_map(Value::from))
}

fn number() -> BoxedStrategy<Option<Value>> {
    maybe(prop_oneof![any::<i64>(), 0..300_i64].prop_map(Value::from))
}

fn name() -> impl Strategy<Value = Value> {
    prop_oneof!["[a-c]", text()].prop_map(Value::from)
}

fn hardware() -> impl Strategy<Value = Value> {
    let cpu = object(vec![("flags", list(text().prop_map(Value::from))), ("count", number())]);
    let disk = object(vec![("name", string()), ("size_bytes", number())]);
    let fields = vec![("hostname", string()), ("cpu", maybe(cpu)), ("disks", list(disk))];
    object(fields)
}

/// A heartbeat as agents of every age might send it.
fn heartbeat() -> impl Strategy<Value = wire::Heartbeat> {
    let workload = object(vec![
        ("name", maybe(name())),
        ("status", string()),
        ("last_data_upload", time()),
        ("exit_code", number()),
        ("message", string()),
        ("restarts", number()),
    ]);
    let upgrade = object(vec![
        ("current_commit_ID", string()),
        ("last_upgrade_status", string()),
        ("last_upgrade_time", string()),
    ]);
    let event = object(vec![("reason", string()), ("message", string()), ("type", string())]);
    let agent = prop_oneof![Just(json!({ "name": "flashjob-agent" })), name()];
    let said = object(vec![
        ("status", string()),
        ("version", maybe(prop_oneof![Just("v1".to_owned()), text()].prop_map(Value::from))),
        ("workloads", list(workload)),
        ("upgrade", maybe(upgrade)),
        ("events", list(event)),
        ("hardware", maybe(hardware())),
        ("agent", maybe(agent)),
        ("time", string()),
    ]);
    said.prop_map(|said| serde_json::from_value(said).expect("a heartbeat is read leniently"))
}

/// Anything, with the words of a status in it.
fn nonsense() -> impl Strategy<Value = Value> {
    let words = [
        "phase",
        "lastSyncedResourceVersion",
        "conditions",
        "type",
        "status",
        "reason",
        "message",
        "running",
        "hardware",
        "cpu",
        "disks",
        "workloads",
        "deployments",
        "name",
        "exitCode",
        "restarts",
        "lastDataUpload",
        "lastTransitionTime",
        "upgradeInformation",
        "currentCommitID",
    ];
    let texts = [
        "Ready",
        "Synced",
        "True",
        "False",
        "Unknown",
        "NoHeartbeat",
        "a",
        "b",
        "Running",
        "2026-11-18T12:00:00Z",
        "9999-12-31T23:59:59Z",
        "no heartbeat since 9999-12-31T23:59:59Z",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        proptest::sample::select(texts.to_vec()).prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    let word = move || proptest::sample::select(words.to_vec()).prop_map(str::to_owned);
    leaf.prop_recursive(4, 60, 12, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map(word(), inner, 0..12)
                .prop_map(|map| map.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

fn live() -> impl Strategy<Value = Live> {
    let seen = now() - jiff::SignedDuration::from_secs(100);
    prop_oneof![
        Just(Live::Reporting),
        Just(Live::Missing { since: seen }),
        Just(Live::Grace { seen: Some(seen) }),
    ]
}

const MISSING: flashjob_api::edge::EdgeReason = flashjob_api::edge::EdgeReason::SecretMissing;

/// Whether there is a problem, whether it is held, whether a configuration is served, and since how many seconds.
type World = (bool, bool, Option<i64>);

fn status(
    before: &Value,
    report: Option<&Report>,
    live: Live,
    (troubled, held, served): World,
) -> Value {
    let problem = Problem::new(MISSING, "Secret keys is not there");
    let workloads = [
        Wanted { name: "a", problem: None },
        Wanted { name: "b", problem: troubled.then_some(&problem) },
        Wanted { name: "d", problem: None },
    ];
    let since = |seconds| now() - jiff::SignedDuration::from_secs(seconds);
    let view = StatusView {
        generation: Some(1),
        before,
        report,
        workloads: &workloads,
        served: served.map(|seconds| Served { version: "v1", since: since(seconds) }),
        held: held && troubled,
        live,
        registered: None,
        problems: &[],
        storage: Some(Ok(())),
        certificate_end: Some(now()),
        unsupported: &["os"],
        data_obc: None,
    };
    let mut status = serde_json::to_value(device_status(&view, now()).status).unwrap();
    // The time of all that is decided here is one and the same, as if no condition had turned.
    for condition in status["conditions"].as_array_mut().unwrap() {
        condition["lastTransitionTime"] = json!(now().to_string());
    }
    status
}

/// What the nonsense may have been right about, for all that anybody knows.
fn without_times_and_hardware(mut status: Value) -> Value {
    let status = status.as_object_mut().unwrap();
    status.remove("hardware");
    for list in ["workloads", "deployments"] {
        for workload in status[list].as_array_mut().unwrap() {
            workload.as_object_mut().unwrap().remove("lastTransitionTime");
        }
    }
    std::mem::take(status).into()
}

proptest! {
    #[test]
    fn any_heartbeat_gives_a_bounded_report(said in heartbeat()) {
        let report = Report::of(&said);
        let short = |text: &Option<String>, most| {
            text.as_ref().is_none_or(|t| !t.is_empty() && t.len() <= most && !t.contains(char::is_control))
        };
        prop_assert!(short(&report.phase, 64) && short(&report.version, 128));
        prop_assert!(report.workloads.len() <= MOST_WORKLOADS);
        for (name, told) in &report.workloads {
            prop_assert!(name.len() <= 253 && told.phase.len() <= 64 && short(&told.message, 256));
            prop_assert!(told.restarts.is_none_or(|count| count >= 0));
            prop_assert!(told.last_data_upload.is_none_or(crate::time::is_sane));
        }
        prop_assert_eq!(report.fingerprint(), Report::of(&said).fingerprint());
        let (told, more) = events::of(&said);
        prop_assert_eq!(told.len() + more, said.events.len());
        for event in told {
            prop_assert!(event.reason.chars().all(|c| c.is_ascii_alphanumeric()));
            prop_assert!(event.reason.len() <= 64 && short(&Some(event.message + "."), 1025));
        }
    }

    #[test]
    fn a_status_that_is_written_is_not_written_again(
        said in heartbeat(), before in nonsense(), live in live(),
        world in (any::<bool>(), any::<bool>(), proptest::option::of(prop_oneof![Just(5), Just(600)])),
    ) {
        let report = Report::of(&said);
        let first = status(&before, Some(&report), live, world);
        let mut size = first.clone();
        size.as_object_mut().unwrap().remove("hardware");
        prop_assert!(size.to_string().len() < 60 * 1024);
        let second = status(&first, Some(&report), live, world);
        prop_assert_eq!(urgency(&first, &second), Urgency::Nothing, "{} {}", first, second);
        // After a restart, it is all that is known.
        let restarted = status(&first, None, live, world);
        prop_assert_eq!(&first, &restarted);
    }

    #[test]
    fn a_status_filled_with_nonsense_is_put_right_by_the_next_heartbeat(
        said in heartbeat(), before in nonsense(), troubled in any::<bool>(),
    ) {
        let report = Report::of(&said);
        let world = (troubled, false, Some(600));
        let right = status(&Value::Null, Some(&report), Live::Reporting, world);
        let put_right = status(&before, Some(&report), Live::Reporting, world);
        prop_assert_eq!(without_times_and_hardware(put_right), without_times_and_hardware(right));
    }

    #[test]
    fn any_status_is_read_without_a_heartbeat(before in nonsense(), live in live()) {
        let first = status(&before, None, live, (true, false, None));
        prop_assert_eq!(&status(&first, None, live, (true, false, None)), &first);
    }

    #[test]
    fn hardware_that_was_merged_is_merged_already(known in hardware(), said in hardware()) {
        let read = |said| flashjob_api::edge::Hardware::from(&serde_json::from_value::<wire::HardwareInfo>(said).unwrap());
        let (known, said) = (read(known), read(said));
        let merged = report::merge_hardware(Some(known), Some(&said));
        prop_assert_eq!(report::merge_hardware(merged.clone(), Some(&said)), merged);
    }
}
