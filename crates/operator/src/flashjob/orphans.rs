//! Pods whose job is gone.
//!
//! Our finalizer keeps a job until its Pods are gone, but anybody may take it off. Such a Pod still talks to its board,
//! so the board is not free for another job before the Pod is over. Nothing more is done about it here: the garbage
//! collector deletes what has lost its owner.
//!
//! That the job was there is known if this process has seen it. Of a Pod whose job was gone before that, its own word is
//! all there is, and anybody can write that: such a stray counts in its own namespace and nowhere else, and only so many
//! of them.

use std::time::Duration;

use flashjob_plan::flashjob::children::Child;
use flashjob_plan::flashjob::facts::{Pod, SILENT_END_GRACE};
use flashjob_plan::flashjob::ids::JobUid;
use flashjob_plan::flashjob::index::Unconfirmed;
use flashjob_plan::flashjob::locks::Lock;

use super::controller::FlashJobController;
use super::input::Input;
use crate::process::clock;

/// The strays of one namespace that are followed.
const MOST_STRAYS: usize = 100;

impl FlashJobController {
    /// Under which key a Pod is filed whose job is not there: the job's uid if this process has seen the job, else one of
    /// its own. `None`: the job was another.
    pub(super) fn orphan_key(&self, child: &Child<Pod>) -> Option<JobUid> {
        let owner = &child.owner;
        match self.boards.seniority(&owner.uid) {
            Some(was) if (&was.namespace, &was.name) == (&owner.namespace, &owner.name) => {
                Some(owner.uid.clone())
            }
            Some(_) => None,
            None => Some(JobUid::stray(&owner.namespace, &child.facts.uid)),
        }
    }

    /// Takes in a Pod whose job is not there. Says whether it is followed.
    pub(super) fn see_orphan(&mut self, mut child: Child<Pod>) -> bool {
        let Some(key) = self.orphan_key(&child) else { return false };
        if key != child.owner.uid {
            let strays = self.strays.entry(child.owner.namespace.clone()).or_default();
            if !strays.contains(&key) {
                if strays.len() >= MOST_STRAYS {
                    return false;
                }
                strays.insert(key.clone());
                self.boards.introduce_stray(&key, &child.owner.namespace, &child.owner.name);
            }
        }
        child.owner.uid.clone_from(&key);
        self.index.see_pod(child, clock::now());
        self.mind_orphans(&key);
        true
    }

    /// Holds the boards that Pods of this job are at, if the job itself is gone, and no longer.
    pub(super) fn mind_orphans(&mut self, uid: &JobUid) {
        if self.owner(uid).is_some() {
            return;
        }
        let now = clock::now();
        let children = self.index.children(uid).values();
        let pods = children.flat_map(|c| c.pods.values()).filter_map(|slot| slot.here());
        let at_work: Vec<&Pod> = pods.filter(|pod| !pod.over(now)).collect();
        let silent = at_work.iter().any(|pod| pod.terminal_since.is_some());
        let boards = at_work.iter().map(|pod| Lock::board(&pod.endpoint).into_owned());
        let boards: Vec<_> = boards.collect();
        let over = boards.is_empty();
        let mut freed = self.boards.hold(uid, boards);
        if over {
            freed |= self.boards.forget(uid);
            self.index.forget_job(uid);
            self.forget_stray(uid);
        }
        if freed {
            self.wake_unfinished();
        }
        if silent {
            // No event will say when its grace period has passed.
            let (inputs, uid) = (self.inputs.clone(), uid.clone());
            let pause = SILENT_END_GRACE.unsigned_abs() + Duration::from_secs(1);
            tokio::spawn(async move {
                tokio::time::sleep(pause).await;
                let _ = inputs.send(Input::Orphans(uid)).await;
            });
        }
    }

    /// An object of a job that is gone has left its watch. It is not looked for: nobody will follow it any more.
    pub(super) fn orphan_left(&mut self, doubt: &Unconfirmed) {
        self.index.forget(&doubt.job, doubt.target, doubt.kind);
        self.mind_orphans(&doubt.job);
    }

    fn forget_stray(&mut self, key: &JobUid) {
        self.strays.retain(|_, strays| {
            strays.remove(key);
            !strays.is_empty()
        });
    }
}
