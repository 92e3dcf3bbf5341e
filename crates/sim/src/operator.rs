//! The operator as a process of this machine, started in one way whatever it is started for: the real program, as the
//! ServiceAccount that `dist/install.yaml` makes and so with exactly the rights that are shipped, its log in a file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::cluster::{AuditEntry, Cluster, Gate};
use crate::process::tail;
use crate::wait::PATIENCE;
use crate::{Running, Usage, eventually, programs};

/// The operator's namespace.
pub const NAMESPACE: &str = "operator-system";
/// Its ServiceAccount there, and its Deployment.
pub const ACCOUNT: &str = "operator-controller-manager";
/// Where it says how it is: nowhere, unless a flag says so. Many operators run on one machine.
const HEALTH: &str = "--health-probe-bind-address";
/// Whoever looks into what went wrong has only the log.
const LOG: &str = "info,flashjob_operator=debug";
/// How often it is looked at whether one has ended.
const LOOK: Duration = Duration::from_millis(10);
/// How long no write is added to the audit log when all are there.
const QUIET: Duration = Duration::from_millis(500);

/// Starts operators on a cluster that has their manifests.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// Flags of all of them.
    pub flags: Vec<String>,
    /// Their environment, beside what is always in it; what is named here counts.
    pub env: BTreeMap<String, String>,
    /// What they log in with, for an hour.
    pub token: String,
    /// What runs.
    pub program: PathBuf,
    /// Its own namespace.
    home: String,
    account: &'static str,
    cluster: Cluster,
}

impl Launcher {
    /// For the operator that was built with the program that runs.
    pub async fn new(cluster: &Cluster) -> Result<Self> {
        Self::of(programs::built("flashjob-operator").await?, cluster).await
    }

    /// For this operator.
    pub async fn of(program: PathBuf, cluster: &Cluster) -> Result<Self> {
        Self::at_home(program, cluster, NAMESPACE, ACCOUNT).await
    }

    /// For this operator, as this ServiceAccount of its own namespace.
    pub async fn at_home(
        program: PathBuf,
        cluster: &Cluster,
        home: &str,
        account: &'static str,
    ) -> Result<Self> {
        let token = cluster.service_account_token(home, account).await?;
        let (home, cluster) = (home.to_owned(), cluster.clone());
        let (flags, env) = (Vec::new(), BTreeMap::new());
        Ok(Self { flags, env, token, program, home, account, cluster })
    }

    /// The same with this flag for all of them.
    pub fn with(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// The same with this in the environment of all of them.
    pub fn with_env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Starts one with these flags besides. With a gate, its calls go through that.
    pub fn start(&self, flags: &[&str], gate: Option<&Gate>) -> Result<Operator> {
        let url = gate.map(Gate::url);
        let kubeconfig = self.cluster.kubeconfig(&self.token, &self.home, url.as_deref())?;
        let mut args = vec!["run".to_owned()];
        args.extend(self.flags.iter().cloned());
        args.extend(flags.iter().map(|flag| (*flag).to_owned()));
        if !args.iter().any(|flag| flag.starts_with(HEALTH)) {
            args.push(format!("{HEALTH}=0"));
        }
        let mut env = BTreeMap::from([
            ("KUBECONFIG".to_owned(), kubeconfig.display().to_string()),
            ("RUST_LOG".to_owned(), LOG.to_owned()),
        ]);
        env.extend(self.env.clone());
        let log = kubeconfig.with_extension("log");
        Ok(Operator { running: Running::start_with(&self.program, &args, Some(&env), log)? })
    }

    /// What operators have asked the API server to change in a namespace, refused calls included.
    pub fn writes(&self, namespace: &str) -> Result<Vec<AuditEntry>> {
        let operator = format!("system:serviceaccount:{}:{}", self.home, self.account);
        let mut writes = self.cluster.writes(namespace)?;
        writes.retain(|entry| entry.user == operator);
        Ok(writes)
    }

    /// The same, once no more is added: a call is in the audit log when it is answered.
    pub async fn writes_settled(&self, namespace: &str) -> Result<Vec<AuditEntry>> {
        let mut writes = self.writes(namespace)?;
        loop {
            sleep(QUIET).await;
            let before = std::mem::replace(&mut writes, self.writes(namespace)?);
            if before.len() == writes.len() {
                return Ok(writes);
            }
        }
    }

    /// How often they were refused an object of this kind there.
    pub fn refusals(&self, namespace: &str, kind: &str) -> Result<usize> {
        let writes = self.writes(namespace)?;
        let creates = writes.iter().filter(|w| w.resource == kind && w.verb == "create");
        Ok(creates.filter(|w| w.code == 403).count())
    }
}

/// A running operator. It is killed when dropped; the test that fails with it shows its log.
#[derive(Debug)]
pub struct Operator {
    running: Running,
}

impl Operator {
    /// Starts one for all namespaces of a cluster.
    pub async fn start(cluster: &Cluster, flags: &[&str]) -> Result<Self> {
        Launcher::new(cluster).await?.start(flags, None)
    }

