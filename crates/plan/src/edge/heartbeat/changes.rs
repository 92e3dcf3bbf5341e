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
    use serde_json::json;

    use super::*;

    fn status(phase: &str, upload: Option<&str>) -> Value {
        let mut workload = json!({ "name": "n", "phase": phase });
        if let Some(upload) = upload {
            workload["lastDataUpload"] = json!(upload);
        }
        json!({ "phase": "up", "workloads": [workload], "deployments": [workload] })
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
