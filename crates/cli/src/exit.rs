//! How a command ends: one table of exit codes for all of them.

use std::process::ExitCode;

/// What came of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done,
    /// The rollout has ended, and not every device is done; or a check found something.
    NotAllDone,
    /// The time to wait ran out.
    TimedOut,
    /// The user has interrupted.
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        match exit {
            Exit::Done => ExitCode::SUCCESS,
            Exit::NotAllDone => ExitCode::from(3),
            Exit::TimedOut => ExitCode::from(4),
            Exit::Interrupted => ExitCode::from(130),
        }
    }
}

/// The command line asks for something that makes no sense, or leaves out what nobody can be asked for.
#[derive(Debug)]
pub struct UsageError(pub String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// The exit code of an error. A reader that has gone away is none: `| head` is a fine thing to say.
pub fn code_of(error: &anyhow::Error) -> ExitCode {
    let broken_pipe = |cause: &(dyn std::error::Error + 'static)| {
        let error = cause.downcast_ref::<std::io::Error>();
        error.is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(broken_pipe) {
        ExitCode::SUCCESS
    } else if error.is::<UsageError>() {
        ExitCode::from(2)
    } else {
        ExitCode::from(1)
    }
}

/// Whether an error is worth a message.
pub fn is_silent(error: &anyhow::Error) -> bool {
    code_of(error) == ExitCode::SUCCESS
}
