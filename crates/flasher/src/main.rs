//! The program in the flash Pod. Its environment says what to do; its log tells people how it goes, its termination
//! message tells the operator how it ended, and its exit code is 0 only if the device is done or was left alone.

#![warn(clippy::too_many_lines)]

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use flashjob_api::flashjob::Reason;
use flashjob_flasher::args::{Input, termination_log};
use flashjob_flasher::event::{Event, Tell};
use flashjob_flasher::failure::Failure;
use flashjob_flasher::outcome::{Done, one_line, termination_message};
use flashjob_flasher::run::run;
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    let log = termination_log();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(flash());
            // A lookup of a name may hang in the system's resolver; the end does not wait for it.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(Failure::new(Reason::Timeout, format!("cannot start: {error}"))),
    };
    say(&match &outcome {
        Ok(done) if done.skipped => format!("skipped: {}", done.message),
        Ok(done) => format!("done: {}", done.message),
        Err(failure) => format!("failed: {failure}"),
    });
    if let Err(error) = std::fs::write(&log, termination_message(&outcome)) {
        // Without the file the kubelet takes the end of the log, which says the same.
        say(&format!("{}: {error}", log.display()));
    }
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn flash() -> Result<Done, Failure> {
    // ring is the one provider; a second call would find it installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let input = Input::from_environment()?;
    let tell: Tell = Arc::new(|event: Event| say(&event.to_string()));
    let ended = async {
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => drop(terminate.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        outcome = run(input, tell) => outcome,
        () = ended => Err(Failure::new(Reason::Timeout, "the Pod was told to end before the device was done")),
    }
}

/// One line for people. A log that nobody can take is no reason to stop.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", one_line(line));
}
