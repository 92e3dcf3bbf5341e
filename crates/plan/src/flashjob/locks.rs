//! The locks on boards, and what the jobs of all namespaces have to do with them.
//!
//! One board is flashed by one job at a time. Who holds it keeps it until its Pod is over; when it is free, the oldest job
//! that wants it now goes first; and an older job does not undo what a newer one has flashed since. The one node port that
//! boards dial is locked in the same way.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;

use crate::flashjob::endpoint::Endpoint;
use crate::flashjob::ids::JobUid;
use crate::flashjob::ledger::{DeviceProgress, Outcome, Record};

mod lock;
mod parked;
pub use lock::Lock;
use parked::Parked;

/// A job's place among others: older first, then by namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seniority {
    /// When it was created.
    pub created: Timestamp,
    pub namespace: String,
    pub name: String,
}

/// What is known of every lock.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    locks: HashMap<Lock<'static>, Parties>,
    /// Those that several jobs have to do with: few, and asked for at every reconcile for every device that waits.
    shared: HashSet<Lock<'static>>,
    jobs: HashMap<JobUid, Party>,
    /// What jobs have flashed that nothing else is known of: see [`Locks::park`].
    parked: Parked,
}

/// The jobs that have to do with one lock.
#[derive(Clone, Debug, Default)]
struct Parties {
    /// Those that have this board among their devices. Mostly one, so there is room for one.
    known_to: Vec<JobUid>,
    /// Who says that it is theirs, in the order they came: the first has it, of those that may.
    held_by: Vec<JobUid>,
    /// Strays whose Pods are at this board.
    strays: Vec<JobUid>,
    wanted_by: Vec<JobUid>,
    flashed: Vec<(JobUid, Timestamp)>,
}

#[derive(Clone, Debug, Default)]
struct Party {
    seniority: Seniority,
    stray: bool,
    holds: Vec<Lock<'static>>,
    /// Those it was given here, since this process began.
    started: HashSet<Lock<'static>>,
    wants: Vec<Lock<'static>>,
    knows: Vec<Lock<'static>>,
}

impl Parties {
    /// When a job has flashed it.
    fn flashed_by(&self, job: &JobUid) -> Option<Timestamp> {
        self.flashed.iter().find(|(other, _)| other == job).map(|(_, at)| *at)
    }
}

impl Locks {
    /// A job was seen.
    pub fn introduce(&mut self, job: &JobUid, seniority: Seniority) {
        self.party(job).seniority = seniority;
    }

    /// A job that is gone and was never seen here has left a Pod, or a stranger has made one that looks so. What it holds,
    /// it holds for the jobs of its own namespace: there is no proof that could stop those of others.
    pub fn introduce_stray(&mut self, job: &JobUid, namespace: &str, name: &str) {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let seniority = Seniority { created: Timestamp::UNIX_EPOCH, namespace, name };
        *self.party(job) = Party { seniority, stray: true, ..Party::default() };
    }

    /// A job, be it that it was not seen yet.
    fn party(&mut self, job: &JobUid) -> &mut Party {
        self.jobs.entry(job.clone()).or_default()
    }

    /// A job has this board among its devices.
    pub fn know(&mut self, job: &JobUid, endpoint: &Endpoint) {
        self.meet(job, &Lock::board(endpoint));
    }

    /// A job has to do with this lock.
    fn meet(&mut self, job: &JobUid, lock: &Lock<'_>) -> &mut Parties {
        let owned = || lock.clone().into_owned();
        let parties = self.locks.entry(owned()).or_default();
        if !parties.known_to.contains(job) {
            parties.known_to.reserve_exact(1);
            parties.known_to.push(job.clone());
            self.jobs.entry(job.clone()).or_default().knows.push(owned());
            if parties.known_to.len() > 1 {
                self.shared.insert(owned());
            }
        }
        parties
    }

    /// A job has flashed this board.
    pub fn flashed(&mut self, job: &JobUid, endpoint: &Endpoint, at: Timestamp) {
        let board = self.meet(job, &Lock::board(endpoint));
        board.flashed.retain(|(other, _)| other != job);
        board.flashed.reserve_exact(1);
        board.flashed.push((job.clone(), at));
    }

