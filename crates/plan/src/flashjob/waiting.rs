//! What is said of Services that wait for their addresses.

use jiff::Timestamp;

use crate::flashjob::access::Access;
use crate::flashjob::addresses::Waiting;
use crate::flashjob::facts::{Job, Service, View};

/// Allowed for an address while the spec cannot be read.
const ADDRESS_SECONDS: i64 = 120;

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
