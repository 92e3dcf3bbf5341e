//! How tests stand in for the operator's `observe`. This is the one place where they put a [`View`] together: a new field
//! of it is one line here.

use std::collections::HashMap;
use std::sync::LazyLock;

use flashjob_plan::flashjob::addresses::Addresses;
use flashjob_plan::flashjob::facts::Children;
use flashjob_plan::flashjob::ids::Target;
use flashjob_plan::flashjob::instances::Instances;
use flashjob_plan::flashjob::locks::Locks;
use flashjob_plan::flashjob::{Job, LedgerState, Settings, View};
use jiff::Timestamp;

static SETTINGS: LazyLock<Settings> = LazyLock::new(Settings::default);
static ADDRESSES: LazyLock<Addresses> = LazyLock::new(Addresses::default);

/// What the operator knows of one job, with everything else as it is on a quiet day.
pub fn view<'a>(
    job: &'a Job,
    ledger: LedgerState<'a>,
    instances: &'a Instances,
    children: &'a HashMap<Target, Children>,
    locks: &'a Locks,
    recovered: bool,
) -> View<'a> {
    View {
        job,
        first_seen: Timestamp::MAX,
        settings: &SETTINGS,
        ledger,
        instances: Some(instances),
        children,
        recovered,
        trouble: None,
        locks,
        addresses: &ADDRESSES,
        status_due: true,
    }
}
