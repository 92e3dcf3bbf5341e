//! What a device asks for or says, as its ledger and the wire tell it apart.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// It asks to be let in.
    Enrol,
    /// It asks for its first certificate.
    Register,
    /// It asks for its next certificate.
    Renew,
    /// It says how it is.
    Heartbeat,
    /// It asks what it is to run.
    FetchConfiguration,
    /// It asks what its gateway is to do.
    FetchCommands,
    /// Its gateway says that it is there.
    SayConnectionStatus,
}

impl Operation {
    pub const ALL: [Self; 7] = [
        Self::Enrol,
        Self::Register,
        Self::Renew,
        Self::Heartbeat,
        Self::FetchConfiguration,
        Self::FetchCommands,
        Self::SayConnectionStatus,
    ];

    /// Where the original's gateway takes any body for a message.
    pub fn is_in(self) -> bool {
        matches!(self, Self::FetchConfiguration | Self::FetchCommands)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Enrol => "enrolment",
            Self::Register => "registration",
            Self::Renew => "renewal",
            Self::Heartbeat => "heartbeat",
            Self::FetchConfiguration => "configuration",
            Self::FetchCommands => "commands",
            Self::SayConnectionStatus => "connection status",
        })
    }
}
