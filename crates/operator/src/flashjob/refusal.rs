//! A status that the API server will not take: told, and written without its lists.
//!
//! Most writes of a status that fail are worth another try as they are: somebody has changed the job meanwhile, or the
//! server is busy. A refusal is not, the same status gets the same answer: it is too large, or a schema or a policy does
//! not have it. Then the next one says only how the job stands ([`reduced`]).
//!
//! The full one is tried again when the job is in another phase or its spec is another, and else after a pause that
//! doubles, a number of times: what was in its way may have gone. After that it rests, so that nothing is written for ever
//! where nothing happens.

use std::time::Duration;

use flashjob_api::flashjob::{FlashJobStatus, Phase};
use flashjob_plan::flashjob::ids::JobUid;
use flashjob_plan::flashjob::{reduced, shown_message};
use kube::core::Status;
use kube::runtime::events::{Event, EventType};
use tokio::time::Instant;

use super::controller::FlashJobController;

/// The pause after a refusal; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The longest pause before a reduced status is tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// How often a full status of one phase is tried again: for eleven hours.
const MOST_TRIES: u32 = 12;

/// What an API server says of a JSON Patch that cannot be applied, and of no other: the job is not as it was.
const NOT_APPLIED: &str = "the server rejected our request due to an error in our request";
/// What etcd says, and the API server's client of it. They come as internal errors.
const TOO_LARGE: [&str; 2] = ["request is too large", "message larger than max"];

/// What the server says, if it will never take what was sent.
pub fn message_of(error: &kube::Error) -> Option<String> {
    match error {
        kube::Error::Api(status) if is_refusal(status) => Some(shown_message(&status.message)),
        _ => None,
    }
}

fn is_refusal(status: &Status) -> bool {
    match status.code {
        // Also without the right to write it: whoever took that away reads what the operator says of it.
        400 | 403 | 413 => true,
        422 => !status.message.starts_with(NOT_APPLIED),
        // Not a webhook that does not answer, nor a server that is stopping.
        500.. => TOO_LARGE.iter().any(|message| status.message.contains(message)),
        // Of another state of the job, too early, or not for this process.
        _ => false,
    }
}

/// A status as it is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StatusForm {
    /// All of it.
    Full(About),
    /// Without its lists.
    Reduced,
}

/// What a status speaks of: the generation of the spec, and the phase.
type About = (Option<i64>, Option<Phase>);

/// What was refused of a job's status and not taken since.
#[derive(Default)]
pub struct Refusals {
    full: Option<StatusRefusal>,
    reduced: Option<StatusRefusal>,
    /// What is under way, or was last.
    tried: Option<StatusForm>,
}

struct StatusRefusal {
    message: String,
    about: About,
    times: u32,
    again: Option<Instant>,
}

impl Refusals {
    /// The status as it is to be written now.
    pub fn form(&mut self, full: FlashJobStatus, now: Instant) -> FlashJobStatus {
        let about = (full.observed_generation, full.phase);
        match &self.full {
            Some(refusal) if refusal.holds(about, now) => {
                self.tried = Some(StatusForm::Reduced);
                reduced(full, &refusal.message)
            }
            _ => {
                self.tried = Some(StatusForm::Full(about));
                full
            }
        }
    }

    /// What was tried is what is there. Says when the full one is to be tried again, if it was not that.
    pub fn taken(&mut self) -> Option<Instant> {
        self.reduced = None;
        if self.tried != Some(StatusForm::Reduced) {
            self.full = None;
        }
        self.full.as_ref().and_then(|refusal| refusal.again)
    }

    /// What was tried is refused. Says what that was, whether the message is new, and how long nothing is to be tried.
    fn refused(&mut self, message: &str, now: Instant) -> (StatusForm, bool, Option<Instant>) {
        let form = self.tried.unwrap_or(StatusForm::Reduced);
        let (before, about) = match form {
            StatusForm::Full(about) => (&mut self.full, about),
            StatusForm::Reduced => (&mut self.reduced, About::default()),
        };
        let times = before.as_ref().filter(|b| b.about == about).map_or(0, |b| b.times);
        let new = before.as_ref().is_none_or(|before| before.message != message);
        let pause = FIRST_PAUSE.saturating_mul(1 << times.min(MOST_TRIES));
        let (again, wait) = match form {
            // Nothing has to wait for it: the reduced one says the rest.
            StatusForm::Full(_) => ((times < MOST_TRIES).then(|| now + pause), None),
            StatusForm::Reduced => (None, Some(now + pause.min(LONGEST_PAUSE))),
        };
        *before =
            Some(StatusRefusal { message: message.to_owned(), about, times: times + 1, again });
        (form, new, wait)
    }
}

impl StatusRefusal {
    /// Whether it is of no use to try the same again.
    fn holds(&self, about: About, now: Instant) -> bool {
        self.about == about && self.again.is_none_or(|again| again > now)
    }
}

