//! Pods whose job is gone.
//!
//! Our finalizer keeps a job until its Pods are gone, but anybody may take it off. Such a Pod still talks to its board,
//! so the board is not free for another job before the Pod is over. Nothing more is done about it here: the garbage
//! collector deletes what has lost its owner.

use std::time::Duration;

use flashjob_plan::boards::Seniority;
use flashjob_plan::facts::{Pod, SILENT_END_GRACE};
use jiff::Timestamp;

use super::engine::{Engine, Input};
use super::index::Doubt;
use crate::clock;

impl Engine {
    /// Holds the boards that Pods of this job are at, if the job itself is gone, and no longer. `owner` is the job's
    /// namespace and name, where that is known.
    pub(super) fn mind_orphans(&mut self, uid: &str, owner: Option<(String, String)>) {
        if self.jobs.contains_key(uid) {
            return;
        }
        if let Some((namespace, name)) = owner.filter(|_| self.boards.seniority(uid).is_none()) {
            let created = Timestamp::UNIX_EPOCH;
            self.boards.introduce(uid, Seniority { created, namespace, name });
        }
        if !self.synced.contains("flashjobs") {
            return; // It may only be that the job was not seen yet.
        }
        let now = clock::now();
        let children = self.index.children(uid).values();
        let pods = children.flat_map(|c| c.pods.values()).filter_map(|slot| slot.here());
        let at_work: Vec<&Pod> = pods.filter(|pod| !pod.over(now)).collect();
        let silent = at_work.iter().any(|pod| pod.terminal_since.is_some());
        let boards: Vec<String> = at_work.iter().map(|pod| pod.endpoint.clone()).collect();
        let over = boards.is_empty();
        let mut freed = self.boards.hold(uid, boards);
        if over {
            freed |= self.boards.forget(uid);
            self.index.forget_job(uid);
        }
        if freed {
            self.wake_unfinished();
        }
        if silent {
            // No event will say when its grace period has passed.
            let (inputs, uid) = (self.inputs.clone(), uid.to_owned());
            let pause = SILENT_END_GRACE.unsigned_abs() + Duration::from_secs(1);
            tokio::spawn(async move {
                tokio::time::sleep(pause).await;
                let _ = inputs.send(Input::Orphans(uid)).await;
            });
        }
    }

    /// An object of a job that is gone has left its watch. It is not looked for: nobody will follow it any more.
    pub(super) fn orphan_left(&mut self, doubt: &Doubt) {
        self.index.forget(&doubt.job, &doubt.target, doubt.kind);
        self.mind_orphans(&doubt.job, None);
    }
}
