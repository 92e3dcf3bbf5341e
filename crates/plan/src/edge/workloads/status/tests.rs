use flashjob_api::edge::EdgeReason;
use serde_json::{Value, json};

use super::super::accept::accept;
use super::super::tests::{pod, workload};
use super::*;

fn accepted(more: Value) -> Accepted {
    let mut spec = json!({ "pod": pod() });
    spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    accept(&workload("web", &spec)).unwrap()
}

fn told(phase: &str) -> Seen<'_> {
    Seen { phase: Some(phase), reporting: true, ..Seen::default() }
}

/// Complete in two words, `running`, and the message.
fn summary(status: &WorkloadStatus) -> (String, &str, &str) {
    let complete = status.conditions.iter().find(|c| c.type_ == "Complete").unwrap();
    let running = status.running.as_deref().unwrap_or_default();
    let message = status.message.as_deref().unwrap_or_default();
    assert_eq!(complete.message, if running.is_empty() { &complete.message } else { message });
    (format!("{} {}", complete.status, complete.reason), running, message)
}

#[test]
fn podmans_words_say_how_far_a_workload_is() {
    for (phase, wanted) in [
        ("Running", WorkloadState::Running),
        ("running", WorkloadState::Running),
        ("Deploying", WorkloadState::Deploying),
        ("Created", WorkloadState::Deploying),
        ("Sleeping", WorkloadState::Deploying),
        ("", WorkloadState::Deploying),
        ("Degraded", WorkloadState::Failed),
        ("Paused", WorkloadState::Failed),
        ("Stopped", WorkloadState::Failed),
        ("Exited", WorkloadState::Failed),
        ("Error", WorkloadState::Failed),
    ] {
        assert_eq!(state(&told(phase), false), wanted, "{phase}");
        let silent = Seen { reporting: false, ..told(phase) };
        assert_eq!(state(&silent, false), WorkloadState::Offline, "{phase}, and silent since");
    }
    assert_eq!(state(&Seen { phase: None, ..told("") }, false), WorkloadState::Deploying);
}

#[test]
fn a_pod_that_is_to_end_and_ended_well_is_no_failure() {
    let exited = |phase, exit_code| Seen { exit_code, ..told(phase) };
    assert_eq!(state(&exited("Exited", Some(0)), true), WorkloadState::Running);
    assert_eq!(state(&exited("Exited", Some(1)), true), WorkloadState::Failed);
    assert_eq!(state(&exited("Exited", None), true), WorkloadState::Failed, "nobody knows");
    assert_eq!(state(&exited("Error", Some(0)), true), WorkloadState::Failed);
    assert_eq!(state(&exited("Exited", Some(0)), false), WorkloadState::Failed, "it is to go on");
}

#[test]
fn what_cannot_be_sent_has_failed_where_it_does_not_run() {
    let missing = Problem::new(EdgeReason::SecretMissing, "there is no Secret s");
    let held = |phase| state(&Seen { problem: Some(&missing), ..told(phase) }, false);
    assert_eq!(held("Running"), WorkloadState::Running);
    assert_eq!(held("Deploying"), WorkloadState::Failed);
}

#[test]
fn a_workload_is_complete_when_every_device_runs_it() {
    let workload = accepted(json!({ "deviceSelector": {} }));
    let silent = Seen { reporting: false, ..told("Running") };
    let (running, deploying, failed) = (told("Running"), told("Deploying"), told("Error"));
    for (devices, complete, numbers, message) in [
        (vec![running], "True Running", "1/1", "1 of 1 device runs it"),
        (vec![running, running], "True Running", "2/2", "2 of 2 devices run it"),
        (
            vec![running, silent, running, deploying, running],
            "False Deploying",
            "3/5",
            "3 of 5 devices run it, 1 deploying, 1 offline",
        ),
        (vec![silent, running], "False Offline", "1/2", "1 of 2 devices run it, 1 offline"),
        (
            vec![silent, failed, deploying],
            "False Failed",
            "0/3",
            "0 of 3 devices run it, 1 deploying, 1 failed, 1 offline",
        ),
        (vec![], "False NoDevices", "0/0", "no device has the labels that it is for"),
    ] {
        let tally = Tally::of(&workload, devices);
        let counts = tally.counts();
        let sum = counts.running + counts.deploying + counts.failed + counts.offline;
        assert_eq!(sum, counts.matched);
        let status = tally.status(&workload, 3, Timestamp::UNIX_EPOCH);
        assert_eq!(summary(&status), (complete.to_owned(), numbers, message));
        assert_eq!(status.counts, Some(counts));
        assert_eq!(status.conditions[0].status, "True");
        assert!(status.conditions.iter().all(|c| c.observed_generation == Some(3)));
    }
}

#[test]
fn what_cannot_be_sent_keeps_a_workload_from_being_complete_and_is_told_in_the_same_words() {
    let workload = accepted(json!({ "device": "one" }));
    let s = Problem::new(EdgeReason::SecretMissing, "there is no Secret s");
    let t = Problem::new(EdgeReason::SecretMissing, "there is no Secret t");
    let [with_s, with_t] = [&s, &t].map(|p| Seen { problem: Some(p), ..told("Running") });
    let status =
        |devices| Tally::of(&workload, devices).status(&workload, 1, Timestamp::UNIX_EPOCH);
    let one = status(vec![told("Running"), with_t, with_s]);
    let wanted =
        "3 of 3 devices run it; it cannot be sent to 2: SecretMissing: there is no Secret s";
    assert_eq!(summary(&one), ("False SecretMissing".into(), "3/3", wanted));
    assert_eq!(one, status(vec![with_s, told("Running"), with_t]), "in whatever order");
}

#[test]
fn a_workload_without_devices_says_why() {
    let message = |more| {
        let workload = accepted(more);
        let status = Tally::default().status(&workload, 1, Timestamp::UNIX_EPOCH);
        status.message.unwrap()
    };
    assert_eq!(message(json!({ "device": "one" })), "there is no device one");
    let nobody = "it is for no device: it has no device and no deviceSelector";
    assert_eq!(message(json!({})), nobody);
}

#[test]
fn one_that_is_refused_says_where_and_counts_nothing() {
    let facts = workload("web", &json!({ "pod": pod(), "type": "vm" }));
    let problem = accept(&facts).unwrap_err();
    let status = refused_status(&problem, 2, Timestamp::UNIX_EPOCH);
    let wanted = "InvalidSpec: spec.type: devices run nothing but pods; make it pod";
    assert_eq!(summary(&status), ("False NotAccepted".into(), "", wanted));
    assert_eq!((status.counts, status.observed_generation), (None, Some(2)));
    let accepted = &status.conditions[0];
    assert_eq!((accepted.type_.as_str(), accepted.reason.as_str()), ("Accepted", "InvalidSpec"));
    assert_eq!(accepted.message, problem.message);
}
