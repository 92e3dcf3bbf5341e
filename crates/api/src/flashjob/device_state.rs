//! Where a device is that has no result yet: one word in `status.inFlight[].state`.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// The state of a device that is not done yet.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Hash)]
#[serde(from = "String", into = "String")]
pub enum DeviceState {
    /// Its turn has not come.
    Pending,
    /// Akri does not show it.
    Offline,
    /// Another job has its board, or comes first.
    Blocked,
    /// It waits for its Service or an address.
    Addressing,
    /// Its Pod is being made or has not started.
    Starting,
    /// Its Pod is at work.
    Flashing,
    /// Its result is being written down.
    Recording,
    /// It waits for its next attempt.
    BackOff,
    /// A word that another version of the operator has for it.
    Other(String),
}

impl DeviceState {
    /// All that have a name here.
    pub const NAMED: [DeviceState; 8] = [
        DeviceState::Pending,
        DeviceState::Offline,
        DeviceState::Blocked,
        DeviceState::Addressing,
        DeviceState::Starting,
        DeviceState::Flashing,
        DeviceState::Recording,
        DeviceState::BackOff,
    ];

    /// The word.
    pub fn as_str(&self) -> &str {
        match self {
            DeviceState::Pending => "Pending",
            DeviceState::Offline => "Offline",
            DeviceState::Blocked => "Blocked",
            DeviceState::Addressing => "Addressing",
            DeviceState::Starting => "Starting",
            DeviceState::Flashing => "Flashing",
            DeviceState::Recording => "Recording",
            DeviceState::BackOff => "BackOff",
            DeviceState::Other(word) => word,
        }
    }
}

impl Default for DeviceState {
    fn default() -> DeviceState {
        DeviceState::Other(String::new())
    }
}

impl From<String> for DeviceState {
    fn from(word: String) -> DeviceState {
        let named = DeviceState::NAMED.into_iter().find(|state| state.as_str() == word);
        named.unwrap_or(DeviceState::Other(word))
    }
}

impl From<DeviceState> for String {
    fn from(state: DeviceState) -> String {
        match state {
            DeviceState::Other(word) => word,
            named => named.as_str().to_owned(),
        }
    }
}

impl fmt::Display for DeviceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Any word: a status that another version has written is no error.
impl JsonSchema for DeviceState {
    fn schema_name() -> Cow<'static, str> {
        "DeviceState".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_another_version_is_kept_as_it_is() {
        for word in ["Flashing", "BackOff", "Meditating", ""] {
            let read: DeviceState = serde_json::from_value(word.into()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), word);
        }
        let read: DeviceState = serde_json::from_value("Blocked".into()).unwrap();
        assert_eq!(read, DeviceState::Blocked);
        assert_eq!(format!("{read:<9}|"), "Blocked  |");
    }
}
