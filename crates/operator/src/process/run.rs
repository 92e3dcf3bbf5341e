//! The life of the process: servers, then a thread for each system, and an end within five seconds.
//!
//! Each system has a thread with a runtime, a client and a lease of its own, so that thousands of requests of one do not stand
//! behind a long decision of another. The end of one of them, be it that it lost its lease, is the end of the process.

use std::io::IsTerminal;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, anyhow};
use http::StatusCode;
use kube::Config;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use super::args::{LogFormat, ProcessOptions};
use super::crds::MissingCrds;
use super::metrics::{self, Metrics, SystemMetrics};
use super::system::{self, System};
use super::{client, clock, server};

/// Runs these systems until the process is told to stop or one of them loses its lease.
pub fn run(options: &ProcessOptions, systems: Vec<Box<dyn System>>) -> ExitCode {
    let filter = match log_filter(options.log_filter()) {
        Ok(filter) => filter,
        Err(error) => {
            let filter = options.log_filter();
            return fail(&format!("--log {filter:?} is not a log filter: {error}"));
        }
    };
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match options.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    let result = runtime().and_then(|runtime| {
        let result = runtime.block_on(live(options, systems));
        // Watches and abandoned reads end with the process.
        runtime.shutdown_background();
        result
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The crate that speaks h2 warns of each odd frame that a client sends. So nothing but its errors is logged unless it is
/// named; what comes later in a filter is what counts.
fn log_filter(asked: &str) -> Result<EnvFilter, ParseError> {
    EnvFilter::try_new(format!("h2=error,{asked}"))
}

#[expect(clippy::print_stderr, reason = "there is no log to write to yet")]
pub fn fail(message: &str) -> ExitCode {
    eprintln!("error: {message}");
    ExitCode::from(2)
}

/// One thread: it waits for the API server nearly all of the time, and a second would mostly be woken in vain.
fn runtime() -> anyhow::Result<Runtime> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.context("the async runtime could not be started")
}

async fn live(options: &ProcessOptions, systems: Vec<Box<dyn System>>) -> anyhow::Result<()> {
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "flashjob-operator starts");
    // A binary with two TLS providers would ask which; this one has only ring, and says so.
    let _ = rustls::crypto::ring::default_provider().install_default();

    anyhow::ensure!(!systems.is_empty(), "--controllers names none");
    let mut metrics = Metrics::default();
    let needed: Vec<_> = systems.iter().flat_map(|system| system.needs()).copied().collect();
    let missing = MissingCrds::new(&needed);
    let stopping = Arc::new(AtomicBool::new(false));
    let systems: Vec<(Box<dyn System>, SystemMetrics)> = systems
        .into_iter()
        .map(|system| {
            let (shared, mut part) = (SystemMetrics::default(), metrics.part(system.name()));
            shared.register(&mut part);
            system.register(&mut part);
            system.register_original(metrics.root());
            (system, shared)
        })
        .collect();
    serve(options, metrics, &missing, &stopping).await?;

    let config = Config::infer().await.context(
        "no cluster: neither a kubeconfig (KUBECONFIG, ~/.kube/config) nor a service account was found",
    )?;
    let discovery = client::plain(config.clone()).context("the API client cannot be built")?;
    tokio::spawn(missing.clone().discover_all(discovery));

    let stop = stop_on_signal(stopping)?;
    let me =
        format!("{}_{}_{:x}", options.identity, std::process::id(), clock::boottime().as_nanos());
    let (ends, mut ended) = mpsc::channel(systems.len());
    for (system, metrics) in systems {
        let surroundings = system::Surroundings {
            options: options.clone(),
            config: config.clone(),
            identity: me.clone(),
            missing: missing.clone(),
            metrics,
            stop: stop.clone(),
        };
        let (name, ends) = (system.name(), ends.clone());
        let thread = std::thread::Builder::new().name(name.to_owned());
        let started = thread.spawn(move || {
            let _ = ends.blocking_send(on_this_thread(system, surroundings));
        });
        started.with_context(|| format!("no thread for {name}"))?;
    }
    drop(ends);
    while let Some(end) = ended.recv().await {
        end?;
    }
    tracing::info!("stopped");
    Ok(())
}

/// Runs one system to its end.
fn on_this_thread(
    system: Box<dyn System>,
    surroundings: system::Surroundings,
) -> anyhow::Result<()> {
    let name = system.name();
    let work = || {
        let runtime = runtime()?;
        let result = runtime.block_on(system::lead(system, surroundings));
        runtime.shutdown_background();
        result
    };
    // A thread that panics must not leave a process behind that looks alive.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(anyhow!("{name} has panicked")))
}

/// /healthz at once; /readyz when the CRDs are there, also while another process holds the lease.
async fn serve(
    options: &ProcessOptions,
    metrics: Metrics,
    missing: &MissingCrds,
    stopping: &Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let (missing, stopping) = (missing.clone(), stopping.clone());
    let ok = || Some((StatusCode::OK, "text/plain", "ok\n".to_owned()));
    let not_ready = |why: String| Some((StatusCode::SERVICE_UNAVAILABLE, "text/plain", why + "\n"));
    let health = move |path: &str| match path {
        "/healthz" => ok(),
        "/readyz" if stopping.load(Ordering::Acquire) => not_ready("stopping".into()),
        "/readyz" => match missing.message() {
            None => ok(),
            Some(message) => not_ready(message),
        },
        _ => None,
    };
    let numbers = move |path: &str| match path {
        "/metrics" => Some((StatusCode::OK, metrics::CONTENT_TYPE, metrics.encode())),
        _ => None,
    };
    if let Some(address) = options.health_probe_bind_address.0 {
        server::start("health", address, health).await?;
    }
    if let Some(address) = options.metrics_bind_address.0 {
        server::start("metrics", address, numbers).await?;
    }
    Ok(())
}

fn stop_on_signal(stopping: Arc<AtomicBool>) -> anyhow::Result<watch::Receiver<bool>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM cannot be caught")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT cannot be caught")?;
    let (say_stop, stop) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("asked to stop");
        stopping.store(true, Ordering::Release);
        let _ = say_stop.send(true);
    });
    Ok(stop)
}

#[cfg(test)]
mod tests {
    use std::io::{Result, Write};
    use std::sync::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    /// What comes of a warning of the crate h2 and a line of ours.
    fn logged(asked: &str) -> String {
        let (lines, filter) = (Lines::default(), log_filter(asked).unwrap());
        let writer = lines.clone();
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
        let log = log.with_writer(move || writer.clone()).finish();
        tracing::subscriber::with_default(log, || {
            tracing::warn!(target: "h2::proto::ping_pong", "theirs");
            tracing::info!("ours");
        });
        let logged = lines.0.lock().unwrap().clone();
        String::from_utf8(logged).unwrap()
    }

    #[test]
    fn a_client_that_speaks_h2_oddly_fills_no_log_unless_it_is_asked_for() {
        for asked in ["info", "debug", "flashjob_operator=info"] {
            let logged = logged(asked);
            assert!(logged.contains("ours") && !logged.contains("theirs"), "{asked}: {logged}");
        }
        assert!(logged("info,h2=warn").contains("theirs"));
        assert!(log_filter("=,=").is_err());
    }
}
