//! What one device needs next, as a value: `Round::step` says it, and the plan, the status and a preview are made of it.

use std::borrow::Cow;

use flashjob_api::flashjob::DeviceState;
use jiff::Timestamp;

use crate::flashjob::ledger::{Outcome, Record};
use crate::flashjob::locks::Lock;
use crate::flashjob::plan::{AttemptEnd, Deletion, NewObject};

/// What one device needs next.
#[expect(clippy::large_enum_variant)] // of 100,000 devices that are found at once, each would be one more allocation
pub(crate) enum Step {
    /// It has left the job: nothing more is done for it, and it is not counted.
    Left,
    /// It has its result.
    Final(Outcome),
    /// It is the same device as another entry, and told of there.
    Duplicate,
    /// Its turn is far away, and nobody is told more of it now.
    PassedOver,
    /// It waits for its batch or for an edit of the job, and for nothing else in the world.
    Idle(Wait),
    /// It waits.
    Waits(Wait),
    /// Something is to be done for it; where it stands until that is done.
    Acts(Wait, Action),
}

/// Where a device stands that has no result yet, and what it waits for.
pub(crate) struct Wait {
    pub state: DeviceState,
    pub why: Cow<'static, str>,
    pub since: Option<Timestamp>,
    /// Whatever happens, the wait is over then.
    pub until: Option<Timestamp>,
    /// There is something to see before that.
    pub sooner: Option<Timestamp>,
    /// Another job may have its board, too, and this one would take it now, were it free.
    pub wanted_lock: Option<Lock<'static>>,
    /// It would have its Service by now, did not others wait for their addresses.
    pub starved: bool,
}

/// What is to be done for a device.
pub(crate) enum Action {
    /// Its record is to say this.
    Write(Record),
    /// The same, and what is locked and shown from now on goes by it: the device goes on from there.
    Advance(Record),
    /// Its record is to say this, because that has ended.
    End(Box<(Record, AttemptEnd)>),
    Create(NewObject),
    Delete(Deletion),
}

impl Wait {
    pub fn new(state: DeviceState, why: impl Into<Cow<'static, str>>) -> Wait {
        let (since, until, sooner, wanted_lock) = (None, None, None, None);
        Wait { state, why: why.into(), since, until, sooner, wanted_lock, starved: false }
    }

    pub fn since(self, since: impl Into<Option<Timestamp>>) -> Wait {
        Wait { since: since.into(), ..self }
    }

    pub fn until(self, until: Timestamp) -> Wait {
        Wait { until: Some(until), ..self }
    }

    /// Something is to be done meanwhile.
    pub fn then(self, action: Action) -> Step {
        Step::Acts(self, action)
    }
}

impl From<Wait> for Step {
    fn from(wait: Wait) -> Step {
        Step::Waits(wait)
    }
}

impl Step {
    /// Where the device stands, unless it has a result or nobody looks.
    pub fn wait(&self) -> Option<&Wait> {
        match self {
            Step::Idle(wait) | Step::Waits(wait) | Step::Acts(wait, _) => Some(wait),
            Step::Left | Step::Final(_) | Step::Duplicate | Step::PassedOver => None,
        }
    }

    pub fn wait_mut(&mut self) -> Option<&mut Wait> {
        match self {
            Step::Idle(wait) | Step::Waits(wait) | Step::Acts(wait, _) => Some(wait),
            Step::Left | Step::Final(_) | Step::Duplicate | Step::PassedOver => None,
        }
    }

    /// What its record is to say.
    pub fn record(&self) -> Option<&Record> {
        match self {
            Step::Acts(_, Action::Write(record) | Action::Advance(record)) => Some(record),
            Step::Acts(_, Action::End(ended)) => Some(&ended.0),
            _ => None,
        }
    }
}
