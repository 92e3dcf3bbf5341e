//! The termination message of a flash container: JSON that the flasher writes and the operator reads. Images that write
//! something else are believed by their exit code.

use serde::{Deserialize, Serialize};

/// How an attempt ended.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(default)]
pub struct Report {
    /// `succeeded`, `skipped` or `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// A [`Reason`](super::Reason), if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A sentence for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The version that the board reported before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The version that it reports now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The image that was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl Report {
    /// The result of a flash that went well.
    pub const SUCCEEDED: &str = "succeeded";
    /// The result where the board was left as it is.
    pub const SKIPPED: &str = "skipped";
    /// The result of a flash that did not go well.
    pub const FAILED: &str = "failed";

    /// Whether this is the result, in whatever case.
    pub fn says(&self, result: &str) -> bool {
        self.result.as_ref().is_some_and(|said| said.eq_ignore_ascii_case(result))
    }
}
