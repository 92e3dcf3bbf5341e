//! The status as it is written: whole, only when it differs, and not more often than anybody can read it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::pool::Caller;
use super::slim::Slim;

/// How often the status of one object is written.
#[derive(Default)]
pub struct Throttle {
    /// A write is under way.
    pub busy: bool,
    /// It may be written at the reconcile that is under way, and is worked out in full.
    pub due: bool,
    /// When the last one was sent or answered, and the size of it.
    pub last: Option<(Instant, usize)>,
    /// Not before this: the last one failed.
    pub not_before: Option<Instant>,
    /// How many failed in a row.
    failures: u32,
}

impl Throttle {
    /// When the next write may be sent, where it is so long from the answer of one to the next.
    pub fn after(&self, pause: Duration) -> Option<Instant> {
        self.last.map(|(at, _)| at + pause).max(self.not_before)
    }

    /// A write is sent.
    pub fn sent(&mut self, now: Instant, size: usize) {
        (self.busy, self.last) = (true, Some((now, size)));
    }

    /// The write under way has come to its end. The pause begins now: a slow server gets no more of them.
    pub fn answered(&mut self, now: Instant) {
        self.busy = false;
        self.last = self.last.map(|(_, size)| (now, size));
    }

    /// A reconcile begins. Says whether its status may be written.
    pub fn ask(&mut self, urgent: bool, now: Instant) -> bool {
        self.due = !self.busy && self.next(urgent).is_none_or(|at| at <= now);
        self.due
    }

    /// A write has failed, and may go well the next time. Says when that is.
    pub fn failed(&mut self, now: Instant) -> Instant {
        let at = now + Duration::from_millis(100 << self.failures.min(8));
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(at);
        at
    }

    /// A write went well.
    pub fn succeeded(&mut self) {
        (self.failures, self.not_before) = (0, None);
    }

    /// When the next status may be written: the first at once, the final one at once, any other after a pause that
    /// keeps a large status from filling the API server's history.
    pub fn next(&self, urgent: bool) -> Option<Instant> {
        let paced = match self.last {
            Some((at, size)) if !urgent => {
                let pause = Duration::from_micros(size as u64 * 10); // 100 KB/s
                Some(at + pause.max(Duration::from_secs(1)))
            }
            _ => None,
        };
        paced.max(self.not_before)
    }
}

/// The new status with the times of conditions that have not changed; `None` if it is what is there already.
pub fn difference(old: &Value, new: &impl Serialize, now: Timestamp) -> Option<Value> {
    let mut new = serde_json::to_value(new).unwrap_or_default();
    let before = conditions(old);
    let list = new.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in list.into_iter().flatten() {
        let is = |known: &Condition| {
            condition["type"] == known.type_ && condition["status"] == known.status
        };
        let since = before.iter().find(|known| is(known)).map(|same| &same.last_transition_time);
        condition["lastTransitionTime"] = json!(since.unwrap_or(&Time(now)));
    }
    (old != &new).then_some(new)
}

/// The events that follow from one status after another: a condition of these types came to hold, or holds for another
/// reason.
pub fn events(old: &Value, new: &Value, types: &[&str], action: &str) -> Vec<Event> {
    let before = conditions(old);
    conditions(new)
        .into_iter()
        .filter(|c| types.contains(&c.type_.as_str()) && c.status == "True")
        .filter(|c| {
            let same =
                |b: &&Condition| b.type_ == c.type_ && b.status == c.status && b.reason == c.reason;
            before.iter().find(same).is_none()
        })
        .map(|c| Event {
            type_: if c.type_ == "Failed" { EventType::Warning } else { EventType::Normal },
            reason: c.reason,
            note: Some(c.message),
            action: action.into(),
            secondary: None,
        })
        .collect()
}

/// Replaces the whole status, if the object is still the one it was decided on.
pub fn patch(version: &str, status: &Value) -> Value {
    json!([
        { "op": "test", "path": "/metadata/resourceVersion", "value": version },
        { "op": "add", "path": "/status", "value": status },
    ])
}

/// Sends such a patch.
pub async fn write<A: Slim>(
    caller: &Caller,
    namespace: &str,
    name: &str,
    patch: Value,
) -> kube::Result<A> {
    let patch = serde_json::from_value(patch).map_err(kube::Error::SerdeError)?;
    let (params, patch) = (PatchParams::default(), Patch::<()>::Json(patch));
    let api: Api<A> = Api::namespaced(caller.client.clone(), namespace);
    caller.call(api.patch_status(name, &params, &patch)).await
}

/// The conditions of any status, however broken the rest of it is.
fn conditions(status: &Value) -> Vec<Condition> {
    let list = status.get("conditions").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|c| serde_json::from_value(c.clone()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(holds: &str, reason: &str) -> Value {
        let condition = Condition {
            type_: "Progressing".into(),
            status: holds.into(),
            reason: reason.into(),
            message: "m".into(),
            observed_generation: Some(1),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        };
        json!({ "conditions": [condition] })
    }

    fn events(old: &Value, new: &Value) -> Vec<Event> {
        super::events(old, new, &["Progressing"], "Work")
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn an_equal_status_is_not_written_and_times_move_only_when_a_condition_turns() {
        let first = difference(&Value::Null, &status("True", "A"), at(10)).unwrap();
        assert_eq!(difference(&first, &status("True", "A"), at(20)), None);
        let other_reason = difference(&first, &status("True", "B"), at(20)).unwrap();
        assert_eq!(conditions(&other_reason)[0].last_transition_time, Time(at(10)));
        let turned = difference(&first, &status("False", "A"), at(20)).unwrap();
        assert_eq!(conditions(&turned)[0].last_transition_time, Time(at(20)));
    }

    #[test]
    fn nonsense_is_replaced() {
        let nonsense = json!({ "phase": "Eaten", "conditions": [7, { "type": "X" }], "mine": 1 });
        let written = difference(&nonsense, &status("True", "A"), at(10)).unwrap();
        assert_eq!(written.get("mine"), None);
    }

    #[test]
    fn an_event_is_told_once() {
        let first = difference(&Value::Null, &status("True", "A"), at(10)).unwrap();
        assert_eq!(events(&Value::Null, &first).len(), 1);
        let second = difference(&first, &status("True", "B"), at(20)).unwrap();
        assert_eq!(events(&first, &second).len(), 1);
        assert_eq!(events(&second, &second).len(), 0);
        let off = difference(&first, &status("False", "A"), at(20)).unwrap();
        assert_eq!(events(&first, &off).len(), 0);
    }
}
