//! What can happen next in the small world, and what comes of it.
//!
//! Every read may be stale: what a Pod does and what the operator sees of it are two moves. Every write is sent in one
//! move and arrives in another; if the operator is killed in between, it may arrive at any later time, or never.

use flashjob_plan::ledger::{Outcome, Record};

use crate::operator::{Operator, Step, is_shared};
use crate::state::{Board, Device, Job, Late, Phase, Pod, Service, State, Truth, Write};

/// The moves; numbers are the job, the device in it, and the attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Move {
    /// The operator looks at a job and acts.
    Look(u8),
    /// A write of the ledger arrives and is answered.
    Acknowledge(u8),
    /// A live list of a job's Pods is answered.
    List(u8),
    MakeService(u8, u8),
    GiveAddress(u8, u8),
    EndService(u8, u8),
    /// The create of a Pod arrives.
    MakePod(u8, u8, u8),
    /// The delete of a Pod arrives and is answered.
    EndPod(u8, u8, u8),
    /// The operator sees a Pod as it is now.
    Learn(u8, u8, u8),
    /// A kubelet starts a container whose permit is there.
    Start(u8, u8, u8),
    EndWell(u8, u8, u8),
    EndBadly(u8, u8, u8),
    /// A kubelet has ended a Pod that was to end.
    Remove(u8, u8, u8),
    /// Somebody removes a Pod.
    Vanish(u8, u8, u8),
    /// A write of an earlier process arrives. It may never do.
    Arrive(u8, Late),
    /// The operator is killed, and another begins.
    Crash,
    /// Time passes, up to here.
    Wait(u16),
}

impl Move {
    /// What has to happen sooner or later; the others may.
    pub fn is_due(&self) -> bool {
        !matches!(self, Move::Vanish(..) | Move::Arrive(..) | Move::Crash)
    }

    /// The job it is about.
    pub fn job(&self) -> Option<u8> {
        match *self {
            Move::Look(j) | Move::Acknowledge(j) | Move::List(j) => Some(j),
            Move::MakeService(j, _) | Move::GiveAddress(j, _) | Move::EndService(j, _) => Some(j),
            Move::MakePod(j, ..) | Move::EndPod(j, ..) | Move::Learn(j, ..) => Some(j),
            Move::Start(j, ..) | Move::EndWell(j, ..) | Move::EndBadly(j, ..) => Some(j),
            Move::Remove(j, ..) | Move::Vanish(j, ..) | Move::Arrive(j, _) => Some(j),
            Move::Crash | Move::Wait(_) => None,
        }
    }

    /// What kubelets do, however long that takes.
    fn is_slow(&self) -> bool {
        matches!(self, Move::Start(..) | Move::EndWell(..) | Move::EndBadly(..) | Move::Remove(..))
    }
}

/// What of the world is looked at in detail.
#[derive(Clone, Copy, Default)]
pub struct Detail {
    /// Services are made, get their address and are ended in moves of their own, not within a look.
    pub services: bool,
    /// Kubelets may be slower than every deadline.
    pub slow_kubelets: bool,
}

