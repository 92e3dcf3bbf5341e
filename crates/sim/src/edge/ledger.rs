//! What a device was told, and when, kept for tests that trust nobody else.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use anyhow::Result;
use jiff::Timestamp;

use super::client::Answer;
use super::credential::Credential;
use super::operation::Operation;

/// So many of the last answers are kept whole; the counts know all of them.
const KEPT: usize = 1000;

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    Status(u16),
    /// It was lost, or nobody was there, or the connection broke.
    NoAnswer,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub at: Timestamp,
    pub operation: Operation,
    pub outcome: Outcome,
    /// Why, in the server's words; without an answer in ours.
    pub reason: Option<String>,
    /// The length of its body.
    pub bytes: usize,
}

/// A certificate that was taken into use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedCertificate {
    pub at: Timestamp,
    /// Of the key it is for.
    pub fingerprint: String,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    /// The fingerprint of the key that signed it; `None` if the device trusts none such.
    pub issuer: Option<String>,
}

/// A configuration, when it was another than the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedConfiguration {
    pub at: Timestamp,
    pub version: String,
    /// The names of the workloads, in their order.
    pub workloads: Vec<String>,
}

/// Something new in a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    Told(Told),
    Certificate(ReceivedCertificate),
    Configuration(ReceivedConfiguration),
    Disconnect(Timestamp),
}

/// The record of one device, in the order things happened.
#[derive(Debug, Clone, Default)]
pub struct DeviceLedger {
    pub device: String,
    /// The last answers.
    pub told: VecDeque<Told>,
    pub certificates: Vec<ReceivedCertificate>,
    pub configurations: Vec<ReceivedConfiguration>,
    /// When it was told to disconnect.
    pub disconnects: Vec<Timestamp>,
    /// Answers without a body to questions for configuration and commands.
    pub empty_bodies: u64,
    /// Answers to such questions that are no 200 and have a body all the same. The original's gateway takes them for messages.
    pub stray_bodies: u64,
    /// Bodies and certificates that could not be read, and why.
    pub unreadable: Vec<String>,
    counts: BTreeMap<(Operation, Outcome), u64>,
    last: BTreeMap<Operation, Told>,
    registered: bool,
}

impl DeviceLedger {
    pub(super) fn new(device: &str) -> Self {
        Self { device: device.to_owned(), ..Self::default() }
    }

    /// Whether it has a certificate of its own.
    pub fn registered(&self) -> bool {
        self.registered
    }

    /// How often it was told to disconnect.
    pub fn disconnects(&self) -> usize {
        self.disconnects.len()
    }

    /// The keys it has had certificates for.
    pub fn keys_in_use(&self) -> BTreeSet<&str> {
        self.certificates.iter().map(|received| received.fingerprint.as_str()).collect()
    }

    /// The last answer to this.
    pub fn last(&self, operation: Operation) -> Option<&Told> {
        self.last.get(&operation)
    }

    /// The status of the last answer to this; `None` if there was none.
    pub fn last_status(&self, operation: Operation) -> Option<u16> {
        match self.last(operation)?.outcome {
            Outcome::Status(status) => Some(status),
            Outcome::NoAnswer => None,
        }
    }

    /// How often this ended like that.
    pub fn count(&self, operation: Operation, outcome: Outcome) -> u64 {
        self.counts.get(&(operation, outcome)).copied().unwrap_or_default()
    }

    /// How often this was answered with that status.
    pub fn answered(&self, operation: Operation, status: u16) -> u64 {
        self.count(operation, Outcome::Status(status))
    }

    pub fn counts(&self) -> &BTreeMap<(Operation, Outcome), u64> {
        &self.counts
    }

    /// The configuration it has.
    pub fn configuration(&self) -> Option<&ReceivedConfiguration> {
        self.configurations.last()
    }

    pub(super) fn tell(
        &mut self,
        at: Timestamp,
        operation: Operation,
        answer: &Result<Answer>,
    ) -> News {
        let told = match answer {
            Ok(answer) => Told {
                at,
                operation,
                outcome: Outcome::Status(answer.code()),
                reason: answer.reason(),
                bytes: answer.body.len(),
            },
            Err(error) => {
                let (outcome, reason) = (Outcome::NoAnswer, Some(format!("{error:#}")));
                Told { at, operation, outcome, reason, bytes: 0 }
            }
        };
        if operation.is_in() && told.outcome != Outcome::NoAnswer {
            self.empty_bodies += u64::from(told.bytes == 0);
            let stray = told.bytes > 0 && told.outcome != Outcome::Status(200);
            self.stray_bodies += u64::from(stray);
        }
        *self.counts.entry((operation, told.outcome)).or_default() += 1;
        self.last.insert(operation, told.clone());
        if self.told.len() == KEPT {
            self.told.pop_front();
        }
        self.told.push_back(told.clone());
        News::Told(told)
    }

