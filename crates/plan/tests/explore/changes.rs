//! What the moves change: how a plan is acted on, what an answer does, and what a new process begins with. This says in few
//! lines what `crates/operator/src/flashjob/{act,answer,watch_events}.rs` say.

use flashjob_plan::flashjob::ledger::{Outcome, Record};

use crate::moves::Detail;
use crate::operator::{Operator, Reconciled, is_shared};
use crate::state::{Device, Job, Late, Phase, Pod, Real, Service, Truth, WorldState, Write};

/// What `act` does with a plan.
pub fn act(state: &mut WorldState, job: usize, step: &Reconciled, detail: Detail) {
    let mine = &mut state.jobs[job];
    for device in &step.forget_services {
        mine.devices[*device as usize].service = Service::None;
    }
    for (device, attempt) in &step.forget_pods {
        let pod = mine.devices[*device as usize].pod(*attempt);
        (pod.seen, pod.gone) = (None, false);
    }
    for device in &step.make_services {
        let sent = if detail.services { Service::Sent } else { Service::Ready };
        mine.devices[*device as usize].service = sent;
    }
    for (device, attempt) in &step.make_pods {
        mine.devices[*device as usize].pod(*attempt).write = Write::Create;
    }
    for device in &step.end_services {
        let sent = if detail.services { Service::Ending } else { Service::Gone };
        mine.devices[*device as usize].service = sent;
    }
    for (device, attempt) in &step.end_pods {
        mine.devices[*device as usize].pod(*attempt).write = Write::Delete;
    }
    // One write of the ledger at a time.
    mine.flushing = mine.flushing.or(step.ledger);
    mine.listing |= step.list;
    (mine.holds, mine.wants) = (step.holds, step.wants);
    state.holder = step.holder;
}

/// A write of the ledger arrives. If somebody else has written, it is refused, and the ledger is read again.
pub fn acknowledge(operator: &Operator, state: &mut WorldState, job: u8, next: u32) {
    let job = &mut state.jobs[job as usize];
    job.flushing = None;
    if job.server == job.known {
        (job.server, job.known) = (next, next);
        return;
    }
    let agrees = job.server == next;
    job.known = job.server;
    let open = operator.ledger(job.server).has_open_attempts();
    job.recovered = (job.recovered && agrees) || !open;
}

pub fn list(state: &mut WorldState, job: u8) {
    let job = &mut state.jobs[job as usize];
    (job.listing, job.recovered) = (false, true);
    for pod in job.devices.iter_mut().flat_map(|d| &mut d.pods).filter(|p| p.real.is_some()) {
        let write = pod.write;
        pod.learn();
        pod.write = write;
    }
}

/// A delete arrives. A running container takes its time to end, all else goes at once.
pub fn end_pod(state: &mut WorldState, job: u8, device: u8, attempt: u8) {
    let now = state.now;
    let pod = state.pod(job, device, attempt);
    pod.write = Write::None;
    let same = pod.real.map(|r| r.uid) == pod.seen.map(|s| s.uid);
    let real = pod.real.as_mut().filter(|_| same);
    if real.is_some_and(|real| end(real, now)) {
        pod.real = None;
        pod.learn();
    } else if let Some(seen) = &mut pod.seen {
        seen.deleting.get_or_insert(now);
    }
}

/// Says whether it goes at once.
fn end(real: &mut Real, now: u16) -> bool {
    real.deleting.get_or_insert(now);
    real.phase != Phase::Running
}

/// Nobody can tell any more that it was flashed, unless the ledger can.
pub fn forget(device: &mut Device, record: &Record) {
    let witness = |pod: &Pod| pod.real.is_some_and(|real| real.phase == Phase::Well);
    let known = record.outcome().is_some() || device.pods.iter().any(witness);
    if device.truth == Truth::Flashed && !known {
        device.truth = Truth::Forgotten;
    }
}