/// Everything that can happen now, with what comes of it. What the operator does wrong in it is said at once.
pub fn moves(
    operator: &mut Operator,
    state: &State,
    detail: Detail,
) -> Result<Vec<(Move, State)>, String> {
    let mut all = Vec::new();
    let mut again: Option<u16> = None;
    for job in 0..state.jobs.len() {
        let step = operator.look(state, job);
        let mut next = state.clone();
        crate::check::step(operator, state, job, &step)?;
        act(&mut next, job, &step, detail);
        if next != *state {
            all.push((Move::Look(job as u8), next));
        }
        again = again.into_iter().chain(step.again).min();
    }
    let mut push = |what: Move, change: &dyn Fn(&mut State)| {
        let mut next = state.clone();
        change(&mut next);
        all.push((what, next));
    };
    for (j, job) in (0..).zip(&state.jobs) {
        if let Some(ledger) = job.flushing {
            push(Move::Acknowledge(j), &|s| acknowledge(operator, s, j, ledger));
        }
        if job.listing {
            push(Move::List(j), &|s| list(s, j));
        }
        for late in &job.late {
            push(Move::Arrive(j, *late), &|s| {
                s.job(j).late.retain(|other| other != late);
                arrive(s, j, *late);
            });
        }
        for (d, device) in (0..).zip(&job.devices) {
            let now = state.now;
            match device.service {
                Service::Sent => push(Move::MakeService(j, d), &|s| {
                    s.device(j, d).service = Service::Bare(now);
                }),
                Service::Bare(_) => push(Move::GiveAddress(j, d), &|s| {
                    s.device(j, d).service = Service::Ready;
                }),
                Service::Ending => push(Move::EndService(j, d), &|s| {
                    s.device(j, d).service = Service::Gone;
                }),
                _ => {}
            }
            let record = &operator.ledger(job.server).records[d as usize];
            for pod in &device.pods {
                let a = pod.attempt;
                match pod.write {
                    Write::Create => push(Move::MakePod(j, d, a), &|s| {
                        let pod = s.pod(j, d, a);
                        pod.make(now);
                        pod.write = Write::Created;
                    }),
                    Write::Delete => push(Move::EndPod(j, d, a), &|s| end_pod(s, j, d, a)),
                    Write::None | Write::Created => {}
                }
                if pod.has_news() {
                    push(Move::Learn(j, d, a), &|s| s.pod(j, d, a).learn());
                }
                let Some(real) = pod.real else { continue };
                let permitted = record.permit && record.attempt == u32::from(a);
                let set = |s: &mut State, phase| {
                    let real = s.pod(j, d, a).real.as_mut().unwrap();
                    real.phase = phase;
                    if phase == Phase::Running {
                        real.running = now;
                    }
                };
                match real.phase {
                    Phase::Waiting if permitted && real.deleting.is_none() => {
                        push(Move::Start(j, d, a), &|s| set(s, Phase::Running));
                    }
                    Phase::Running => {
                        push(Move::EndWell(j, d, a), &|s| {
                            set(s, Phase::Well);
                            // Given up before, it does not count, however it ends.
                            if record.open && record.attempt == u32::from(a) {
                                s.device(j, d).truth = Truth::Flashed;
                            }
                        });
                        if job.left.failures > 0 {
                            push(Move::EndBadly(j, d, a), &|s| {
                                set(s, Phase::Badly);
                                s.job(j).left.failures -= 1;
                            });
                        }
                    }
                    _ => {}
                }
                if real.deleting.is_some() {
                    push(Move::Remove(j, d, a), &|s| s.pod(j, d, a).real = None);
                } else if job.left.vanishes > 0 {
                    push(Move::Vanish(j, d, a), &|s| {
                        s.pod(j, d, a).real = None;
                        s.job(j).left.vanishes -= 1;
                        if !pod.seen.is_some_and(|seen| seen.phase == Phase::Well) {
                            forget(s.device(j, d), record);
                        }
                    });
                }
            }
        }
    }
    if state.crashes > 0 {
        push(Move::Crash, &|s| crash(operator, s));
    }
    let quiet = !all.iter().any(|(m, _)| m.is_due() && !(detail.slow_kubelets && m.is_slow()));
    if let Some(at) = again.filter(|at| quiet && *at > state.now) {
        let mut next = state.clone();
        next.now = at;
        all.push((Move::Wait(at), next));
    }
    for (_, next) in &mut all {
        tidy(next);
        if detail.slow_kubelets {
            forgive(operator, next);
        }
    }
    if state.jobs.len() == 2 && state.crashes == 0 && !detail.slow_kubelets {
        for job in [0, 1] {
            if is_alone(operator, state, job, &all) {
                all.retain(|(m, _)| m.job() == Some(job));
                break;
            }
        }
    }
    Ok(all)
}

/// Whether what this job does now and what the other does make no difference to each other, so that one order of the two
/// is as good as any: its next moves leave the shared board alone, and nothing the other may do meanwhile changes them.
fn is_alone(operator: &mut Operator, state: &State, job: u8, all: &[(Move, State)]) -> bool {
    let mut mine = all.iter().filter(|(m, _)| m.job() == Some(job)).peekable();
    if !mine.clone().any(|(m, _)| m.is_due()) {
        return false;
    }
    let board = operator.board(state);
    let at_work = crate::check::at_work_on_shared(operator, state);
    let apart = |(_, next): &(Move, State)| {
        operator.board(next) == board && crate::check::at_work_on_shared(operator, next) == at_work
    };
    if mine.peek().is_none() || !mine.all(apart) {
        return false;
    }
    let (mine, other) = (job as usize, 1 - job as usize);
    let step = operator.look(state, mine);
    let mut may_be = vec![board];
    if may_be[0].holder != Some(job) {
        vary(&mut may_be, |b| b.holder = Some(other as u8));
        vary(&mut may_be, |b| b.holder = None);
    }
    vary(&mut may_be, |b| b.wants[other] = true);
    vary(&mut may_be, |b| b.wants[other] = false);
    if may_be[0].flashed[other].is_none() {
        vary(&mut may_be, |b| b.flashed[other] = Some(state.now));
    }
    may_be.iter().all(|board| {
        let then = operator.look_with(state, mine, board);
        then.holder == board.holder && Step { holder: step.holder, ..Step::clone(&then) } == *step
    })
}

