//! What goes wrong: a reason from the shared list, and a sentence with the underlying error and what to do.

use flashjob_api::flashjob::Reason;

/// Why the device is not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct Failure {
    /// The reason, for machines and for the index of the documentation.
    pub reason: Reason,
    /// A sentence for people.
    pub message: String,
}

impl Failure {
    /// A failure for this reason, in these words.
    pub fn new(reason: Reason, message: impl Into<String>) -> Failure {
        Failure { reason, message: message.into() }
    }

    /// The image could not be fetched, or is not one we can take firmware from.
    pub(crate) fn pull(message: impl Into<String>) -> Failure {
        Failure::new(Reason::PullFailed, message)
    }
}

/// An error with everything that led to it, as one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let words = error.to_string();
        // Many errors repeat what lies under them.
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        source = error.source();
    }
    text
}
