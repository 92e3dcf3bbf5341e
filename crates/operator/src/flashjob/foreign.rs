//! Objects with our labels that belong to no job: counted, named once in an event of the job that they name, and otherwise
//! left alone.

use flashjob_plan::flashjob::children::{Foreign, Owner};
use kube::runtime::events::{Event, EventType};

use super::controller::FlashJobController;

/// What an object is to the jobs that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Its job is there.
    Child,
    /// There is no such job, and may have been one.
    Orphan,
    /// The job is not the one that it says.
    Foreign,
}

impl FlashJobController {
    /// What an object is that says it belongs to this job.
    pub(super) fn ownership(&self, owner: &Owner) -> Ownership {
        match self.owner(&owner.uid) {
            Some(job) if *owner == job => Ownership::Child,
            Some(_) => Ownership::Foreign,
            None => Ownership::Orphan,
        }
    }

    /// An object names a job that is not its own.
    pub(super) fn refute(&mut self, kind: &'static str, owner: &Owner, name: &str) {
        if let Some(job) = self.owner(&owner.uid) {
            self.foreign(kind, &owner.refuted(name, &job));
        }
    }

    /// Counts a foreign object, and tells of the first that names this job. The others would say the same, and there may be
    /// any number of them.
    pub(super) fn foreign(&mut self, kind: &'static str, foreign: &Foreign) {
        self.context.metrics.foreign_seen(kind);
        let first = match self.jobs.get_mut(&foreign.job) {
            Some(job) => !std::mem::replace(&mut job.foreign_reported, true),
            None => self.parking.report_foreign(&foreign.job),
        };
        let Some(job) = self.owner(&foreign.job).filter(|_| first) else { return };
        let job = format!("{}/{}", job.namespace, job.name);
        let Foreign { path, why, .. } = foreign;
        tracing::warn!(%job, kind, object = %path, %why, "a foreign object has the labels of this job");
        let note = format!(
            "{kind} {path} has the labels of this job and is not its own: {why}. It is left alone and counts for nothing; \
             find out who made it, and why. Further ones are counted in flashjob_foreign_objects_total"
        );
        let event = Event {
            type_: EventType::Warning,
            reason: "ForeignObject".into(),
            note: Some(note),
            action: "Observe".into(),
            secondary: None,
        };
        self.publish(&foreign.job, vec![event]);
    }
}