    /// One was taken into use.
    pub(super) fn take(&mut self, at: Timestamp, credential: &Credential) -> Option<News> {
        let certificate = credential.shown()?.leaf();
        let received = ReceivedCertificate {
            at,
            fingerprint: certificate.key_fingerprint(),
            not_before: certificate.not_before(),
            not_after: certificate.not_after(),
            issuer: credential.issuer(),
        };
        self.registered = true;
        self.certificates.push(received.clone());
        Some(News::Certificate(received))
    }

    pub(super) fn configure(
        &mut self,
        at: Timestamp,
        version: &str,
        workloads: Vec<String>,
    ) -> Option<News> {
        if let Some(last) = self.configurations.last()
            && last.version == version
            && last.workloads == workloads
        {
            return None;
        }
        let received = ReceivedConfiguration { at, version: version.to_owned(), workloads };
        self.configurations.push(received.clone());
        Some(News::Configuration(received))
    }

    /// `keeps`: its certificate, all the same.
    pub(super) fn disconnect(&mut self, at: Timestamp, keeps: bool) -> News {
        self.registered &= keeps;
        self.disconnects.push(at);
        News::Disconnect(at)
    }

    /// The device started with a certificate that it had before.
    pub(super) fn came_registered(&mut self) {
        self.registered = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};

    fn answer(status: u16, body: &'static str) -> Result<Answer> {
        let status = StatusCode::from_u16(status)?;
        Ok(Answer { status, headers: HeaderMap::new(), body: Bytes::from_static(body.as_bytes()) })
    }

    #[test]
    fn answers_are_counted_when_they_are_no_longer_kept() {
        let mut ledger = DeviceLedger::new("a");
        let at = Timestamp::UNIX_EPOCH;
        for _ in 0..KEPT + 5 {
            ledger.tell(at, Operation::Heartbeat, &answer(200, ""));
        }
        ledger.tell(at, Operation::Enrol, &Err(anyhow!("nobody").context("in vain")));
        assert_eq!(ledger.told.len(), KEPT);
        assert_eq!(ledger.answered(Operation::Heartbeat, 200), KEPT as u64 + 5);
        assert_eq!(ledger.count(Operation::Enrol, Outcome::NoAnswer), 1);
        assert_eq!(ledger.last_status(Operation::Enrol), None);
        let reason = ledger.last(Operation::Enrol).unwrap().reason.as_deref();
        assert_eq!(reason, Some("in vain: nobody"));
        assert_eq!(ledger.empty_bodies, 0, "heartbeats have none to miss");
    }

    #[test]
    fn a_body_where_none_may_be_is_noticed() {
        let mut ledger = DeviceLedger::new("a");
        let at = Timestamp::UNIX_EPOCH;
        ledger.tell(at, Operation::FetchCommands, &answer(200, ""));
        ledger.tell(at, Operation::FetchCommands, &answer(200, "{}"));
        ledger.tell(at, Operation::FetchCommands, &answer(403, "{\"message\":\"not you\"}"));
        ledger.tell(at, Operation::Register, &answer(403, "{\"message\":\"in use\"}"));
        assert_eq!((ledger.empty_bodies, ledger.stray_bodies), (1, 1));
        let reason = ledger.last(Operation::Register).unwrap().reason.as_deref();
        assert_eq!(reason, Some("in use"));
    }

    #[test]
    fn a_configuration_counts_when_it_is_another() {
        let mut ledger = DeviceLedger::new("a");
        let at = Timestamp::UNIX_EPOCH;
        assert!(ledger.configure(at, "1", vec!["nginx".into()]).is_some());
        assert!(ledger.configure(at, "1", vec!["nginx".into()]).is_none());
        assert!(ledger.configure(at, "2", vec![]).is_some());
        assert_eq!(ledger.configurations.len(), 2);
        ledger.came_registered();
        ledger.disconnect(at, true);
        assert!(ledger.registered());
        ledger.disconnect(at, false);
        assert!(!ledger.registered());
        assert_eq!(ledger.disconnects(), 2);
    }
}
