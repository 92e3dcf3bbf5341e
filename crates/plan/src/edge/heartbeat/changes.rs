//! How urgently a status is to be written.

use std::time::Duration;

use serde_json::Value;

/// When only times of uploads have moved, a device's status is written no more often.
pub const UPLOADS_EVERY: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// It is there already.
    Nothing,
    /// Files were uploaded, and all else is as it was.
    UploadOnly,
    Change,
}

/// What is to be done for this status to take the place of that one. The times of conditions that have not turned are the
/// same in both.
pub fn urgency(before: &Value, after: &Value) -> Urgency {
    if before == after {
        return Urgency::Nothing;
    }
    let (mut before, mut after) = (before.clone(), after.clone());
    forget_uploads(&mut before);
    forget_uploads(&mut after);
    if before == after { Urgency::UploadOnly } else { Urgency::Change }
}

fn forget_uploads(status: &mut Value) {
    for list in ["workloads", "deployments"] {
        let entries = status.get_mut(list).and_then(Value::as_array_mut);
        for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
            entry.remove("lastDataUpload");
        }
    }
}

#[cfg(test)]
mod tests {
    use flashjob_api::edge::DeviceStatus;
    use jiff::Timestamp;
    use serde_json::json;

    use super::super::liveness::Live;
    use super::super::report::Report;
    use super::super::status::{Served, StatusView, Wanted, device_status};
    use super::*;

    fn status(phase: &str, upload: Option<&str>) -> Value {
        let mut workload = json!({ "name": "n", "phase": phase });
        if let Some(upload) = upload {
            workload["lastDataUpload"] = json!(upload);
        }
        json!({ "phase": "up", "workloads": [workload], "deployments": [workload] })
    }

    /// The time of a condition is of the moment; who writes it knows those of conditions that have not turned.
    fn without_times(status: &DeviceStatus) -> Value {
        let mut status = json!(status);
        for condition in status["conditions"].as_array_mut().unwrap() {
            condition["lastTransitionTime"].take();
        }
        status
    }

    #[test]
    fn a_clock_that_jumps_by_hours_writes_no_status_of_a_device_at_rest() {
        let at = |hours: i64| Timestamp::from_second(1_800_000_000 + hours * 3600).unwrap();
        let heartbeat = json!({
            "status": "up", "version": "v1", "workloads": [{ "name": "n", "status": "Running" }],
        });
        let report = Report::of(&serde_json::from_value(heartbeat).unwrap());
        let workloads = [Wanted { name: "n", problem: None }];
        let status = |before: &Value, report, live, hours| {
            let view = StatusView {
                generation: None,
                before,
                report,
                workloads: &workloads,
                served: Some(Served { version: "v1", since: at(0) }),
                held: false,
                live,
                registered: Some(at(0)),
                problems: &[],
                storage: None,
                certificate_end: Some(at(24 * 365)),
                unsupported: &[],
                data_obc: None,
            };
            device_status(&view, at(hours)).status
        };
        let silent = Live::Missing { since: at(-2) };
        for live in [Live::Reporting, silent] {
            let first = status(&Value::Null, Some(&report), live, 1);
            let before = json!(first);
            for hours in [1, 6, 20, -4, -20] {
                for report in [None, Some(&report)] {
                    let now = without_times(&status(&before, report, live, hours));
                    let urgency = urgency(&without_times(&first), &now);
                    assert_eq!(urgency, Urgency::Nothing, "{hours}: {now:#}");
                }
            }
        }
    }

    #[test]
    fn an_upload_alone_can_wait_and_nothing_else_can() {
        let before = status("Running", Some("2026-11-18T12:00:00Z"));
        assert_eq!(urgency(&before, &before.clone()), Urgency::Nothing);
        for upload in [None, Some("2026-11-18T13:00:00Z")] {
            assert_eq!(urgency(&before, &status("Running", upload)), Urgency::UploadOnly);
            assert_eq!(urgency(&before, &status("Exited", upload)), Urgency::Change);
        }
    }

    #[test]
    fn a_status_that_is_nonsense_is_replaced() {
        let after = status("Running", None);
        for nonsense in [json!(null), json!(7), json!({ "workloads": { "a": 1 } }), json!([])] {
            assert_eq!(urgency(&nonsense, &after), Urgency::Change, "{nonsense}");
            assert_eq!(urgency(&nonsense, &nonsense.clone()), Urgency::Nothing);
        }
    }
}
