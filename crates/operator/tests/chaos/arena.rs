//! Where schedules are played: a control plane, and operators that live and die on it.
//!
//! One world is played on an arena at a time, because the operator looks after all namespaces. Arenas do not know of each
//! other.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use flashjob_sim::Running;
use flashjob_sim::cluster::{Cluster, Gate};

/// The operator that was built with this program.
pub const OPERATOR: &str = env!("CARGO_BIN_EXE_flashjob-operator");
/// Where an operator says how it is; nowhere, unless a schedule asks.
pub const HEALTH: &str = "--health-probe-bind-address";
/// How long anything may take before a schedule counts as stalled; far longer than it takes.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub struct Arena {
    pub cluster: Cluster,
    /// The operator that is played.
    pub program: PathBuf,
    token: String,
    /// Whether a rollout was played on it: the first one takes longer.
    pub warm: Cell<bool>,
}

impl Arena {
    pub async fn start(program: &Path) -> Result<Self> {
        let cluster = Cluster::start().await?;
        cluster.install().await?;
        let account = "operator-controller-manager";
        let token = cluster.service_account_token("operator-system", account).await?;
        Ok(Self { cluster, program: program.to_owned(), token, warm: Cell::new(false) })
    }

    /// Starts an operator for all namespaces, with the rights that are shipped. It is killed when dropped.
    ///
    /// Without a lease, because its successor would wait 15 s for it: that there is one operator at a time is seen to by
    /// the schedule. What its late writes may do is left to them: those of a dead process arrive when they arrive.
    pub fn operator(&self, flags: &[String], gate: Option<&Gate>) -> Result<Life> {
        let url = gate.map(Gate::url);
        let kubeconfig = self.cluster.kubeconfig(&self.token, "operator-system", url.as_deref())?;
        let log = kubeconfig.with_extension("log");
        // Sooner than the five minutes of a shipped operator, so that a schedule takes seconds.
        let mut args = ["run", "--list-anew-seconds=4"].map(str::to_owned).to_vec();
        args.extend_from_slice(flags);
        if !flags.iter().any(|flag| flag.starts_with(HEALTH)) {
            args.push(format!("{HEALTH}=0"));
        }
        let env = BTreeMap::from([
            ("KUBECONFIG".to_owned(), kubeconfig.display().to_string()),
            ("RUST_LOG".to_owned(), "info,flashjob_operator=debug".to_owned()),
            ("HOSTNAME".to_owned(), "chaos".to_owned()),
        ]);
        let running = Running::start_with(&self.program, &args, Some(&env), log)?;
        Ok(Life { running })
    }
}

/// One life of an operator.
pub struct Life {
    pub running: Running,
}

impl Life {
    /// Waits until it is dead.
    pub async fn died(&mut self) {
        while !self.running.has_ended() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.running.log()).unwrap_or_default()
    }
}
