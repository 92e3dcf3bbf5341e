//! The job's status, from what the devices' steps have shown. An output only: nothing here is ever read back.

use flashjob_api::flashjob::{Counts, Failure, FlashJobStatus, Phase, Reason};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::flashjob::facts::{Job, View};
use crate::flashjob::ledger::{self, Ledger};
use crate::flashjob::rollout;
use crate::flashjob::summary::{Summary, shown};
use crate::time::after;

/// The longest sentence about a job; what a user wrote may be in it.
const SENTENCE_BYTES: usize = 1024;

/// What is to be said of the job as a whole.
pub enum Conclusion {
    /// It cannot begin yet.
    Waiting {
        /// One word.
        reason: &'static str,
        /// A sentence.
        message: String,
    },
    /// Devices are at work.
    Working(String),
    /// Held by the user.
    Suspended(String),
    /// Every device has its firmware.
    Complete(String),
    /// Every device has a result, and some failed.
    Failed {
        /// One word.
        reason: &'static str,
        /// A sentence.
        message: String,
    },
    /// Nothing happens until a person acts.
    Stuck {
        /// One word.
        reason: Reason,
        /// A sentence.
        message: String,
    },
}

/// The status of a job that has no devices at work: it waits, or is stuck.
pub fn plain(job: &Job, conclusion: Conclusion) -> FlashJobStatus {
    let mut status = FlashJobStatus::default();
    conclude(job.generation, &mut status, conclusion);
    status
}

/// How a job stands that is under way or done.
pub(crate) struct Standing<'a> {
    pub view: &'a View<'a>,
    pub ledger: &'a Ledger,
    /// What its devices have come to.
    pub summary: Summary,
    /// Why nothing new may start, for good.
    pub halt: Option<Reason>,
    /// What devices wait for that would have their turn, where that is one thing for all of them.
    pub held_up: Option<String>,
}

impl Standing<'_> {
    /// The status that says so.
    pub fn into_status(self) -> FlashJobStatus {
        let (conclusion, finished) = (self.conclusion(), self.is_finished());
        let Standing { view: View { job, .. }, ledger, summary, .. } = self;
        let counts = summary.counts;
        let mut status = FlashJobStatus {
            done: Some(format!("{}/{}", counts.succeeded, counts.total)),
            counts: Some(counts),
            batch: job.spec.as_ref().ok().and_then(|spec| rollout::batch(spec, ledger)),
            start_time: Some(Time(ledger.header.started)),
            completion_time: ledger.header.completed.filter(|_| finished).map(Time),
            completed_uuids: summary.completed,
            truncated: summary.truncated,
            in_flight: summary.in_flight,
            failures: summary.failures,
            ..FlashJobStatus::default()
        };
        if let [only] = ledger.records.as_slice() {
            status.host_endpoint = only.pinned.as_ref().map(|p| shown(p.endpoint.as_str()));
            status.external_ip = status.in_flight.first().and_then(|d| d.external_ip.clone());
        }
        // What the ledger has not taken in yet is not spoken of: the firmware before may be done where this one is not.
        let generation = job.spec.as_ref().map_or(job.generation, |_| ledger.header.generation);
        conclude(generation, &mut status, conclusion);
        status
    }

    /// Whether every device has its result.
    fn all_final(&self) -> bool {
        let counts = &self.summary.counts;
        counts.succeeded + counts.skipped + counts.failed == counts.total
    }

    /// Whether nothing more will be done, and that is written down.
    fn is_finished(&self) -> bool {
        (self.all_final() || self.halt.is_some()) && self.ledger.header.completed.is_some()
    }

    fn conclusion(&self) -> Conclusion {
        let (finished, message) = (self.is_finished(), self.message());
        let Summary { counts, superseded, failures, .. } = &self.summary;
        match &self.view.job.spec {
            Err(invalid) => {
                Conclusion::Stuck { reason: Reason::InvalidSpec, message: invalid.0.clone() }
            }
            _ if finished && !self.all_final() => Conclusion::Stuck {
                reason: self.halt.unwrap_or(Reason::Aborted),
                message: format!("{message}; {}", why_halted(self.halt)),
            },
            _ if finished && counts.failed + superseded == 0 => Conclusion::Complete(message),
            _ if finished => {
                // What another job has flashed is not done by this one.
                let superseded = counts.failed == 0;
                let reason = if superseded { Reason::Superseded.as_str() } else { "DevicesFailed" };
                let message = match failures.first() {
                    Some(first) => {
                        let Failure { uuid, reason, message: why, .. } = first;
                        format!("{message}; {uuid}: {reason}: {why}")
                    }
                    None => message,
                };
                Conclusion::Failed { reason, message }
            }
            Ok(spec) if spec.suspend => {
                Conclusion::Suspended(format!("held by spec.suspend: {message}"))
            }
            Ok(_) if nothing_began(self.ledger) => {
                Conclusion::Waiting { reason: "Starting", message }
            }
            Ok(_) => match self.view.trouble {
                None => Conclusion::Working(message),
                Some(trouble) => Conclusion::Working(format!(
                    "{message}; the ledger cannot be written: {trouble}"
                )),
            },
        }
    }

    /// Where its devices are, and what they wait for.
    fn message(&self) -> String {
        let spec = &self.view.job.spec;
        let mut message = sentence(&self.summary.counts);
        for field in spec.iter().flat_map(|spec| &spec.ignored) {
            message.push_str(&format!("; {field} is ignored, it is for jobs with one device"));
        }
        let more = match (spec, self.ledger.header.batch_ended) {
            _ if self.is_finished() => None,
            // Said at once, and not only when what is being flashed has finished too.
            _ if self.halt.is_some() => Some(why_halted(self.halt).to_owned()),
            (Ok(spec), Some(ended)) if !spec.suspend => {
                let next = after(ended, spec.delay_seconds).strftime("%H:%M:%S UTC");
                Some(format!("the next batch begins at {next}"))
            }
            _ => self.held_up.clone(),
        };
        message.extend(more.into_iter().flat_map(|what| ["; ".to_owned(), what]));
        message
    }
}

