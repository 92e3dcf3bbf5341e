//! What the operator sees of the objects of the small world.

use flashjob_plan::flashjob::endpoint::Endpoint;
use flashjob_plan::flashjob::facts::{Container, Pod, PodPhase, Service as Seen, Slot};

use crate::operator::at;
use crate::state::{Phase, Real, Service};

/// A Service as the operator sees it.
pub fn service(service: Service, shape: &str) -> Slot<Seen> {
    let created = match service {
        Service::Bare(created) => created,
        _ => 0,
    };
    let seen = Seen {
        version: 1,
        name: "service".into(),
        uid: "service".into(),
        first_seen: at(created),
        shape: shape.to_owned(),
        address: (!matches!(service, Service::Bare(_))).then(|| "192.0.2.1".into()),
        ..Seen::default()
    };
    let there = !matches!(service, Service::None | Service::Sent);
    Slot {
        seen: Some(seen).filter(|_| there),
        gone: service == Service::Gone,
        busy: matches!(service, Service::Sent | Service::Ending),
        refused: None,
    }
}

/// A Pod as the operator sees it.
pub fn pod(real: Real, endpoint: &Endpoint) -> Pod {
    let ended = |exit_code| Container::Ended { exit_code, reason: None, message: None, at: None };
    let (phase, container) = match real.phase {
        Phase::Waiting => (PodPhase::Pending, Container::Waiting(None)),
        Phase::Running => (PodPhase::Running, Container::Running(Some(at(real.running)))),
        Phase::Well => (PodPhase::Succeeded, ended(0)),
        Phase::Badly => (PodPhase::Failed, ended(1)),
    };
    Pod {
        version: 1,
        name: "pod".into(),
        uid: real.uid.to_string(),
        endpoint: endpoint.clone(),
        first_seen: at(real.created),
        deleting: real.deleting.map(at),
        phase,
        container,
        reason: None,
        note: None,
        terminal_since: None,
    }
}
