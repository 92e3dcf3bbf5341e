use flashjob_api::flashjob::{Counts, Failure};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use serde_json::json;

use super::*;

fn job(status: FlashJobStatus) -> JobObject {
    let metadata = ObjectMeta { name: Some("thermo".into()), ..ObjectMeta::default() };
    JobObject { metadata, spec: json!({}), status }
}

fn condition(reason: &str) -> Condition {
    Condition {
        type_: "Stalled".to_owned(),
        status: "False".to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
        observed_generation: None,
    }
}

#[test]
fn every_device_that_is_not_done_has_a_sentence_and_something_to_do() {
    let status = FlashJobStatus {
        phase: Some(Phase::InProgress),
        message: Some("1 of 9 devices done".to_owned()),
        conditions: vec![condition("Flashing")],
        counts: Some(Counts { pending: 3, failed: 1, offline: 1, ..Counts::default() }),
        in_flight: vec![InFlight {
            uuid: "n/a".to_owned(),
            state: DeviceState::Offline,
            message: Some("no Akri Instance for this device now".to_owned()),
            until: Some(Time(jiff::Timestamp::UNIX_EPOCH)),
            ..InFlight::default()
        }],
        failures: vec![Failure {
            uuid: "n/b".to_owned(),
            reason: "NoCallback".to_owned(),
            message: "nobody called".to_owned(),
            attempts: 3,
            ..Failure::default()
        }],
        ..FlashJobStatus::default()
    };
    let wanted = [
        "thermo: InProgress: 1 of 9 devices done",
        "n/a: Offline: no Akri Instance for this device now; until 00:00:00 UTC at most",
        "  What to do: check the board's power and network, and Akri's agent; it goes on when Akri finds it",
        "n/b: NoCallback, tried 3 times: nobody called",
        "  What to do: check that the board reaches the Service's address on port 4433, and that it pins the flasher's certificate",
        "Not begun yet: 3; their batch comes later, or others go first.",
    ];
    assert_eq!(explain(&job(status)), wanted);
}

#[test]
fn a_job_that_stands_still_says_what_to_do() {
    let of = |phase, reason: &str| {
        let status = FlashJobStatus {
            phase,
            conditions: vec![condition(reason)],
            counts: Some(Counts::default()),
            ..FlashJobStatus::default()
        };
        explain(&job(status)).join("\n")
    };
    assert!(of(None, "").contains("kubectl flashjob check"));
    assert!(of(Some(Phase::Suspended), "Suspended").contains("rollout resume thermo"));
    assert!(of(Some(Phase::Failed), "InvalidSpec").contains("mend the field"));
    assert!(of(Some(Phase::Pending), "NoDevices").contains("kubectl flashjob devices"));
    assert!(of(Some(Phase::Completed), "Completed").contains("Every device is done."));
}