fn why_halted(halt: Option<Reason>) -> &'static str {
    match halt {
        Some(Reason::FailureBudgetExceeded) => {
            "more failed than rollout.maxFailures allows, so nothing more is started"
        }
        Some(Reason::FirmwareChanged) => {
            "the firmware's tag has moved, and devices got different images; name the firmware by its digest"
        }
        _ => "ended by spec.abort",
    }
}

fn nothing_began(ledger: &Ledger) -> bool {
    ledger.records.iter().all(|r| r.attempt == 0 && r.outcome().is_none())
}

/// The counts in words, such as "1 of 2 devices done, 1 flashing".
fn sentence(counts: &Counts) -> String {
    let plural = if counts.total == 1 { "device" } else { "devices" };
    let mut message = format!("{} of {} {plural} done", counts.succeeded, counts.total);
    let rest = [
        (counts.skipped, "skipped"),
        (counts.failed, "failed"),
        (counts.flashing, "flashing"),
        (counts.waiting, "waiting"),
        (counts.blocked, "held by another job"),
        (counts.offline, "offline"),
        (counts.pending, "pending"),
    ];
    for (count, what) in rest.iter().filter(|(count, _)| *count > 0) {
        message.push_str(&format!(", {count} {what}"));
    }
    message
}

/// Writes phase, message and all conditions.
fn conclude(generation: i64, status: &mut FlashJobStatus, conclusion: Conclusion) {
    let (phase, reason, message) = match &conclusion {
        Conclusion::Waiting { reason, message } => (Phase::Pending, *reason, message),
        Conclusion::Working(message) => (Phase::InProgress, "Flashing", message),
        Conclusion::Suspended(message) => (Phase::Suspended, "Suspended", message),
        Conclusion::Complete(message) => (Phase::Completed, "Completed", message),
        Conclusion::Failed { reason, message } => (Phase::Failed, *reason, message),
        Conclusion::Stuck { reason, message } => (Phase::Failed, reason.as_str(), message),
    };
    let message = ledger::cut(message.clone(), SENTENCE_BYTES);
    let works = matches!(conclusion, Conclusion::Waiting { .. } | Conclusion::Working(_));
    let complete = matches!(conclusion, Conclusion::Complete(_));
    let failed = matches!(conclusion, Conclusion::Failed { .. } | Conclusion::Stuck { .. });
    let suspended = matches!(conclusion, Conclusion::Suspended(_));
    let conditions = [
        ("Complete", complete),
        ("Failed", failed),
        ("Progressing", works),
        ("Suspended", suspended),
        ("Ready", complete),
        ("Reconciling", works),
        ("Stalled", failed),
    ];
    status.conditions = conditions
        .iter()
        .map(|(type_, holds)| Condition {
            type_: (*type_).to_owned(),
            status: if *holds { "True" } else { "False" }.to_owned(),
            reason: reason.to_owned(),
            // Said once for people, and on Ready, which tools show whatever it says.
            message: if *holds || *type_ == "Ready" { message.clone() } else { String::new() },
            observed_generation: Some(generation),
            // Set by `act`, which knows when the condition last changed.
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        })
        .collect();
    status.phase = Some(phase);
    status.message = Some(message);
    status.observed_generation = Some(generation);
}
