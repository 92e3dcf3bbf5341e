//! One job as the engine holds it.

use std::time::Duration;

use flashjob_api::Counts;
use flashjob_plan::concerns::Concerns;
use jiff::Timestamp;
use tokio::time::Instant;

use super::fault::Fault;
use super::ledger::{Memory, Room};
use super::observe::SeenJob;
use super::status::Pace;
use crate::clock;

/// At most one look in this time, however much happens.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// And not more often than this times the number of devices, because a look goes over all of them.
const LOOK_EVERY_PER_DEVICE: Duration = Duration::from_micros(50);
/// The longest that comes to.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);
/// And a look is at most this part of the time from one to the next: calls and watches are on the same thread.
const SHARE_OF_LOOKS: u32 = 3;

/// What the engine knows of one job.
pub struct JobState {
    /// As last seen.
    pub seen: SeenJob,
    /// When it was first seen.
    pub first_seen: Timestamp,
    /// Its ledger.
    pub ledger: Memory,
    /// No attempt is open that another process began.
    pub settled: bool,
    /// A list of its Pods is under way.
    pub listing_pods: bool,
    /// A write to its metadata is under way.
    pub marking: bool,
    /// Writes to its metadata or its ledger are not tried again before this.
    pub hold: Hold,
    /// Why its ledger, finalizer or annotation could not be written the last time.
    pub trouble: Option<String>,
    /// When its status may be written.
    pub pace: Pace,
    /// The devices by state, as the metrics have them.
    pub counts: Counts,
    /// Nothing more will happen by itself.
    pub finished: bool,
    /// Its last look has panicked.
    pub fault: Option<Fault>,
    /// A foreign object that names this job was told.
    pub foreign_told: bool,
    /// The Instances its ledger speaks of.
    pub concerns: Concerns,
    /// Its status is what is to be said.
    pub told: bool,
    /// It was just loaded and may be parked at once: others do not know yet what it has to do with boards.
    pub unlearned: bool,
    /// Its ledger was just loaded and may be parked at once.
    pub room: Option<Room>,
    last_look: Option<Instant>,
    /// How long the last look took.
    look_took: Duration,
    next_look: Look,
}

/// When a job will be looked at.
enum Look {
    /// When something happens.
    Asleep,
    /// At this time.
    At(Instant),
    /// As soon as it has its turn.
    Queued,
}

/// A growing pause after failures.
#[derive(Default)]
pub struct Hold {
    failures: u32,
    until: Option<Instant>,
}

impl Hold {
    /// It failed again.
    pub fn failed(&mut self) -> Instant {
        let pause = Duration::from_millis(500 << self.failures.min(6)).min(Duration::from_secs(30));
        self.failures += 1;
        let until = Instant::now() + pause;
        self.until = Some(until);
        until
    }

    /// It went well.
    pub fn succeeded(&mut self) {
        *self = Hold::default();
    }

    /// When the pause ends, while it lasts.
    pub fn until(&self) -> Option<Instant> {
        self.until.filter(|until| *until > Instant::now())
    }
}

impl JobState {
    /// A job seen for the first time, with the ledger that was read for it.
    pub fn new(seen: SeenJob, ledger: Memory) -> JobState {
        let settled = ledger.sealed().is_none_or(|l| !l.has_open_attempts());
        JobState {
            seen,
            first_seen: clock::now(),
            ledger,
            settled,
            listing_pods: false,
            marking: false,
            hold: Hold::default(),
            trouble: None,
            pace: Pace::default(),
            counts: Counts::default(),
            finished: false,
            fault: None,
            foreign_told: false,
            concerns: Concerns::default(),
            told: false,
            unlearned: false,
            room: None,
            last_look: None,
            look_took: Duration::ZERO,
            next_look: Look::Asleep,
        }
    }

    /// Whether nothing is under way for it, and its status says what is to be said.
    pub fn is_at_rest(&self) -> bool {
        let writing = self.marking || self.pace.busy || !self.ledger.flushing.is_empty();
        let reading = self.listing_pods || self.ledger.reading;
        self.told && !writing && !reading && self.hold.until().is_none() && self.fault.is_none()
    }

    /// A write to its ledger or metadata failed: not again for a while.
    pub fn write_failed(&mut self, why: &str) -> Instant {
        self.trouble = Some(why.to_owned());
        self.hold.failed()
    }

    /// A write to its ledger or metadata was acknowledged.
    pub fn write_succeeded(&mut self) {
        self.trouble = None;
        self.hold.succeeded();
    }

    /// Asks for a look at `at`; an earlier one that was asked for stays.
    pub fn look_at(&mut self, at: Instant) {
        let earliest = self.last_look.map_or(at, |last| at.max(last + self.pause()));
        self.next_look = match self.next_look {
            Look::Queued => Look::Queued,
            Look::At(before) => Look::At(before.min(earliest)),
            Look::Asleep => Look::At(earliest),
        };
    }

    /// When a look will be due, if one was asked for.
    pub fn next_look(&self) -> Option<Instant> {
        match self.next_look {
            Look::At(at) => Some(at),
            Look::Asleep | Look::Queued => None,
        }
    }

    fn pause(&self) -> Duration {
        pause(self.ledger.sealed().map_or(0, |ledger| ledger.records.len()), self.look_took)
    }

    /// Whether a look is due; if so the job has to be looked at when it has its turn.
    pub fn queue_look(&mut self, now: Instant) -> bool {
        let due = matches!(self.next_look, Look::At(at) if at <= now);
        if due {
            self.next_look = Look::Queued;
        }
        due
    }

    /// It is looked at now.
    pub fn looked_at(&mut self, now: Instant) {
        self.next_look = Look::Asleep;
        self.last_look = Some(now);
    }

    /// The look is over.
    pub fn look_over(&mut self, now: Instant) {
        self.look_took = self.last_look.map_or(Duration::ZERO, |began| now - began);
    }
}

/// From the beginning of one look to that of the next.
fn pause(devices: usize, look_took: Duration) -> Duration {
    let devices = u32::try_from(devices).unwrap_or(u32::MAX);
    let pause = LOOK_EVERY_PER_DEVICE.saturating_mul(devices).clamp(LOOK_EVERY, LONGEST_PAUSE);
    pause.max(look_took * SHARE_OF_LOOKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_jobs_are_looked_at_less_often_and_never_all_of_the_time() {
        let millis = Duration::from_millis;
        assert_eq!(pause(1, millis(0)), millis(25));
        assert_eq!(pause(2_000, millis(4)), millis(100));
        assert_eq!(pause(10_000, millis(20)), millis(200));
        assert_eq!(pause(100_000, millis(250)), millis(750));
    }
}
