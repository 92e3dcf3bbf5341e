//! One run of a container, from its start to its end, as a future. Whoever drops it ends the run at once.

use std::future::pending;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;

use super::process::Process;
use super::script::{Script, ScriptEnd};
use super::status::NOT_STARTED;
use crate::usage::Usage;

/// How a run ended.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// `None`: the node has thrown out the whole Pod.
    pub(super) exit_code: Option<i32>,
    /// Another than the usual one for this exit code.
    pub(super) reason: Option<&'static str>,
    /// The termination message.
    pub(super) message: String,
    pub(super) usage: Option<Usage>,
}

impl Ended {
    pub(super) fn with(exit_code: i32, message: String) -> Self {
        Self { exit_code: Some(exit_code), message, ..Self::default() }
    }

    /// It never began.
    pub(super) fn not_started(message: String) -> Self {
        Self { reason: Some("StartError"), ..Self::with(NOT_STARTED, message) }
    }
}

/// A container of which a script says how it goes.
pub(super) async fn played(script: Script, stop: oneshot::Receiver<Duration>) -> Ended {
    let farewell = script.on_sigterm.clone();
    tokio::select! {
        biased;
        Ok(_) = stop => {
            pause(farewell.after).await;
            Ended::with(farewell.exit_code, farewell.message)
        }
        ended = played_out(script) => ended,
    }
}

async fn played_out(script: Script) -> Ended {
    pause(script.run_for).await;
    match script.end {
        ScriptEnd::Success { message } => Ended::with(0, message),
        ScriptEnd::Failure { exit_code, message } => Ended::with(exit_code, message),
        ScriptEnd::Evicted => Ended::default(),
        ScriptEnd::Never | ScriptEnd::Unschedulable | ScriptEnd::ImagePullBackOff => {
            pending().await
        }
    }
}

/// A timer takes a moment even for no time at all.
async fn pause(time: Duration) {
    if time > Duration::ZERO {
        sleep(time).await;
    }
}

/// A container that is a process. `tell` hears whether it is ready.
pub(super) async fn executed(
    mut process: Process,
    stop: oneshot::Receiver<Duration>,
    tell: impl Fn(bool),
) -> Ended {
    let probe = process.probe.take();
    let probed = async {
        if let Some(probe) = probe {
            probe.watch(tell).await;
        }
        pending().await
    };
    let grace = tokio::select! {
        biased;
        Ok(grace) = stop => Some(grace),
        _ = process.ended() => None,
        () = probed => None,
    };
    let exit_code = match grace {
        Some(grace) => process.end(grace).await,
        None => process.ended().await,
    };
    let message = process.message(exit_code);
    Ended { usage: process.usage(), ..Ended::with(exit_code, message) }
}
