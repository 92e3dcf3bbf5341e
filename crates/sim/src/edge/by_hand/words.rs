//! What a device was told, for somebody who has never seen one.

use std::collections::BTreeMap;

use crate::edge::ledger::{News, Outcome, Told};
use crate::edge::operation::Operation;

/// Says nothing of polls that were answered as before.
pub(super) struct Words {
    id: String,
    last: BTreeMap<Operation, (Outcome, Option<String>)>,
    /// Why there was no answer, as long as there is none.
    silence: Option<String>,
    knocks: u64,
    beats: u64,
}

impl Words {
    pub fn new(id: &str) -> Self {
        Self { id: id.to_owned(), last: BTreeMap::new(), silence: None, knocks: 0, beats: 0 }
    }

    /// A line, or nothing.
    pub fn about(&mut self, news: &News) -> Option<String> {
        match news {
            News::Told(told) => self.told(told),
            News::Certificate(received) => Some(format!(
                "has a certificate of its own, good until {}; its key is {:.16}…",
                received.not_after, received.fingerprint
            )),
            News::Configuration(received) => Some(match received.workloads.as_slice() {
                [] => format!("configuration {}: it has nothing to run", received.version),
                some => format!("configuration {}: it runs {}", received.version, some.join(", ")),
            }),
            News::Disconnect(_) => Some(
                "told to disconnect: it stops all it runs and asks for nothing more. To have it join again, start it again"
                    .to_owned(),
            ),
        }
    }

    fn told(&mut self, told: &Told) -> Option<String> {
        let now = (told.outcome, told.reason.clone());
        let same = self.last.insert(told.operation, now.clone()) == Some(now);
        if told.outcome != Outcome::NoAnswer {
            self.silence = None;
        }
        match (told.operation, told.outcome) {
            (Operation::Enrol, Outcome::Status(200)) => {
                self.knocks += 1;
                Some(format!(
                    "asks to be let in (try {}) and waits until somebody approves of it: kubectl edit \
                     edgedevicesignedrequest {}, and set approved to true",
                    self.knocks, self.id
                ))
            }
            (Operation::Enrol, Outcome::Status(208)) => {
                Some("is let in, and asks for a certificate".to_owned())
            }
            (Operation::Heartbeat, Outcome::Status(200)) => {
                self.beats += 1;
                Some(format!("heartbeat {} was taken", self.beats))
            }
            (_, Outcome::Status(200 | 304)) => None,
            _ if same && told.operation.is_in() => None,
            (operation, Outcome::Status(status)) => {
                let why = told.reason.as_deref().unwrap_or("no reason given");
                Some(format!("{operation}: {status}, {why}{}", advice(operation, status)))
            }
            (operation, Outcome::NoAnswer) => {
                let why = told.reason.clone().unwrap_or_default();
                if self.silence.as_ref() == Some(&why) {
                    return (!operation.is_in()).then(|| format!("{operation}: still no answer"));
                }
                let text = format!(
                    "{operation}: {why}. It tries again; see whether the server runs, and whether --server, --server-name \
                     and ca.pem are right"
                );
                self.silence = Some(why);
                Some(text)
            }
        }
    }
}

/// What somebody can do about it.
fn advice(operation: Operation, status: u16) -> &'static str {
    match (operation, status) {
        (Operation::Enrol | Operation::Register, 401) => {
            ". The bundle is not of this cluster, or has expired: get it anew"
        }
        (Operation::Register, 403) => {
            ". A device of this name is in use: choose another --id, start it with its --state, or reset it"
        }
        (Operation::FetchConfiguration | Operation::FetchCommands, 403) => {
            ". That is so until it has a certificate of its own"
        }
        (_, 422) => ". Is --id a Kubernetes name?",
        (_, 429 | 503) => ". The server is busy, and it tries again later",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn told(operation: Operation, status: u16) -> News {
        let at = Timestamp::UNIX_EPOCH;
        let (outcome, reason) = (Outcome::Status(status), None);
        News::Told(Told { at, operation, outcome, reason, bytes: 0 })
    }

    #[test]
    fn polls_are_spoken_of_when_something_is_new() {
        let mut words = Words::new("edge1");
        let mut said = |operation, status| words.about(&told(operation, status)).is_some();
        assert!(said(Operation::FetchCommands, 403));
        assert!(!said(Operation::FetchCommands, 403), "the same");
        assert!(!said(Operation::FetchCommands, 200), "as it should be");
        assert!(said(Operation::FetchCommands, 403), "again");
        assert!(said(Operation::Enrol, 200) && said(Operation::Enrol, 200), "it goes on");
        assert!(said(Operation::Register, 403) && said(Operation::Register, 403));
    }
}
