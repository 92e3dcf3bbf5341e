//! What an attempt came to, read off its Pod.
//!
//! The flasher says in its termination message what happened; images that do not are believed by their exit code.

use flashjob_api::flashjob::{Reason, Report};

use crate::flashjob::facts::{Container, Pod, PodPhase};
use crate::flashjob::ledger::{MESSAGE_BYTES, Outcome};

/// The end of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// How it ended.
    pub outcome: Outcome,
    /// Why, unless it went well.
    pub reason: Option<Reason>,
    /// In words.
    pub message: String,
    /// The image that was flashed, where the flasher says so.
    pub digest: Option<String>,
}

impl End {
    /// A failure.
    pub fn failed(reason: Reason, message: String) -> End {
        End { outcome: Outcome::Failed, reason: Some(reason), message, digest: None }
    }

    /// One word for the log and the metrics.
    pub fn result(&self) -> &'static str {
        match (self.outcome, self.reason) {
            (Outcome::Succeeded, _) => "Succeeded",
            (Outcome::Skipped, _) => "Skipped",
            (Outcome::Failed, reason) => reason.unwrap_or(Reason::FlashFailed).as_str(),
        }
    }
}

/// Reads the end of an attempt off a Pod that is over.
pub fn of(pod: &Pod) -> End {
    let Container::Ended { exit_code, reason, message, .. } = &pod.container else {
        return silent_end(pod);
    };
    let text = message.as_deref().unwrap_or_default().trim();
    let report: Option<Report> = serde_json::from_str(text).ok();
    let said = match &report {
        Some(report) => report.message.clone().unwrap_or_default(),
        None => last_lines(text),
    };
    let report = report.unwrap_or_default();
    let deadline = pod.reason.as_deref() == Some("DeadlineExceeded");
    let too_long = "the attempt took longer than timeouts.deviceSeconds";
    let (skipped, failed) = (report.says(Report::SKIPPED), report.says(Report::FAILED));
    match *exit_code {
        // Told to end, many programs exit with 0. That says nothing of the firmware, unless the message does.
        0 if deadline && report.result.is_none() => End::failed(Reason::Timeout, too_long.into()),
        // A script that swallows the exit code of its flasher: the message is the better witness.
        0 if failed => {
            let reason = report.reason.as_deref().and_then(Reason::parse);
            let silent = "the flash container says it failed";
            let message = if said.is_empty() { silent.to_owned() } else { said };
            End::failed(reason.unwrap_or(Reason::FlashFailed), message)
        }
        0 if skipped => {
            End { outcome: Outcome::Skipped, reason: None, message: said, digest: None }
        }
        0 => {
            let digest = report.digest;
            End { outcome: Outcome::Succeeded, reason: None, message: said, digest }
        }
        code => {
            let reason_word = report.reason.as_deref().and_then(Reason::parse);
            let fallback = if deadline { Reason::Timeout } else { Reason::FlashFailed };
            let runtime = reason.as_deref().unwrap_or("Error");
            let message = if !said.is_empty() {
                said
            } else if deadline {
                too_long.into()
            } else {
                format!("the flash container ended with exit code {code} ({runtime})")
            };
            End::failed(reason_word.unwrap_or(fallback), message)
        }
    }
}

/// Of plain text, usually the end of a log, the end says what happened.
fn last_lines(text: &str) -> String {
    let start = text.len().saturating_sub(MESSAGE_BYTES);
    match (start..text.len()).find(|at| text.is_char_boundary(*at)) {
        // Not the second half of a line, if a whole one follows.
        Some(at) if at > 0 => {
            let tail = &text[at..];
            tail.split_once('\n').map_or(tail, |(_, whole)| whole).to_owned()
        }
        _ => text.to_owned(),
    }
}

