//! Where a device is that has no result yet: counted, listed with what it waits for, and with the next look where it has one.

use flashjob_api::flashjob::{DeviceState as State, InFlight};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::flashjob::access::Access;
use crate::flashjob::addresses::Waiting;
use crate::flashjob::facts::{Job, Service, View};
use crate::flashjob::in_use::in_use;
use crate::flashjob::ledger::{self, Record};
use crate::flashjob::round::Round;
use crate::flashjob::status;

/// Allowed for an address while the spec cannot be read.
const ADDRESS_SECONDS: i64 = 120;

impl Round<'_> {
    /// Notes where a device is that has no result yet.
    pub(crate) fn waits(
        &mut self,
        record: &Record,
        state: State,
        why: &str,
        since: Option<Timestamp>,
    ) {
        let children = self.view.children.get(&record.target);
        let address = children.and_then(|c| c.service.here()).and_then(|s| s.address.clone());
        let counts = &mut self.summary.counts;
        *match state {
            State::Offline => &mut counts.offline,
            State::Blocked => &mut counts.blocked,
            State::Addressing | State::BackOff => &mut counts.waiting,
            State::Starting | State::Flashing => &mut counts.flashing,
            State::Recording if record.open => &mut counts.flashing,
            State::Recording => &mut counts.waiting,
            State::Pending | State::Other(_) => &mut counts.pending,
        } += 1;
        let claims = record.open || children.is_some_and(|c| in_use(c, self.now));
        if claims || matches!(state, State::Addressing) {
            self.claims.extend(record.lock());
        }
        // Devices whose turn has not come are counted, not listed.
        let listed = !matches!(state, State::Pending) || record.open;
        if !listed || self.summary.in_flight.len() >= status::SHOWN {
            return;
        }
        let pinned = record.pinned.as_ref();
        self.summary.in_flight.push(InFlight {
            uuid: status::shown(&record.device),
            instance: pinned.map(|p| status::shown(&format!("{}/{}", p.namespace, p.name))),
            host_endpoint: pinned.map(|p| status::shown(p.endpoint.as_str())),
            external_ip: address,
            state,
            message: Some(ledger::message(why)).filter(|m| !m.is_empty()),
            attempt: i32::try_from(record.attempt).unwrap_or(i32::MAX),
            since: since.map(Time),
            until: None,
        });
    }

    /// Notes where a device is, and that it is looked at again at `until` whatever happens.
    pub(crate) fn waits_until(
        &mut self,
        record: &Record,
        (state, why): (State, &str),
        since: Option<Timestamp>,
        until: Timestamp,
    ) {
        self.plan.look_again_at(until);
        let place = self.summary.in_flight.len();
        self.waits(record, state, why, since);
        if let Some(device) = self.summary.in_flight.get_mut(place) {
            device.until = Some(Time(until));
        }
    }
}

/// What is known of a Service of this job that waits for its address.
pub(crate) fn of(view: &View<'_>, service: &Service) -> Waiting {
    let job = view.job;
    let seconds = job.spec.as_ref().map_or(ADDRESS_SECONDS, |spec| spec.address_seconds);
    let place = (job.namespace.as_str(), service.pool.as_str());
    Waiting {
        namespace: job.namespace.clone(),
        job: job.name.clone(),
        service: service.name.clone(),
        pool: service.pool.clone(),
        since: service.first_seen,
        until: view.addresses.gives_up_at(place, service.first_seen, seconds),
    }
}

/// What devices wait for that get no Service: for an address, and behind whom.
pub(crate) fn held_up(job: &Job, access: &Access, behind: &Waiting) -> String {
    let time = |at: Timestamp| at.strftime("%Y-%m-%d %H:%M:%S UTC");
    let Waiting { namespace, service, since, until, .. } = behind;
    let whose = if behind.job == job.name {
        "this job".to_owned()
    } else {
        format!("FlashJob {namespace}/{}", behind.job)
    };
    format!(
        "{} behind Service {service} of {whose}, which has waited since {} and is given up at {}",
        access.awaited(),
        time(*since),
        time(*until),
    )
}
