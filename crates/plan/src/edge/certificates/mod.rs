//! What becomes of the Secrets that hold the CA, the server's certificate and those for registration.
//!
//! A wrong step here shuts out every device there is, so the rule behind all rules is: what is there is never written over
//! unless it was read, is ours, and has an heir. What cannot be read is left and said. A CA that is missing is made only
//! where nothing shows that there has been one.
//!
//! ```text
//!   Secrets ──▶ Facts ──decide──▶ Plan: steps, sentences, when to look again
//! ```
//!
//! Each step is one write. After it everything is read and decided anew, so whoever is killed between two writes goes on
//! from where they left off.

mod authority;
mod facts;
mod names;
mod registration;
mod server;

pub use facts::{
    AuthorityFacts, Command, DeviceKeys, Facts, Found, Holders, LeafFacts, RegistrationFacts,
};
pub use names::server_names;

use jiff::{SignedDuration, Timestamp};

use crate::time::later;

/// The Secrets of flotta.
pub const CA_SECRET: &str = "flotta-ca";
pub const SERVER_SECRET: &str = "flotta-host-certificate";
/// What the names of registration Secrets begin with; also their label.
pub const REGISTRATION_SECRET: &str = "reg-client-ca";
/// On flotta-ca: `rotate` or `retire`.
pub const COMMAND: &str = "management.project-flotta.io/ca";
/// On flotta-ca: what came of the last command.
pub const MESSAGE: &str = "management.project-flotta.io/ca-message";
/// What every certificate says of its organization.
pub const ORGANIZATION: &str = "flotta-operator";
/// The common name of a registration certificate.
pub const REGISTER: &str = "register";

const DAY: SignedDuration = SignedDuration::from_hours(24);
const CA_LIFE: SignedDuration = SignedDuration::from_hours(24 * 3652);
const LEAF_LIFE: SignedDuration = SignedDuration::from_hours(24 * 365);
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_hours(1);
const SHORTEST_PAUSE: SignedDuration = SignedDuration::from_mins(1);

/// From when until when a certificate is good. It begins a day back, for devices whose clock is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

impl Life {
    /// Nothing that is signed outlives who signed it.
    fn from(now: Timestamp, life: SignedDuration, end_of_ca: Timestamp) -> Life {
        Life { not_before: later(now, -DAY), not_after: later(now, life).min(end_of_ca) }
    }

    /// When two thirds of it are over.
    fn renewal(self) -> Timestamp {
        let whole = self.not_after.duration_since(self.not_before);
        later(self.not_before, whole / 3 * 2)
    }
}

/// The life of a device's certificate; `None` if the CA is at its end.
pub fn device_life(now: Timestamp, days: u32, end_of_ca: Timestamp) -> Option<Life> {
    let life = Life::from(now, DAY * i32::try_from(days).unwrap_or(i32::MAX), end_of_ca);
    Some(life).filter(|life| life.not_after > now)
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Creates flotta-ca.
    MakeCa(Life),
    /// Creates the server's Secret, or writes over the one that was read.
    MakeServer {
        life: Life,
        names: Vec<String>,
    },
    /// Creates a registration Secret of a new name.
    MakeRegistration(Life),
    /// Creates a Secret again as it was in memory.
    PutBackCa,
    PutBackServer,
    PutBackRegistration,
    DeleteExpiredRegistration(String),
    /// Writes the new CA, the old certificate and the cross certificate at once; the old key is gone. The cross certificate
    /// ends with the old CA.
    Rotate {
        life: Life,
        cross: Life,
        message: String,
    },
    /// Drops the previous CA: what it has signed does not count any more.
    Retire {
        message: String,
    },
    /// A command came to nothing, and why.
    Answer {
        message: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// In this order. After the first that fails nothing is done until everything was read again.
    pub steps: Vec<Step>,
    /// What is wrong and what to do about it, for people.
    pub problems: Vec<String>,
    pub again: Timestamp,
}

impl Plan {
    fn say(&mut self, problem: impl Into<String>) {
        self.problems.push(problem.into());
    }

    /// Something is to be done then.
    fn look_at(&mut self, time: Timestamp) {
        self.again = self.again.min(time);
    }
}

/// What to do now, and when to look again at the latest.
pub fn decide(facts: &Facts, now: Timestamp) -> Plan {
    let again = later(now, LONGEST_PAUSE);
    let mut plan = Plan { steps: Vec::new(), problems: facts.settings_problems.clone(), again };
    if let Some(ca) = authority::decide(facts, now, &mut plan) {
        server::decide(facts, ca, now, &mut plan);
        registration::decide(facts, ca, now, &mut plan);
        // What a command needs is written first.
        if plan.steps.is_empty() {
            authority::obey(facts, ca, now, &mut plan);
        }
    }
    plan.again = plan.again.max(later(now, SHORTEST_PAUSE));
    plan
}

/// The registration Secret to hand out.
pub fn current_registration(facts: &Facts, now: Timestamp) -> Option<&str> {
    let ca = facts.ca.read().or(facts.ca_in_memory.as_ref())?;
    registration::current(facts, ca, now).map(|(name, _)| name)
}

/// A day as people write it.
fn day(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d").to_string()
}
