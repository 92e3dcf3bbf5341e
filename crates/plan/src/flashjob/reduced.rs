//! The status of a job whose full one the API server refuses: how the job stands, and why no more is said.
//!
//! What is refused is nearly always a list, for its length or for something in it. Without lists a status is a few KiB,
//! and nothing in it but its sentences was written by anybody else. So the job still says when it is done.

use flashjob_api::flashjob::FlashJobStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::flashjob::ledger;

/// The condition that says so; its reason is the same word.
const REFUSED: &str = "StatusRefused";
/// The longest message of the server that is repeated.
const SERVER_MESSAGE_BYTES: usize = 400;

/// What is left of a status when the server has refused it with this message.
pub fn reduced(full: FlashJobStatus, refusal: &str) -> FlashJobStatus {
    // Named one by one, so that a list that is added to the status is not forgotten here.
    let FlashJobStatus {
        phase,
        message,
        done,
        counts,
        batch,
        mut conditions,
        observed_generation,
        start_time,
        completion_time,
        host_endpoint: _,
        external_ip: _,
        completed_uuids: _,
        truncated: _,
        in_flight: _,
        failures: _,
    } = full;
    let why = format!("the API server refuses the full status: {}", shown_message(refusal));
    conditions.extend(conditions.first().cloned().map(|any| Condition {
        type_: REFUSED.into(),
        status: "True".into(),
        reason: REFUSED.into(),
        message: why.clone(),
        ..any
    }));
    FlashJobStatus {
        phase,
        message: Some(match message {
            Some(message) => format!("{message}; {why}"),
            None => why,
        }),
        done,
        counts,
        batch,
        conditions,
        observed_generation,
        start_time,
        completion_time,
        truncated: true,
        ..FlashJobStatus::default()
    }
}

/// The message of a server, or of whatever stands before it, as it is repeated: one line, and not too long.
pub fn shown_message(message: &str) -> String {
    let line: Vec<&str> = message
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|w| !w.is_empty())
        .collect();
    ledger::cut(line.join(" "), SERVER_MESSAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use flashjob_api::flashjob::{Counts, Failure, InFlight, Phase};
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    /// With something in every field.
    fn full() -> FlashJobStatus {
        let condition = |type_: &str| Condition {
            type_: type_.into(),
            status: "False".into(),
            reason: "Flashing".into(),
            message: "m".into(),
            observed_generation: Some(3),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        };
        FlashJobStatus {
            phase: Some(Phase::InProgress),
            message: Some("1 of 2 devices done".into()),
            done: Some("1/2".into()),
            counts: Some(Counts { total: 2, succeeded: 1, ..Counts::default() }),
            batch: Some(flashjob_api::flashjob::Batch { current: 1, of: 2 }),
            conditions: vec![condition("Complete"), condition("Failed")],
            observed_generation: Some(3),
            start_time: Some(Time(Timestamp::UNIX_EPOCH)),
            completion_time: Some(Time(Timestamp::UNIX_EPOCH)),
            host_endpoint: Some("192.0.2.1".into()),
            external_ip: Some("192.0.2.2".into()),
            completed_uuids: vec!["a".into()],
            truncated: false,
            in_flight: vec![InFlight::default()],
            failures: vec![Failure::default()],
        }
    }

    #[test]
    fn it_says_how_the_job_stands_and_why_no_more_and_lists_nothing() {
        let (before, after) = (full(), reduced(full(), "too large"));
        assert_eq!((after.phase, after.counts), (before.phase, before.counts));
        assert_eq!((&after.done, after.batch), (&before.done, before.batch));
        assert_eq!(after.observed_generation, before.observed_generation);
        assert_eq!(after.start_time, before.start_time);
        assert_eq!(after.completion_time, before.completion_time);
        assert!(after.truncated);
        assert!(after.completed_uuids.is_empty());
        assert!(after.in_flight.is_empty() && after.failures.is_empty());
        assert_eq!((after.host_endpoint, after.external_ip), (None, None));
        let why = "the API server refuses the full status: too large";
        assert_eq!(after.message, Some(format!("1 of 2 devices done; {why}")));
        assert_eq!(after.conditions[..2], before.conditions);
        let refused = &after.conditions[2];
        assert_eq!((refused.type_.as_str(), refused.status.as_str()), ("StatusRefused", "True"));
        assert_eq!((refused.reason.as_str(), refused.message.as_str()), ("StatusRefused", why));
        assert_eq!(refused.observed_generation, Some(3));
    }

    #[test]
    fn whatever_the_server_says_it_stays_small() {
        let page = "<html>\n<h1>413</h1>\r\n\u{1b}[31m".to_owned() + &"ä".repeat(100_000);
        let after = reduced(full(), &page);
        assert!(serde_json::to_string(&after).unwrap().len() < 4096);
        let message = after.message.unwrap();
        assert!(
            message.contains("<html> <h1>413</h1> [31mä") && message.ends_with('…'),
            "{message}"
        );
    }
}