impl FlashJobController {
    /// The server will not take the status that was sent: counted each time, told once.
    pub(super) fn status_refused(&mut self, uid: &JobUid, message: &str) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        let (form, new, wait) = job.refusals.refused(message, Instant::now());
        job.throttle.not_before = wait.or(job.throttle.not_before);
        let job = format!("{}/{}", job.seen.job.namespace, job.seen.job.name);
        let (label, action, what) = match form {
            StatusForm::Full(_) => (
                "full",
                "WriteStatus",
                "Until it is taken, the status is written without its lists of devices; phase and counts are right, and \
                 all is in the ledger",
            ),
            StatusForm::Reduced => (
                "reduced",
                "WriteReducedStatus",
                "It is refused without its lists of devices, too: what the job says is old. Devices are flashed and recorded \
                 all the same",
            ),
        };
        self.context.metrics.status_refused(label);
        if let Some(at) = wait {
            self.enqueue_at(uid, at);
        }
        if !new {
            return;
        }
        tracing::warn!(%job, form = label, error = %message, "the API server refuses the status of a job");
        let note = format!(
            "The API server refuses the status of this job: {message}. {what}. See what refuses it: an admission policy or \
             webhook for flashjobs/status, the CRD, a limit on the size of objects, the operator's rights"
        );
        let event = Event {
            type_: EventType::Warning,
            reason: "StatusRefused".into(),
            note: Some(note),
            action: action.into(),
            secondary: None,
        };
        self.publish(uid, vec![event]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, message: &str) -> kube::Error {
        kube::Error::Api(Status::failure(message, "").with_code(code).boxed())
    }

    #[test]
    fn a_refusal_is_an_answer_that_will_never_be_another() {
        let invalid = "FlashJob \"a\" is invalid: status.done: Too long: must have at most 3 bytes";
        for (code, message) in [
            (400, "admission webhook \"a.b\" denied the request: no"),
            (403, "admission webhook \"a.b\" denied the request: no"),
            (413, "<html>413 Request Entity Too Large</html>"),
            (422, invalid),
            (500, "etcdserver: request is too large"),
            (
                500,
                "rpc error: code = ResourceExhausted desc = trying to send message larger than max (3 vs. 2)",
            ),
        ] {
            assert_eq!(message_of(&answer(code, message)).as_deref(), Some(message), "{code}");
        }
        for (code, message) in [
            (401, "Unauthorized"),
            (404, "flashjobs \"a\" not found"),
            (408, "timed out"),
            (409, "the object has been modified"),
            (422, NOT_APPLIED),
            (429, "too many requests"),
            (500, "Internal error occurred: failed calling webhook \"a.b\": connection refused"),
            (500, "etcdserver: request timed out"),
            (503, "the server is currently unable to handle the request"),
            (504, "Timeout: request did not complete within requested timeout"),
        ] {
            assert_eq!(message_of(&answer(code, message)), None, "{code}: {message}");
        }
        assert_eq!(message_of(&kube::Error::Service("no route to host".into())), None);
    }

    fn status(generation: i64, phase: Phase) -> FlashJobStatus {
        FlashJobStatus {
            phase: Some(phase),
            observed_generation: Some(generation),
            completed_uuids: vec!["a".into()],
            ..FlashJobStatus::default()
        }
    }

    /// Whether the full status is tried now.
    fn full(refusals: &mut Refusals, status: FlashJobStatus, now: Instant) -> bool {
        !refusals.form(status, now).truncated
    }

    #[test]
    fn the_full_status_is_tried_again_after_a_growing_pause_and_not_for_ever() {
        let began = Instant::now();
        let (mut refusals, mut now, mut tries) = (Refusals::default(), began, 0);
        let working = || status(1, Phase::InProgress);
        loop {
            assert!(full(&mut refusals, working(), now));
            tries += 1;
            refusals.refused("no", now);
            assert!(!full(&mut refusals, working(), now));
            let Some(again) = refusals.taken() else { break };
            assert!(!full(&mut refusals, working(), again - Duration::from_millis(1)));
            now = again;
        }
        assert_eq!(tries, 1 + MOST_TRIES);
        let hours = (now - began).as_secs() / 3600;
        assert_eq!(hours, 11);
        assert!(!full(&mut refusals, working(), now + Duration::from_secs(1_000_000)), "it rests");
    }

    #[test]
    fn another_phase_or_spec_is_tried_at_once_and_what_is_taken_is_forgotten() {
        let now = Instant::now();
        let mut refusals = Refusals::default();
        assert!(full(&mut refusals, status(1, Phase::InProgress), now));
        refusals.refused("no", now);
        assert!(!full(&mut refusals, status(1, Phase::InProgress), now));
        assert!(full(&mut refusals, status(2, Phase::InProgress), now));
        refusals.refused("no", now);
        assert!(full(&mut refusals, status(2, Phase::Completed), now));
        assert_eq!(refusals.taken(), None);
        assert!(full(&mut refusals, status(2, Phase::InProgress), now));
    }

    #[test]
    fn the_same_words_are_told_once() {
        let now = Instant::now();
        let mut refusals = Refusals::default();
        let mut told = |message: &str, phase| {
            let tried = full(&mut refusals, status(1, phase), now);
            let (form, new, _) = refusals.refused(message, now);
            assert_eq!(tried, form != StatusForm::Reduced);
            new
        };
        assert!(told("no", Phase::Pending));
        assert!(told("no", Phase::Pending), "of the reduced one");
        assert!(!told("no", Phase::InProgress));
        assert!(!told("no", Phase::InProgress));
        assert!(told("never", Phase::Completed));
    }

    #[test]
    fn a_reduced_status_that_is_refused_is_tried_every_five_minutes_at_last() {
        let now = Instant::now();
        let mut refusals = Refusals::default();
        full(&mut refusals, status(1, Phase::InProgress), now);
        assert_eq!(refusals.refused("no", now).2, None, "the reduced one goes at once");
        let mut pauses = Vec::new();
        for _ in 0..20 {
            assert!(!full(&mut refusals, status(1, Phase::InProgress), now));
            let until = refusals.refused("no", now).2.unwrap();
            pauses.push((until - now).as_secs());
        }
        assert_eq!(pauses[..7], [10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(pauses[19], 300);
        refusals.taken();
        full(&mut refusals, status(1, Phase::InProgress), now);
        assert_eq!(refusals.refused("no", now).2, Some(now + FIRST_PAUSE), "it began anew");
    }
}