    /// Stops it where it stands: its connections stay open, and it says nothing.
    pub fn pause(&self) -> Result<()> {
        self.running.pause()
    }

    /// Lets a paused one go on.
    pub fn resume(&self) -> Result<()> {
        self.running.resume()
    }

    /// Ends it as the end of its node would. It is gone when this returns, and its log stays.
    pub fn kill(&mut self) {
        self.running.stop();
    }

    /// Ends it as a new version in its Deployment would; the exit code, and how long it took.
    pub async fn stop(&mut self) -> Result<(i32, Duration)> {
        self.terminate()?;
        self.ended().await
    }

    /// Asks it to end as a new version in its Deployment would.
    pub fn terminate(&self) -> Result<()> {
        self.running.signal(Signal::TERM)
    }

    /// Waits until it has ended; the exit code, and how long it took.
    pub async fn ended(&mut self) -> Result<(i32, Duration)> {
        let began = Instant::now();
        let code =
            eventually("the operator to end", PATIENCE, async || Ok(self.running.exit_code()))
                .await?;
        Ok((code, began.elapsed()))
    }

    /// Waits until it has ended, however long that takes.
    pub async fn died(&mut self) {
        while !self.has_ended() {
            sleep(LOOK).await;
        }
    }

    /// Whether it has ended, by itself or by a signal.
    pub fn has_ended(&mut self) -> bool {
        self.running.has_ended()
    }

    pub fn pid(&self) -> i32 {
        self.running.pid()
    }

    /// What it has used up so far.
    pub fn usage(&self) -> Result<Usage> {
        Usage::of(self.running.pid().unsigned_abs())
    }

    /// What it has said so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.running.log()).unwrap_or_default()
    }

    /// The last so many bytes of it.
    pub fn log_end(&self, bytes: u64) -> String {
        tail(self.running.log(), bytes).unwrap_or_default()
    }

    /// Waits until it has said something.
    pub async fn says(&self, words: &str) -> Result<()> {
        self.says_within(PATIENCE, words).await
    }

    /// Waits until it knows all objects of a kind, such as `instances`: what follows is work and not its start.
    pub async fn has_listed(&self, kind: &str, patience: Duration) -> Result<()> {
        let words = format!("the first list is complete kind=\"{kind}\"");
        self.says_within(patience, &words).await
    }

    pub async fn says_within(&self, patience: Duration, words: &str) -> Result<()> {
        let what = format!("the operator to say {words:?}");
        let said =
            eventually(&what, patience, async || Ok(self.log().contains(words).then_some(())));
        said.await.with_context(|| format!("its log:\n{}", self.log()))
    }
}

impl Drop for Operator {
    #[expect(clippy::print_stdout, reason = "libtest shows it with the test that has failed")]
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            println!("--- the operator's log\n{}", self.log());
        }
    }
}
