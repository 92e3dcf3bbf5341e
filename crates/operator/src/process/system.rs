//! A system that a process runs, and how it is led: it works while its lease is held, and not a moment longer.

use std::time::Duration;

use anyhow::Context as _;
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use kube::runtime::events::{Recorder, Reporter};
use kube::{Client, Config};
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use super::args::ProcessOptions;
use super::client::{self, WriteWindow};
use super::crds::{MissingCrds, Needed};
use super::lease;
use super::metrics::{Part, SystemMetrics};

/// One of the systems: a folder of this crate, and what the process has to know of it.
pub trait System: Send {
    /// What `--controllers` calls it, and what its metrics begin with.
    fn name(&self) -> &'static str;

    /// The lease that its original has, so that the two never work at the same time.
    fn lease(&self) -> &'static str;

    /// The CRDs it works with.
    fn needs(&self) -> &'static [Needed];

    /// Registers the metrics that are its own.
    fn register(&self, part: &mut Part<'_>);

    /// Registers metrics that have the names of its original.
    fn register_original(&self, _registry: &mut Registry) {}

    /// What a process does while another may hold the lease. The client writes without it.
    fn stand_by(&self, _client: Client) -> LocalBoxFuture<'static, ()> {
        std::future::ready(()).boxed_local()
    }

    /// Works until `stop` says so. The lease is held.
    fn run(
        self: Box<Self>,
        context: Context,
        stop: watch::Receiver<bool>,
    ) -> LocalBoxFuture<'static, anyhow::Result<()>>;
}

/// What a system gets from the process.
pub struct Context {
    /// Refuses to write without the lease.
    pub client: Client,
    /// The lease is held while it is open.
    pub window: WriteWindow,
    pub recorder: Recorder,
    /// The only namespace to look after, if there is one.
    pub namespace: Option<String>,
    pub max_writes: usize,
    /// How long a watch is trusted to have left nothing out.
    pub resync: Duration,
    pub missing: MissingCrds,
    pub metrics: SystemMetrics,
}

/// What leading a system takes.
pub struct Surroundings {
    pub options: ProcessOptions,
    pub config: Config,
    pub identity: String,
    pub missing: MissingCrds,
    pub metrics: SystemMetrics,
    pub stop: watch::Receiver<bool>,
}

/// Wins the system's lease, runs it for as long as that is held, and gives it back.
pub async fn lead(system: Box<dyn System>, surroundings: Surroundings) -> anyhow::Result<()> {
    let Surroundings { options, config, identity, missing, metrics, stop } = surroundings;
    let name = system.name();
    let window = WriteWindow::default();
    let lease_client = client::plain(config.clone()).context("the API client cannot be built")?;
    let client = client::guarded(
        &config,
        &window,
        &metrics,
        #[cfg(feature = "crash")]
        options.crash_at,
    );
    let client = client.context("the API client cannot be built")?;
    let namespace = Some(options.namespace.clone()).filter(|n| !n.is_empty());
    let lease_name = match &namespace {
        // Operators for different namespaces do not keep each other waiting.
        Some(namespace) => format!("{}-{namespace}", system.lease()),
        None => system.lease().to_owned(),
    };
    let home = &config.default_namespace;
    let standing_by = system.stand_by(lease_client.clone()).then(|()| std::future::pending::<()>());
    let mut holder = lease::Holder::new(lease_client, home, &lease_name, &identity, window.clone());
    let mut told = stop.clone();
    if options.leader_elect {
        tokio::select! {
            () = holder.win() => tracing::info!(lease = %format!("{home}/{lease_name}"), "holding the lease"),
            () = standing_by => {}
            _ = told.wait_for(|stop| *stop) => return Ok(()),
        }
    } else {
        window.open();
    }
    metrics.set_leader(true);

    let reporter = Reporter { controller: format!("{name}-controller"), instance: Some(identity) };
    let context = Context {
        recorder: Recorder::new(client.clone(), reporter),
        namespace,
        max_writes: usize::from(options.max_writes),
        resync: Duration::from_secs(options.resync_seconds),
        missing,
        metrics: metrics.clone(),
        window,
        client,
    };
    let keep = async {
        if options.leader_elect { holder.keep().await } else { std::future::pending().await }
    };
    tokio::select! {
        result = system.run(context, stop) => result?,
        () = keep => {
            metrics.set_leader(false);
            anyhow::bail!("the lease is lost; stopping at once so that another process can go on");
        }
    }
    metrics.set_leader(false);
    if options.leader_elect {
        holder.release().await;
    }
    Ok(())
}
