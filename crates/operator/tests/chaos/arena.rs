//! Where schedules are played: a control plane, and operators that live and die on it.
//!
//! One world is played on an arena at a time, because the operator looks after all namespaces. Arenas do not know of each
//! other.

use std::cell::Cell;
use std::path::Path;

use anyhow::Result;
use flashjob_sim::Launcher;
use flashjob_sim::cluster::Cluster;

pub struct Arena {
    pub cluster: Cluster,
    pub operators: Launcher,
    /// Whether a rollout was played on it: the first one takes longer.
    pub warm: Cell<bool>,
}

impl Arena {
    /// Its operators are for all namespaces. They list again sooner than after the five minutes of a shipped one, so that a
    /// schedule takes seconds.
    ///
    /// They are without a lease, because a successor would wait 15 s for it: that there is one operator at a time is seen to
    /// by the schedule. What its late writes may do is left to them: those of a dead process arrive when they arrive.
    pub async fn start(program: &Path) -> Result<Self> {
        let cluster = Cluster::installed().await?;
        let operators = Launcher::of(program.to_owned(), &cluster).await?;
        let operators = operators.with("--leader-elect=false").with("--list-anew-seconds=4");
        Ok(Self { cluster, operators, warm: Cell::new(false) })
    }
}
