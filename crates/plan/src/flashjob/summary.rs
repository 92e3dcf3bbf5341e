//! What the steps of all devices come to: how many are where, and the few that a status lists.

use flashjob_api::flashjob::{Counts, DeviceState, Failure, InFlight};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::flashjob::facts::View;
use crate::flashjob::ledger::{self, Outcome, Record};
use crate::flashjob::step::Wait;

/// How many devices `inFlight` and `failures` list.
pub const SHOWN: usize = 100;
/// How many devices `completedUUIDs` lists, and in how many bytes. With the bounds on messages and addresses every status
/// stays under 512 KiB, which the API server and etcd take.
const COMPLETED_SHOWN: usize = 5000;
const COMPLETED_BYTES: usize = 256 * 1024;
/// The longest text about one device.
const SHOWN_BYTES: usize = 400;

/// What a round over the devices has shown.
#[derive(Default)]
pub(crate) struct Summary {
    /// How many devices are in which state.
    pub counts: Counts,
    /// Devices at work.
    pub in_flight: Vec<InFlight>,
    /// Devices that failed.
    pub failures: Vec<Failure>,
    /// Devices that are done, as the user wrote them.
    pub completed: Vec<String>,
    /// Not all that are done are listed.
    pub truncated: bool,
    /// Devices that a newer job has flashed since.
    pub superseded: i32,
    /// There are devices that would have their Services by now, did not others wait for their addresses.
    pub starved: bool,
    completed_bytes: usize,
    /// The names of those that are done are wanted.
    named: bool,
}

impl Summary {
    /// Nothing yet.
    pub fn new(view: &View<'_>) -> Summary {
        Summary { named: view.status_due, ..Summary::default() }
    }

    /// A device with a result.
    pub fn add_final(&mut self, record: &Record, outcome: Outcome) {
        self.counts.total += 1;
        match outcome {
            Outcome::Succeeded => self.counts.succeeded += 1,
            Outcome::Skipped => self.counts.skipped += 1,
            Outcome::Failed => self.counts.failed += 1,
        }
        self.superseded += i32::from(record.is_superseded());
        if outcome == Outcome::Failed || record.is_superseded() {
            if self.failures.len() < SHOWN {
                self.failures.push(failure(record));
            }
            return;
        }
        if !self.named {
            return;
        }
        self.completed_bytes += record.device.len();
        if self.completed.len() < COMPLETED_SHOWN && self.completed_bytes <= COMPLETED_BYTES {
            self.completed.push(record.device.clone());
        } else {
            self.truncated = true;
        }
    }

    /// A device that is the same as another entry, and told of there.
    pub fn add_duplicate(&mut self) {
        self.counts.total += 1;
        self.counts.skipped += 1;
    }

    /// A device whose turn is far away.
    pub fn add_passed_over(&mut self) {
        self.counts.total += 1;
        self.counts.pending += 1;
    }

    /// A device without a result, and the address that boards may dial for it.
    pub fn add_waiting(&mut self, record: &Record, wait: Wait, address: Option<&String>) {
        self.counts.total += 1;
        *self.count_of(&wait.state, record) += 1;
        self.starved |= wait.starved;
        // Devices whose turn has not come are counted, not listed.
        let listed = !matches!(wait.state, DeviceState::Pending) || record.is_open();
        if !listed || self.in_flight.len() >= SHOWN {
            return;
        }
        let pinned = record.pinned.as_ref();
        self.in_flight.push(InFlight {
            uuid: shown(&record.device),
            instance: pinned.map(|p| shown(&format!("{}/{}", p.namespace, p.name))),
            host_endpoint: pinned.map(|p| shown(p.endpoint.as_str())),
            external_ip: address.cloned(),
            state: wait.state,
            message: Some(ledger::message(&wait.why)).filter(|m| !m.is_empty()),
            attempt: i32::try_from(record.attempt).unwrap_or(i32::MAX),
            since: wait.since.map(Time),
            until: wait.until.map(Time),
        });
    }

    fn count_of(&mut self, state: &DeviceState, record: &Record) -> &mut i32 {
        let counts = &mut self.counts;
        match state {
            DeviceState::Offline => &mut counts.offline,
            DeviceState::Blocked => &mut counts.blocked,
            DeviceState::Addressing | DeviceState::BackOff => &mut counts.waiting,
            DeviceState::Starting | DeviceState::Flashing => &mut counts.flashing,
            DeviceState::Recording if record.is_open() => &mut counts.flashing,
            DeviceState::Recording => &mut counts.waiting,
            DeviceState::Pending | DeviceState::Other(_) => &mut counts.pending,
        }
    }
}

/// A text of a ledger as a status shows it: none that an operator has written is longer.
pub(crate) fn shown(text: &str) -> String {
    ledger::cut(text.to_owned(), SHOWN_BYTES)
}

fn failure(record: &Record) -> Failure {
    Failure {
        uuid: shown(&record.device),
        instance: record.pinned.as_ref().map(|p| shown(&format!("{}/{}", p.namespace, p.name))),
        reason: record.reason().map(shown).unwrap_or_default(),
        message: record.message().map(shown).unwrap_or_default(),
        attempts: i32::try_from(record.tries()).unwrap_or(i32::MAX),
    }
}
