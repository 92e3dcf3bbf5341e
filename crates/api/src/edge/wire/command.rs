//! What a device's gateway is told to do.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::lenient::or_empty;

/// The content of a message of type `command`.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(default)]
pub struct Command {
    /// What to do.
    #[serde(deserialize_with = "or_empty")]
    pub command: String,
    /// What the command needs to know; null where it needs nothing, and always written.
    pub arguments: Option<Map<String, Value>>,
}

impl Command {
    /// Stop, and remove all that was run and stored. Destroys, so it needs a positive record of the device's end.
    pub const DISCONNECT: &str = "disconnect";
    /// Answer with the event `pong`.
    pub const PING: &str = "ping";
    /// Connect anew after `arguments.delay` seconds.
    pub const RECONNECT: &str = "reconnect";

    /// A command that needs to know nothing.
    pub fn new(command: &str) -> Self {
        Self { command: command.to_owned(), arguments: None }
    }
}
