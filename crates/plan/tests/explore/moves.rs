//! What can happen next in the small world, and what comes of it.
//!
//! Every read may be stale: what a Pod does and what the operator sees of it are two moves. Every write is sent in one
//! move and arrives in another; if the operator is killed in between, it may arrive at any later time, or never.

use crate::alone::is_alone;
use crate::changes::{acknowledge, act, arrive, crash, end_pod, forget, forgive, list, tidy};
use crate::check;
use crate::operator::Operator;
use crate::state::{Late, Phase, Service, Truth, WorldState, Write};

/// The moves; numbers are the job, the device in it, and the attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Move {
    /// The operator reconciles a job and acts.
    Reconcile(u8),
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
            Move::Reconcile(j) | Move::Acknowledge(j) | Move::List(j) => Some(j),
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
    /// Services are made, get their address and are ended in moves of their own, not within a reconcile.
    pub services: bool,
    /// Kubelets may be slower than every deadline.
    pub slow_kubelets: bool,
    /// The operator sees everything at once and reconciles at once. A crash loses nothing by that: one before a reconcile
    /// is one after it whose writes never arrive.
    pub prompt: bool,
}

/// Everything that can happen now, with what comes of it. What the operator does wrong in it is said at once.
pub fn moves(
    operator: &mut Operator,
    state: &WorldState,
    detail: Detail,
) -> Result<Vec<(Move, WorldState)>, String> {
    let mut all = Vec::new();
    let mut again: Option<u16> = None;
    for job in 0..state.jobs.len() {
        let step = operator.reconcile(state, job);
        let mut next = state.clone();
        check::step(operator, state, job, &step)?;
        act(&mut next, job, &step, detail);
        if next != *state {
            all.push((Move::Reconcile(job as u8), next));
        }
        again = again.into_iter().chain(step.again).min();
    }
    let mut push = |what: Move, change: &dyn Fn(&mut WorldState)| {
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
                let permitted = record.has_permit() && record.attempt == u32::from(a);
                let set = |s: &mut WorldState, phase| {
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
                            if record.is_open() && record.attempt == u32::from(a) {
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
    if detail.prompt {
        let learn = all.iter().position(|(m, _)| matches!(m, Move::Learn(..)));
        let reconcile = || all.iter().position(|(m, _)| matches!(m, Move::Reconcile(_)));
        if let Some(first) = learn.or_else(reconcile) {
            all = vec![all.swap_remove(first)];
        }
    }
    for (_, next) in &mut all {
        tidy(next);
        if detail.slow_kubelets {
            forgive(operator, next);
        }
    }
    if all.len() > 1 && state.jobs.len() == 2 && state.crashes == 0 && !detail.slow_kubelets {
        for job in [0, 1] {
            if is_alone(operator, state, job, &all) {
                all.retain(|(m, _)| m.job() == Some(job));
                break;
            }
        }
    }
    Ok(all)
}
