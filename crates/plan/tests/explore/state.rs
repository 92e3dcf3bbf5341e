//! One state of the small world: what is on the server, what the operator has in memory, and what is on its way between
//! them. Small and hashable; ledgers are numbers into a table of all ledgers seen.

use crate::facts;

/// A ledger, by its place in the table.
pub type Id = u32;

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct WorldState {
    /// Seconds since the beginning.
    pub now: u16,
    pub jobs: Vec<Job>,
    /// The job that holds the board both have.
    pub holder: Option<u8>,
    /// How often the operator may still be killed.
    pub crashes: u8,
}

/// How often what may go wrong in a job. Each of them makes the world larger by a factor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Faults {
    /// A flash fails.
    pub failures: u8,
    /// Somebody removes a Pod.
    pub vanishes: u8,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Job {
    /// The ledger on the server.
    pub server: Id,
    /// The ledger in the operator's memory.
    pub known: Id,
    /// A write of it on its way: what it will be, if it is still `known` when the write arrives.
    pub flushing: Option<Id>,
    pub recovered: bool,
    /// A live list of its Pods is on its way.
    pub listing: bool,
    /// It holds the lock on the shared board.
    pub holds: bool,
    /// It would flash the shared board now, were that free.
    pub wants: bool,
    pub devices: Vec<Device>,
    /// Writes of earlier processes that may still arrive.
    pub late: Vec<Late>,
    /// How much may still go wrong.
    pub left: Faults,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Device {
    pub service: Service,
    /// By attempt, in order.
    pub pods: Vec<Pod>,
    /// Whether it was flashed. Nobody in this world can ask; it is there for the checks.
    pub truth: Truth,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Truth {
    NotFlashed,
    Flashed,
    /// It was, and then the only witness was removed: to flash it again is right.
    Forgotten,
}

/// What the operator knows of the board that both jobs have.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SharedBoard {
    pub holder: Option<u8>,
    pub holds: Vec<bool>,
    pub wants: Vec<bool>,
    /// When a job's ledger says that it has flashed it.
    pub flashed: Vec<Option<u16>>,
}

/// A Service; what the operator sees of it is what is there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Service {
    None,
    /// Its create is on its way.
    Sent,
    /// It has no address, since then.
    Bare(u16),
    /// It has an address.
    Ready,
    /// Its delete is on its way.
    Ending,
    /// Gone, and the operator knows.
    Gone,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Pod {
    pub attempt: u8,
    /// What is on the server.
    pub real: Option<Real>,
    /// What the operator saw last.
    pub seen: Option<Real>,
    /// The operator knows that what it saw last is gone.
    pub gone: bool,
    pub write: Write,
}

/// A Pod on the server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Real {
    /// Tells it from another under the same name.
    pub uid: u8,
    pub phase: Phase,
    pub created: u16,
    /// Since when the container runs.
    pub running: u16,
    pub deleting: Option<u16>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    Waiting,
    Running,
    Well,
    Badly,
}

/// The operator's write to a Pod that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Write {
    None,
    /// A create has been sent.
    Create,
    /// The server has it; the operator has not heard.
    Created,
    /// A delete has been sent.
    Delete,
}

/// A write of a process that is no more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Late {
    Ledger { base: Id, next: Id },
    Service(u8),
    Pod(u8, u8),
    Delete(u8, u8),
}

impl WorldState {
    pub fn job(&mut self, job: u8) -> &mut Job {
        &mut self.jobs[job as usize]
    }

    pub fn device(&mut self, job: u8, device: u8) -> &mut Device {
        &mut self.job(job).devices[device as usize]
    }

    pub fn pod(&mut self, job: u8, device: u8, attempt: u8) -> &mut Pod {
        self.device(job, device).pod(attempt)
    }
}

impl Device {
    /// The place of this attempt's Pod; made if it is not there.
    pub fn pod(&mut self, attempt: u8) -> &mut Pod {
        let place = self.pods.partition_point(|pod| pod.attempt < attempt);
        if self.pods.get(place).is_none_or(|pod| pod.attempt != attempt) {
            let (real, seen, gone, write) = (None, None, false, Write::None);
            self.pods.insert(place, Pod { attempt, real, seen, gone, write });
        }
        &mut self.pods[place]
    }
}

impl Pod {
    /// A write or its answer is on its way.
    pub fn busy(&self) -> bool {
        self.write != Write::None
    }

    /// The server takes a create, unless something of that name is there.
    pub fn make(&mut self, now: u16) {
        let uid = self.seen.map_or(0, |seen| seen.uid + 1);
        let fresh = Real { uid, phase: Phase::Waiting, created: now, running: 0, deleting: None };
        self.real.get_or_insert(fresh);
    }

    /// The operator has something to learn.
    pub fn has_news(&self) -> bool {
        match (self.real, self.seen) {
            _ if self.write == Write::Created => true,
            (None, Some(_)) => !self.gone,
            (real, seen) => real != seen,
        }
    }

    /// The operator sees the Pod as it is, or that it is gone.
    pub fn learn(&mut self) {
        if self.write == Write::Created {
            self.write = Write::None;
        }
        facts::learn(self);
    }
}
