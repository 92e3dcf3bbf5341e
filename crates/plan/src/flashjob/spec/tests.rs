use super::*;
use serde_json::json;

fn read(mut more: Value) -> Result<Spec, Invalid> {
    let mut spec = json!({
        "uuid": ["a"], "firmware": "f", "version": "v", "flashjobPodImage": "i",
    });
    if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object_mut()) {
        spec.append(more);
    }
    Spec::read(&spec, &Settings::default())
}

fn refusal(more: Value) -> String {
    match read(more.clone()) {
        Err(Invalid(message)) => message,
        Ok(_) => panic!("{more} was accepted"),
    }
}

#[test]
fn strings_are_trimmed_and_devices_counted_once() {
    let spec = read(json!({ "uuid": [" a ", "b", "a"], "firmware": " f:1 " })).unwrap();
    assert_eq!(spec.devices, ["a", "b"]);
    assert_eq!(spec.firmware, "f:1");
    assert_eq!(spec.max_parallel, 25);
}

#[test]
fn nulls_are_as_good_as_nothing() {
    let nulls = json!({ "device": null, "rollout": null, "retry": { "limit": null } });
    assert_eq!(read(nulls), read(json!({})));
}

#[test]
fn amounts_are_numbers_or_percentages_of_all_devices() {
    let spec = read(json!({ "rollout": { "batchSize": "10%", "maxFailures": "10%" } })).unwrap();
    assert_eq!(spec.batch_size.map(|b| b.round_up(25)), Some(3));
    assert_eq!(spec.max_failures.map(|m| m.round_down(25)), Some(2));
    let spec = read(json!({ "rollout": { "batchSize": 4, "maxFailures": 0 } })).unwrap();
    assert_eq!(spec.batch_size, Some(Amount::Number(4)));
    assert_eq!(spec.max_failures, Some(Amount::Number(0)));
}

#[test]
fn overrides_are_for_jobs_with_one_device() {
    let one = read(json!({ "hostEndpoint": "10.0.0.1" })).unwrap();
    assert_eq!(one.host_endpoint, Some("10.0.0.1".into()));
    let two = read(json!({ "uuid": ["a", "b"], "hostEndpoint": "10.0.0.1" })).unwrap();
    assert_eq!((two.host_endpoint, two.ignored), (None, vec!["spec.hostEndpoint"]));
}

#[test]
fn a_bad_spec_is_named_by_its_path() {
    assert!(refusal(json!({ "uuid": [] })).starts_with("spec.uuid names no device"));
    assert_eq!(refusal(json!({ "uuid": ["a", " "] })), "spec.uuid[1] is empty");
    assert_eq!(refusal(json!({ "firmware": "  " })), "spec.firmware is empty");
    assert!(refusal(json!({ "flashjobPodImage": null })).contains("--flashjob-image"));
    assert!(refusal(json!({ "retry": { "limit": -1 } })).contains("from 0 to 100"));
    assert!(refusal(json!({ "firmware": 7 })).starts_with("spec.firmware cannot be read: "));
    let huge = refusal(json!({ "rollout": { "batchSize": 99_999_999_999_i64 } }));
    assert!(huge.starts_with("spec.rollout.batchSize cannot be read: "), "{huge}");
    let none = Spec::read(&json!({ "uuid": ["a"], "version": "v" }), &Settings::default());
    assert_eq!(none, Err(Invalid("spec cannot be read: missing field `firmware`".into())));
    assert!(refusal(json!({ "deviceSelector": {} })).contains("spec.deviceSelector"));
    assert!(refusal(json!({ "rollout": { "batchSize": 0 } })).contains("1 or more"));
    assert!(refusal(json!({ "rollout": { "maxFailures": "120%" } })).contains("100%"));
    assert!(refusal(json!({ "rollout": { "maxFailures": "some" } })).contains("some"));
}

#[test]
fn blanks_and_control_characters_are_refused_where_they_cannot_be_meant() {
    for (path, spec) in [
        ("spec.uuid[1]", json!({ "uuid": ["a", "b c"] })),
        ("spec.firmware", json!({ "firmware": "f :1" })),
        ("spec.flashjobPodImage", json!({ "flashjobPodImage": "i\n:1" })),
        ("spec.hostEndpoint", json!({ "hostEndpoint": "10.0.0.1 10.0.0.2" })),
        ("spec.externalIP", json!({ "uuid": ["a", "b"], "externalIP": "10.0.0.1\u{a0}x" })),
    ] {
        let why = refusal(spec);
        assert!(why.starts_with(&format!("{path} is \"")), "{why}");
        assert!(why.contains("no blanks or control characters"), "{why}");
    }
    for (path, spec) in [
        ("spec.version", json!({ "version": "0.2\u{1b}[0m" })),
        ("spec.device", json!({ "device": "esp\u{0}32" })),
        ("spec.applicationType", json!({ "applicationType": "a\u{7f}b" })),
    ] {
        assert!(refusal(spec).starts_with(&format!("{path} is \"")));
    }
    assert!(read(json!({ "version": "build 7", "applicationType": "a thing" })).is_ok());
}