    /// Takes in what one record of a job's ledger says of its board.
    pub fn learn(&mut self, job: &JobUid, record: &Record) {
        let Some(pinned) = record.pinned.as_ref().filter(|_| !record.dropped) else { return };
        match flash(record) {
            Some((board, at)) => self.flashed(job, board, at),
            None => self.know(job, &pinned.endpoint),
        }
    }

    /// A Pod is made for this board. What this process has begun itself it knows to be at the board, whatever Akri shows
    /// from now on.
    pub fn start(&mut self, job: &JobUid, endpoint: &Endpoint) {
        self.party(job).started.insert(Lock::board(endpoint).into_owned());
    }

    /// These a job holds now. Says whether one has become free.
    pub fn hold(&mut self, job: &JobUid, locks: Vec<Lock<'static>>) -> bool {
        let stray = self.jobs.get(job).is_some_and(|party| party.stray);
        for lock in &locks {
            let parties = self.meet(job, lock);
            let holders = if stray { &mut parties.strays } else { &mut parties.held_by };
            if !holders.contains(job) {
                holders.push(job.clone());
            }
        }
        let party = self.party(job);
        let before = std::mem::replace(&mut party.holds, locks.clone());
        let held: HashSet<&Lock<'_>> = locks.iter().collect();
        party.started.retain(|lock| held.contains(lock));
        let freed: Vec<_> = before.iter().filter(|lock| !held.contains(lock)).collect();
        for lock in &freed {
            if let Some(parties) = self.locks.get_mut(*lock) {
                parties.held_by.retain(|holder| holder != job);
                parties.strays.retain(|stray| stray != job);
            }
        }
        !freed.is_empty()
    }

    /// These a job would take now, were they free. Says whether it has given one up.
    pub fn want(&mut self, job: &JobUid, locks: Vec<Lock<'static>>) -> bool {
        let party = self.party(job);
        if party.wants == locks {
            return false;
        }
        let before = std::mem::replace(&mut party.wants, locks.clone());
        for lock in &before {
            if let Some(parties) = self.locks.get_mut(lock) {
                parties.wanted_by.retain(|j| j != job);
            }
        }
        for lock in &locks {
            self.meet(job, lock).wanted_by.push(job.clone());
        }
        let wanted: HashSet<&Lock<'_>> = locks.iter().collect();
        before.iter().any(|lock| !wanted.contains(lock))
    }

    /// A job is gone, and with it what it held, wanted and flashed.
    pub fn forget(&mut self, job: &JobUid) -> bool {
        let freed = self.hold(job, Vec::new()) | self.want(job, Vec::new());
        let knows = self.jobs.remove(job).unwrap_or_default().knows;
        self.unknow(job, &knows);
        self.parked.forget(job);
        freed
    }

    /// A job will do nothing until it is [unparked](Locks::unpark): what it has flashed is all that others need to know. It
    /// must hold and want nothing. What its records say need not have been [learned](Locks::learn).
    pub fn park(&mut self, job: &JobUid, records: &[Record]) {
        let Some(party) = self.jobs.get_mut(job) else { return };
        let knows = std::mem::take(&mut party.knows);
        let flashed = |lock| self.locks.get(lock).and_then(|parties| parties.flashed_by(job));
        let known = knows.iter().filter_map(|lock| match lock {
            Lock::Board(board) => Some((board.clone(), flashed(lock)?)),
            Lock::NodePort => None,
        });
        let written = records.iter().filter_map(|r| flash(r).map(|(at, t)| (at.board(), t)));
        self.parked.keep(job, known.chain(written));
        self.unknow(job, &knows);
    }

    /// A parked job's ledger was read again, and what it says of boards is learned next.
    pub fn unpark(&mut self, job: &JobUid) {
        self.parked.forget(job);
    }