fn vary(boards: &mut Vec<Board>, change: impl Fn(&mut Board)) {
    let mut more = boards.clone();
    more.iter_mut().for_each(change);
    boards.extend(more);
}

/// What `act` does with a plan.
fn act(state: &mut State, job: usize, step: &Step, detail: Detail) {
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
fn acknowledge(operator: &Operator, state: &mut State, job: u8, next: u32) {
    let job = &mut state.jobs[job as usize];
    job.flushing = None;
    if job.server == job.known {
        (job.server, job.known) = (next, next);
        return;
    }
    let agrees = job.server == next;
    job.known = job.server;
    let open = operator.ledger(job.server).has_open_attempts();
    job.settled = (job.settled && agrees) || !open;
}

fn list(state: &mut State, job: u8) {
    let job = &mut state.jobs[job as usize];
    (job.listing, job.settled) = (false, true);
    for pod in job.devices.iter_mut().flat_map(|d| &mut d.pods).filter(|p| p.real.is_some()) {
        let write = pod.write;
        pod.learn();
        pod.write = write;
    }
}

/// A delete arrives. A running container takes its time to end, all else goes at once.
fn end_pod(state: &mut State, job: u8, device: u8, attempt: u8) {
    let now = state.now;
    let pod = state.pod(job, device, attempt);
    pod.write = Write::None;
    let same = pod.real.map(|r| r.uid) == pod.seen.map(|s| s.uid);
    let real = pod.real.as_mut().filter(|_| same);
    if real.is_some_and(|real| end(real, now)) {
        pod.real = None;
        pod.gone = true;
    } else if let Some(seen) = &mut pod.seen {
        seen.deleting.get_or_insert(now);
    }
}

/// Says whether it goes at once.
fn end(real: &mut crate::state::Real, now: u16) -> bool {
    real.deleting.get_or_insert(now);
    real.phase != Phase::Running
}

/// Nobody can tell any more that it was flashed, unless the ledger can.
fn forget(device: &mut Device, record: &Record) {
    let witness = |pod: &Pod| pod.real.is_some_and(|real| real.phase == Phase::Well);
    let known = record.outcome.is_some() || device.pods.iter().any(witness);
    if device.truth == Truth::Flashed && !known {
        device.truth = Truth::Forgotten;
    }
}

/// A flash that ended well in the very moment in which it was given up is made again: no deadline is without that.
fn forgive(operator: &Operator, state: &mut State) {
    for job in &mut state.jobs {
        for (device, record) in job.devices.iter_mut().zip(&operator.ledger(job.server).records) {
            let late =
                !record.open && record.tries > 0 && record.outcome != Some(Outcome::Succeeded);
            if late && device.truth == Truth::Flashed {
                device.truth = Truth::Forgotten;
            }
        }
    }
}

fn arrive(state: &mut State, j: u8, late: Late) {
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
fn crash(operator: &Operator, state: &mut State) {
    state.crashes -= 1;
    state.holder = None;
    for (j, job) in (0..).zip(&mut state.jobs) {
        restart(operator, job);
        if operator.claims_shared(job.server) {
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
    job.settled = !ledger.has_open_attempts();
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
    // As `boards_held` has it.
    job.holds = job.devices.iter().zip(&ledger.records).any(|(device, record)| {
        let works =
            |p: &Pod| p.real.is_some_and(|r| matches!(r.phase, Phase::Waiting | Phase::Running));
        let used = device.service != Service::None || device.pods.iter().any(works);
        is_shared(record) && (record.open || used)
    });
}

/// Leaves out what makes no difference any more.
fn tidy(state: &mut State) {
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
