//! The envelopes: every body in either direction is a [`Message`], an answer to one a [`MessageResponse`].

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::lenient::{is_empty, or_empty, time};

/// What a message is about.
pub mod directive {
    /// A device asks for a certificate.
    pub const REGISTRATION: &str = "registration";
    /// A device asks to be let in.
    pub const ENROLMENT: &str = "enrolment";
    /// A device says how it is.
    pub const HEARTBEAT: &str = "heartbeat";
    /// A device asks for playbooks.
    pub const ANSIBLE: &str = "ansible";
    /// A configuration for the device: the name of the worker that takes it.
    pub const DEVICE: &str = "device";
}

/// The kinds of message. Any other word is no message.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum MessageType {
    /// The gateway says that it is there.
    ConnectionStatus,
    /// The gateway is to do something.
    Command,
    /// The gateway answers a command.
    Event,
    /// For or from the worker; also when nothing is said.
    #[default]
    #[serde(alias = "")]
    Data,
}

/// A message in either direction.
#[derive(Serialize, Deserialize, Clone, Default, PartialEq)]
#[serde(default)]
pub struct Message {
    /// Its kind.
    #[serde(rename = "type", deserialize_with = "or_empty")]
    pub type_: MessageType,
    /// The sender's name for it, a UUID.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub message_id: String,
    /// The message it answers.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub response_to: String,
    /// The version of the envelope: 1.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub version: i64,
    /// When it was sent.
    #[serde(with = "time", skip_serializing_if = "Option::is_none")]
    pub sent: Option<Timestamp>,
    /// What it is about, see [`directive`].
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub directive: String,
    /// Nothing that matters to us.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub metadata: Value,
    /// What is said: a [`Registration`](super::Registration), a [`Heartbeat`](super::Heartbeat) and so on, by directive.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub content: Value,
}

/// An answer to a message.
#[derive(Serialize, Deserialize, Clone, Default, PartialEq)]
#[serde(default)]
pub struct MessageResponse {
    /// The message it answers.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub message_id: String,
    /// That message's directive.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub directive: String,
    /// Nothing that matters to us.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub metadata: Value,
    /// The answer.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "is_empty")]
    pub content: Value,
}

impl Message {
    /// The version of the envelope.
    pub const VERSION: i64 = 1;
}

/// Without the content, which may hold secrets and be long.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("type", &self.type_)
            .field("message_id", &self.message_id)
            .field("directive", &self.directive)
            .finish_non_exhaustive()
    }
}

/// Without the content, as for [`Message`].
impl fmt::Debug for MessageResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageResponse")
            .field("message_id", &self.message_id)
            .field("directive", &self.directive)
            .finish_non_exhaustive()
    }
}