/// A Pod that ended without a word about its container: evicted, refused by its node, or past its deadline.
fn silent_end(pod: &Pod) -> End {
    let note = pod.note.clone().unwrap_or_else(|| "the Pod ended without saying why".into());
    match (pod.phase, pod.reason.as_deref()) {
        (PodPhase::Succeeded, _) => {
            End { outcome: Outcome::Succeeded, reason: None, message: String::new(), digest: None }
        }
        (_, Some("DeadlineExceeded")) if pod.started() => End::failed(Reason::Timeout, note),
        (_, Some("DeadlineExceeded")) => End::failed(Reason::NotStarted, note),
        (_, Some(word)) => End::failed(Reason::FlashFailed, format!("{word}: {note}")),
        (_, None) => End::failed(Reason::FlashFailed, note),
    }
}

/// Why a Pod has not started: the message of kubelet or scheduler.
pub fn why_not_started(pod: &Pod) -> String {
    let message = match &pod.container {
        Container::Waiting(Some(why)) => Some(why.clone()),
        _ => pod.note.clone(),
    };
    message.unwrap_or_else(|| "the flash Pod has not started yet".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn ended(exit_code: i32, message: &str) -> Pod {
        Pod {
            version: 1,
            name: "pod".into(),
            uid: "uid".into(),
            endpoint: "at".into(),
            first_seen: Timestamp::UNIX_EPOCH,
            deleting: None,
            phase: if exit_code == 0 { PodPhase::Succeeded } else { PodPhase::Failed },
            container: Container::Ended {
                exit_code,
                reason: None,
                message: Some(message.into()),
                at: None,
            },
            reason: None,
            note: None,
            terminal_since: None,
        }
    }

    #[test]
    fn the_flasher_is_quoted_and_other_images_are_believed_by_their_exit_code() {
        let cases = [
            (ended(0, ""), "Succeeded", ""),
            (ended(0, r#"{"result":"Skipped","message":"runs 0.2.0"}"#), "Skipped", "runs 0.2.0"),
            (ended(1, r#"{"reason":"NotBack","message":"gone"}"#), "NotBack", "gone"),
            (ended(0, r#"{"result":"failed","reason":"NotBack","message":"m"}"#), "NotBack", "m"),
            (
                ended(0, r#"{"result":"Failed"}"#),
                "FlashFailed",
                "the flash container says it failed",
            ),
            (ended(1, r#"{"reason":"NewerThanWe","message":"m"}"#), "FlashFailed", "m"),
            (ended(2, "panic: oh"), "FlashFailed", "panic: oh"),
            (ended(3, ""), "FlashFailed", "the flash container ended with exit code 3 (Error)"),
        ];
        for (pod, result, message) in cases {
            let end = of(&pod);
            assert_eq!((end.result(), end.message.as_str()), (result, message));
        }
    }

    #[test]
    fn of_a_long_log_the_end_is_kept() {
        let log = format!("{}\nfatal: no route to board", "noise\n".repeat(200));
        let end = of(&ended(1, &log));
        assert!(end.message.ends_with("fatal: no route to board"), "{}", end.message);
        assert!(end.message.starts_with("noise"), "{}", end.message);
        let one_line = of(&ended(1, &"ä".repeat(300))).message;
        assert!(one_line.len() <= MESSAGE_BYTES && one_line.starts_with('ä'));
    }

    #[test]
    fn a_killed_container_past_the_deadline_is_a_timeout() {
        let mut pod = ended(137, "");
        pod.reason = Some("DeadlineExceeded".into());
        assert_eq!(of(&pod).reason, Some(Reason::Timeout));
    }

    #[test]
    fn past_the_deadline_exit_code_0_alone_is_no_success() {
        let past = |message: &str| {
            let reason = Some("DeadlineExceeded".into());
            of(&Pod { reason, phase: PodPhase::Failed, ..ended(0, message) })
        };
        assert_eq!(past("").result(), "Timeout");
        assert_eq!(past("bye").result(), "Timeout");
        assert_eq!(past(r#"{"result":"succeeded"}"#).result(), "Succeeded");
    }
}
