//! How it ended, as the operator reads it from the Pod's termination message.

use flashjob_api::flashjob::Report;

use crate::failure::Failure;

/// A kubelet keeps 4096 bytes of a termination message; the operator keeps 256 of the sentence.
const MESSAGE_BYTES: usize = 1024;
/// As much of a version as anybody wants to see; a device may say anything.
const VERSION_BYTES: usize = 128;

/// What the device said in the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// It was left as it is.
    pub skipped: bool,
    /// A sentence for people.
    pub message: String,
    /// The version it reported before.
    pub from: Option<String>,
    /// The version it reports now.
    pub to: Option<String>,
    /// The image that was sent.
    pub digest: Option<String>,
}

/// The termination message.
pub fn termination_message(outcome: &Result<Done, Failure>) -> String {
    let report = match outcome {
        Ok(done) => Report {
            result: Some(if done.skipped { Report::SKIPPED } else { Report::SUCCEEDED }.to_owned()),
            reason: None,
            message: Some(shortened(&done.message, MESSAGE_BYTES)),
            from: done.from.as_ref().map(|version| shortened(version, VERSION_BYTES)),
            to: done.to.as_ref().map(|version| shortened(version, VERSION_BYTES)),
            digest: done.digest.clone(),
        },
        Err(failure) => Report {
            result: Some(Report::FAILED.to_owned()),
            reason: Some(failure.reason.as_str().to_owned()),
            message: Some(shortened(&failure.message, MESSAGE_BYTES)),
            ..Report::default()
        },
    };
    // Strings alone: writing them cannot fail.
    serde_json::to_string(&report).unwrap_or_default()
}

/// Cut to so many bytes and on one line: what a control character takes in JSON could push the end out of the message.
fn shortened(text: &str, bytes: usize) -> String {
    let text = one_line(text);
    let end = text.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= bytes);
    text[..end.last().unwrap_or(0)].to_owned()
}

/// The text without control characters: a device may say anything, and people read it in terminals.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashjob_api::flashjob::Reason;

    #[test]
    fn the_operator_finds_result_reason_and_versions() {
        let done = Done {
            message: "runs 0.2.0".into(),
            from: Some("0.1.0".into()),
            to: Some("0.2.0".into()),
            digest: Some("sha256:ab".into()),
            skipped: false,
        };
        assert_eq!(
            termination_message(&Ok(done)),
            r#"{"result":"succeeded","message":"runs 0.2.0","from":"0.1.0","to":"0.2.0","digest":"sha256:ab"}"#
        );
        let failure = Failure::new(Reason::NotBack, "x".repeat(9999));
        let text = termination_message(&Err(failure));
        assert!(text.starts_with(r#"{"result":"failed","reason":"NotBack","message":"xxx"#));
        assert!(text.len() < 4096);
    }

    #[test]
    fn whatever_a_device_says_the_message_stays_whole() {
        for said in ["\u{1}", "\"", "\\", "\u{1b}[2J", "ü", "\n"] {
            let said = said.repeat(4096);
            let (from, to) = (Some(said.clone()), Some(said.clone()));
            let digest = Some(format!("sha256:{}", "a".repeat(64)));
            let done = Done { skipped: false, message: said.clone(), from, to, digest };
            let failure = Failure::new(Reason::InfoUnreadable, said);
            for outcome in [Ok(done), Err(failure)] {
                let text = termination_message(&outcome);
                assert!(text.len() < 4096 && !text.contains("\\u"), "{} bytes", text.len());
            }
        }
    }
}
