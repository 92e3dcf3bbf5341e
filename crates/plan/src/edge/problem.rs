//! What keeps a workload or a device from being in order, with a reason from the one list and a sentence for people.

use flashjob_api::edge::EdgeReason;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    pub reason: EdgeReason,
    /// One sentence: what it is, by name, and never what is in a Secret.
    pub message: String,
}

impl Problem {
    pub fn new(reason: EdgeReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}