    fn unknow(&mut self, job: &JobUid, locks: &[Lock<'static>]) {
        for lock in locks {
            let Some(parties) = self.locks.get_mut(lock) else { continue };
            parties.known_to.retain(|j| j != job);
            parties.flashed.retain(|(j, _)| j != job);
            if parties.known_to.len() < 2 {
                self.shared.remove(lock);
            }
            if parties.known_to.is_empty() {
                self.locks.remove(lock);
            }
        }
        // Memory that a large job has taken is given back.
        self.locks.shrink_to(2 * self.locks.len());
        self.shared.shrink_to(2 * self.shared.len());
    }

    /// Whether any board is among the devices of two jobs.
    pub fn are_any_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Whether another job has this board, which this one [knows](Locks::know), among its devices, too. Most boards are
    /// in one job only.
    pub fn is_shared(&self, job: &JobUid, endpoint: &Endpoint) -> bool {
        let lock = &Lock::board(endpoint);
        if !self.shared.contains(lock) {
            return false;
        }
        let other = |other: &JobUid| other != job && self.concerns(other, job);
        self.locks.get(lock).is_some_and(|parties| parties.known_to.iter().any(other))
    }

    /// Whether one job has to do with what another does.
    fn concerns(&self, other: &JobUid, job: &JobUid) -> bool {
        let place = |job| self.seniority(job).map(|s| &s.namespace);
        !self.jobs.get(other).is_some_and(|party| party.stray) || place(other) == place(job)
    }

    /// The job that this one has to wait for: it holds the lock, or wants it and is older. `may_use` says of which
    /// namespaces jobs may use the board: what others say of it, they say in their own ledgers and Pods, and it holds up
    /// nobody.
    pub fn in_the_way(
        &self,
        job: &JobUid,
        lock: &Lock<'_>,
        may_use: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let older = |other: &&JobUid| {
            *other != job
                && self.seniority(other) < self.seniority(job)
                && self.is_of(other, &may_use)
        };
        self.held_by_other(job, lock, &may_use).or_else(|| {
            let parties = self.locks.get(lock)?;
            parties.wanted_by.iter().find(older).map(|other| self.name(other))
        })
    }

    /// Another job that holds the lock.
    pub fn held_by_other(
        &self,
        job: &JobUid,
        lock: &Lock<'_>,
        may_use: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let parties = self.locks.get(lock)?;
        let started =
            |other: &JobUid| self.jobs.get(other).is_some_and(|p| p.started.contains(lock));
        let counts =
            |other: &&JobUid| *other == job || started(other) || self.is_of(other, &may_use);
        let holder = parties.held_by.iter().find(counts).filter(|holder| *holder != job);
        let stray = || parties.strays.iter().find(|stray| self.concerns(stray, job));
        holder.or_else(stray).map(|other| self.name(other))
    }

    /// Whether a job is of one of these namespaces.
    fn is_of(&self, job: &JobUid, namespaces: impl Fn(&str) -> bool) -> bool {
        self.seniority(job).is_none_or(|seniority| namespaces(&seniority.namespace))
    }

    /// A newer job that has flashed the board since then. Where each namespace has its own boards, only a job of the same
    /// one can have.
    pub fn flashed_by_newer(
        &self,
        job: &JobUid,
        endpoint: &Endpoint,
        since: Timestamp,
        own_namespace_only: bool,
    ) -> Option<String> {
        let board = endpoint.board();
        let own = self.seniority(job);
        let counts = |other: &JobUid| {
            let theirs = self.seniority(other);
            let reaches =
                !own_namespace_only || theirs.map(|s| &s.namespace) == own.map(|s| &s.namespace);
            other != job && theirs > own && reaches
        };
        let parties = self.locks.get(&Lock::Board(board.clone()));
        let mut flashed = parties.into_iter().flat_map(|parties| &parties.flashed);
        let newer = flashed.find(|(other, at)| *at > since && counts(other));
        let newer = newer.map(|(other, _)| other);
        newer.or_else(|| self.parked.flashed_since(&board, since, counts)).map(|o| self.name(o))
    }

    /// A job's place among others.
    pub fn seniority(&self, job: &JobUid) -> Option<&Seniority> {
        self.jobs.get(job).map(|party| &party.seniority)
    }

    fn name(&self, job: &JobUid) -> String {
        self.seniority(job).map(|s| format!("{}/{}", s.namespace, s.name)).unwrap_or_default()
    }
}

/// The board that a device of a job is at and when it was flashed, if it was.
fn flash(record: &Record) -> Option<(&Endpoint, Timestamp)> {
    let pinned = record.pinned.as_ref().filter(|_| !record.dropped)?;
    match &record.progress {
        DeviceProgress::Final { outcome: Outcome::Succeeded, ended, .. } => {
            Some((&pinned.endpoint, ended.at?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
