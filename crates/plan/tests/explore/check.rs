//! What must hold in every state, and of every step of the operator.

use flashjob_plan::flashjob::ledger::{Outcome, Record};

use crate::operator::{Operator, Reconciled, is_shared};
use crate::state::{Device, Job, Phase, Pod, Service, Truth, WorldState, Write};

/// A Pod whose container runs, or will when a kubelet comes to it: the permit is there.
fn may_run(record: &Record, pod: &Pod) -> bool {
    let permitted = record.has_permit() && record.attempt == u32::from(pod.attempt);
    match pod.real {
        Some(real) if real.phase == Phase::Running => true,
        Some(real) => real.phase == Phase::Waiting && real.deleting.is_none() && permitted,
        None => pod.write == Write::Create && permitted,
    }
}

/// How many Pods may work on the board that both jobs have.
pub fn at_work_on_shared(operator: &Operator, state: &WorldState) -> usize {
    let count = |job: &Job| {
        let records = &operator.ledger(job.server).records;
        let shared = records.iter().zip(&job.devices).find(|(r, _)| is_shared(r));
        shared.map_or(0, |(r, device)| device.pods.iter().filter(|p| may_run(r, p)).count())
    };
    state.jobs.iter().map(count).sum()
}

/// What must hold in every state.
pub fn state(operator: &Operator, state: &WorldState) -> Result<(), String> {
    let mut at_work: Vec<&str> = Vec::new();
    for (job, facts) in state.jobs.iter().zip(&operator.jobs) {
        let most = facts.spec.as_ref().map_or(0, |spec| spec.max_parallel);
        let mut here = 0;
        for (device, record) in job.devices.iter().zip(&operator.ledger(job.server).records) {
            let pods = device.pods.iter().filter(|pod| may_run(record, pod)).count();
            here += pods;
            let board = record.pinned.as_ref().map_or("", |p| p.endpoint.as_str());
            at_work.extend(std::iter::repeat_n(board, pods));
            if record.outcome() == Some(Outcome::Succeeded) && device.truth == Truth::NotFlashed {
                return Err(format!("{} is said to be flashed and is not", record.device));
            }
            let runs =
                device.pods.iter().any(|p| p.real.is_some_and(|r| r.phase == Phase::Running));
            if device.truth == Truth::Flashed && runs {
                return Err(format!("{} is flashed a second time", record.device));
            }
        }
        if here > most {
            return Err(format!("{here} Pods at once in a job that allows {most}"));
        }
    }
    at_work.sort_unstable();
    match at_work.windows(2).find(|two| two[0] == two[1]) {
        Some(two) => Err(format!("two Pods may work on the board {}", two[0])),
        None => Ok(()),
    }
}

/// What must hold of every step: nothing is ended before its result is safe, and nothing begun beyond the budget.
pub fn step(
    operator: &Operator,
    state: &WorldState,
    job: usize,
    step: &Reconciled,
) -> Result<(), String> {
    let mine = &state.jobs[job];
    let safe = &operator.ledger(mine.server).records;
    for (device, attempt) in &step.end_pods {
        let record = &safe[*device as usize];
        let open = record.is_open() && record.attempt == u32::from(*attempt);
        let pod = mine.devices[*device as usize].pods.iter().find(|p| p.attempt == *attempt);
        let started = pod.and_then(|p| p.real).is_some_and(|r| r.phase != Phase::Waiting);
        if open && (started || record.has_permit()) {
            return Err(format!(
                "Pod {attempt} of {} ends before its result is safe",
                record.device
            ));
        }
    }
    for device in &step.end_services {
        if safe[*device as usize].is_open() {
            let device = &safe[*device as usize].device;
            return Err(format!("the Service of {device} ends while its attempt is open"));
        }
    }
    let known = &operator.ledger(mine.known).records;
    let newer = operator.board(state).flashed.into_iter().skip(job + 1).flatten().next();
    if newer.is_some() && step.make_pods.iter().any(|(d, _)| is_shared(&known[*d as usize])) {
        return Err(format!("job {job} undoes what a newer one has flashed"));
    }
    let Some(most) = operator.jobs[job].spec.as_ref().ok().and_then(|s| s.max_failures) else {
        return Ok(());
    };
    let most = most.round_down(known.len());
    let failed = known.iter().filter(|r| r.outcome() == Some(Outcome::Failed)).count();
    for (device, _) in &step.make_pods {
        let first = known[*device as usize].tries() == 0;
        let doubtful = known.iter().zip(&mine.devices).filter(|(r, d)| is_doubtful(r, d)).count();
        if failed > most || (first && failed + doubtful > most) {
            let device = &known[*device as usize].device;
            return Err(format!(
                "{device} begins although {most} may fail: {failed}+{doubtful} have"
            ));
        }
    }
    Ok(())
}

/// Tried again, or seen to have failed.
fn is_doubtful(record: &Record, device: &Device) -> bool {
    let failed = |p: &Pod| {
        record.attempt == u32::from(p.attempt) && p.seen.is_some_and(|s| s.phase == Phase::Badly)
    };
    let fails = record.is_open() && device.pods.iter().any(failed);
    record.outcome().is_none() && (record.tries() > 0 || fails)
}

/// A state in which nothing is left to happen: everything must be done and nothing left behind.
pub fn end(operator: &mut Operator, state: &WorldState) -> Result<(), String> {
    for job in 0..state.jobs.len() {
        if !operator.reconcile(state, job).finished {
            return Err(format!("nothing can happen, and job {job} is not finished"));
        }
        let mine: &Job = &state.jobs[job];
        for (device, record) in mine.devices.iter().zip(&operator.ledger(mine.known).records) {
            let left = device.service != Service::None || !device.pods.is_empty();
            if left || record.is_open() || record.has_permit() {
                return Err(format!("something of {} is left behind", record.device));
            }
        }
    }
    Ok(())
}
