//! The API server's audit log: who asked what of the API, and what it answered.
//!
//! This is how a test counts writes without trusting the program that makes them. The server writes a call's line
//! when it has answered it; a large answer may reach the caller a moment before the line is in the file.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// What is logged: who and what, without bodies. The API server's talk with itself would drown the rest.
pub(crate) const POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: [\"system:apiserver\"]
- level: Metadata
";

/// One call to the API server that has been answered. A watch is here once it has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// The caller: a user of the token file, or `system:serviceaccount:<namespace>:<name>`.
    pub user: String,
    /// The caller's program, as it calls itself.
    pub user_agent: String,
    /// The API verb: get, list, watch, create, update, patch, delete, deletecollection.
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource in the plural, such as `pods`; empty for paths such as `/readyz`.
    pub resource: String,
    /// The subresource, such as `status`.
    pub subresource: Option<String>,
    /// The namespace, if the call was for one.
    pub namespace: Option<String>,
    /// The object's name. A create has none here unless the server wrote one down.
    pub name: Option<String>,
    /// The HTTP status of the answer.
    pub code: u16,
    /// When the call came in.
    pub at: jiff::Timestamp,
}

impl AuditEntry {
    /// Whether the verb is one that changes something, be it allowed or refused.
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    /// Verb and resource, such as `patch pods/status`.
    pub fn kind(&self) -> String {
        let subresource = self.subresource.iter().map(|sub| format!("/{sub}")).collect::<String>();
        format!("{} {}{subresource}", self.verb, self.resource)
    }
}

/// Reads the answered calls from an audit log.
pub(crate) fn read(log: &Path) -> Result<Vec<AuditEntry>> {
    let text = match fs::read_to_string(log) {
        Ok(text) => text,
        // The server makes the file with its first entry.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(e).context("cannot read the audit log"),
    };
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<AuditEntry>> {
    // What comes after the last line break is a line that is just being written.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .map(|line| serde_json::from_str::<Event>(line).context("an unreadable audit line"))
        .filter(|event| event.as_ref().map_or(true, |e| e.stage == "ResponseComplete"))
        .map(|event| event.map(AuditEntry::from))
        .collect()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    verb: String,
    user: User,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    response_status: ResponseStatus,
    request_received_timestamp: jiff::Timestamp,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct User {
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

impl From<Event> for AuditEntry {
    fn from(event: Event) -> Self {
        Self {
            user: event.user.username,
            user_agent: event.user_agent,
            verb: event.verb,
            group: event.object_ref.api_group,
            resource: event.object_ref.resource,
            subresource: event.object_ref.subresource,
            namespace: event.object_ref.namespace,
            name: event.object_ref.name,
            code: event.response_status.code,
            at: event.request_received_timestamp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_written_line_waits_and_other_stages_are_skipped() -> Result<()> {
        let line = r#"{"stage":"ResponseComplete","verb":"create","user":{"username":"admin"},"objectRef":{"resource":"pods","namespace":"a","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":201},"requestReceivedTimestamp":"2025-01-01T00:00:00.123456Z"}"#;
        let started = line.replace("ResponseComplete", "ResponseStarted");
        let text = format!("{line}\n{started}\n{}", &line[..40]);
        let entries = parse(&text)?;
        assert_eq!(entries.len(), 1);
        assert!(entries[0].is_write());
        assert_eq!((entries[0].resource.as_str(), entries[0].code), ("pods", 201));
        Ok(())
    }
}