/// A flash that ended well in the very moment in which it was given up is made again: no deadline is without that.
pub fn forgive(operator: &Operator, state: &mut WorldState) {
    for job in &mut state.jobs {
        for (device, record) in job.devices.iter_mut().zip(&operator.ledger(job.server).records) {
            let late = !record.is_open()
                && record.tries() > 0
                && record.outcome() != Some(Outcome::Succeeded);
            if late && device.truth == Truth::Flashed {
                device.truth = Truth::Forgotten;
            }
        }
    }
}

pub fn arrive(state: &mut WorldState, j: u8, late: Late) {
    let now = state.now;
    match late {
        Late::Ledger { next, .. } => state.job(j).server = next,
        Late::Service(d) => {
            let service = &mut state.device(j, d).service;
            if matches!(service, Service::None | Service::Gone) {
                *service = Service::Ready;
            }
        }
        Late::Pod(d, a) => state.pod(j, d, a).make(now),
        Late::Delete(d, a) => {
            let pod = state.pod(j, d, a);
            if pod.real.as_mut().is_some_and(|real| end(real, now)) {
                pod.real = None;
            }
        }
    }
}

/// A new process: it reads the ledger, lists what is there, and holds the boards of open attempts.
pub fn crash(operator: &Operator, state: &mut WorldState) {
    state.crashes -= 1;
    state.holder = None;
    for (j, job) in (0..).zip(&mut state.jobs) {
        restart(operator, job);
        if operator.locks_shared(job.server) {
            state.holder.get_or_insert(j);
        }
    }
    // Open attempts come first, then what has a Service or a Pod.
    for (j, job) in (0..).zip(&mut state.jobs) {
        if job.holds {
            state.holder.get_or_insert(j);
        }
    }
}

fn restart(operator: &Operator, job: &mut Job) {
    if let Some(next) = job.flushing.take() {
        job.late.push(Late::Ledger { base: job.known, next });
    }
    let ledger = operator.ledger(job.server);
    job.known = job.server;
    job.recovered = !ledger.has_open_attempts();
    job.listing = false;
    job.wants = false;
    for ((d, device), record) in (0..).zip(&mut job.devices).zip(&ledger.records) {
        match device.service {
            Service::Sent => {
                job.late.push(Late::Service(d));
                device.service = Service::None;
            }
            Service::Ending => device.service = Service::Ready,
            Service::Gone => device.service = Service::None,
            _ => {}
        }
        for pod in &mut device.pods {
            match pod.write {
                Write::Create => job.late.push(Late::Pod(d, pod.attempt)),
                Write::Delete => job.late.push(Late::Delete(d, pod.attempt)),
                Write::None | Write::Created => {}
            }
            (pod.write, pod.seen, pod.gone) = (Write::None, pod.real, false);
        }
        forget(device, record);
    }
    // As `locks_held` has it.
    job.holds = job.devices.iter().zip(&ledger.records).any(|(device, record)| {
        let works =
            |p: &Pod| p.real.is_some_and(|r| matches!(r.phase, Phase::Waiting | Phase::Running));
        let used = device.service != Service::None || device.pods.iter().any(works);
        is_shared(record) && (record.is_open() || used)
    });
}

/// Leaves out what makes no difference any more.
pub fn tidy(state: &mut WorldState) {
    for job in &mut state.jobs {
        for device in &mut job.devices {
            device.pods.retain(|p| p.real.is_some() || p.seen.is_some() || p.busy());
        }
        let (server, devices) = (job.server, &job.devices);
        job.late.retain(|late| match late {
            // It carries the version it was decided on.
            Late::Ledger { base, .. } => server == *base,
            Late::Delete(d, a) => {
                let pods = &devices[*d as usize].pods;
                pods.iter().any(|p| p.attempt == *a && p.real.is_some_and(|r| r.deleting.is_none()))
            }
            Late::Service(_) | Late::Pod(..) => true,
        });
        job.late.sort_unstable();
        job.late.dedup();
    }
}
