//! The life of the process: servers, lease, controllers, and an end within five seconds.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use http::StatusCode;
use kube::Config;
use kube::runtime::events::{Recorder, Reporter};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

use crate::args::{Controller, LogFormat, Options};
use crate::flashjob;
use crate::process::client::{self, WriteWindow};
use crate::process::crds::{FLASHJOBS, INSTANCES, Missing};
use crate::process::metrics::{self, Metrics};
use crate::process::{clock, lease, server};

/// Runs the operator until it is told to stop or loses the lease.
pub fn run(options: Options) -> ExitCode {
    let filter = match EnvFilter::try_new(&options.log) {
        Ok(filter) => filter,
        Err(error) => {
            return fail(&format!("--log {:?} is not a log filter: {error}", options.log));
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
    // One thread: it waits for the API server nearly all of the time, and a second would mostly be woken in vain.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => {
            let result = runtime.block_on(live(options));
            // Watches and abandoned reads end with the process.
            runtime.shutdown_background();
            result
        }
        Err(error) => Err(error).context("the async runtime could not be started"),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "there is no log to write to yet")]
fn fail(message: &str) -> ExitCode {
    eprintln!("error: {message}");
    ExitCode::from(2)
}

async fn live(options: Options) -> anyhow::Result<()> {
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "flashjob-operator starts");
    // A binary with two TLS providers would ask which; this one has only ring, and says so.
    let _ = rustls::crypto::ring::default_provider().install_default();

    anyhow::ensure!(
        options.controllers.contains(&Controller::Flashjob),
        "--controllers names none"
    );
    #[cfg(feature = "crash")]
    if let Some(version) = options.panic_at_version.clone() {
        let _ = crate::process::crash::PANIC_AT_VERSION.set(version);
    }
    let metrics = Metrics::new();
    let missing = Missing::new(&[FLASHJOBS, INSTANCES]);
    let stopping = Arc::new(AtomicBool::new(false));
    serve(&options, &metrics, &missing, &stopping).await?;

    let config = Config::infer().await.context(
        "no cluster: neither a kubeconfig (KUBECONFIG, ~/.kube/config) nor a service account was found",
    )?;
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
    tokio::spawn(missing.clone().look_for_all(client.clone()));

    let stop = stop_on_signal(stopping)?;
    let me =
        format!("{}_{}_{:x}", options.identity, std::process::id(), clock::boottime().as_nanos());
    let namespace = Some(options.namespace.clone()).filter(|n| !n.is_empty());
    let lease_name = match &namespace {
        // Operators for different namespaces do not keep each other waiting.
        Some(namespace) => format!("{}-{namespace}", lease::NAME),
        None => lease::NAME.to_owned(),
    };
    let home = &config.default_namespace;
    let mut holder = lease::Holder::new(lease_client, home, &lease_name, &me, window.clone());
    let mut told = stop.clone();
    if options.leader_elect {
        tokio::select! {
            () = holder.win() => tracing::info!(lease = %format!("{home}/{lease_name}"), "holding the lease"),
            _ = told.wait_for(|stop| *stop) => return Ok(()),
        }
    } else {
        window.open();
    }
    metrics.set_leader(true);

    let reporter = Reporter { controller: "flashjob-controller".into(), instance: Some(me) };
    let context = flashjob::Context {
        recorder: Recorder::new(client.clone(), reporter),
        settings: options.settings(),
        namespace,
        max_writes: usize::from(options.max_writes),
        list_anew: Duration::from_secs(options.list_anew_seconds),
        missing,
        metrics: metrics.clone(),
        client,
    };
    let keep = async {
        match options.leader_elect {
            true => holder.keep().await,
            false => std::future::pending().await,
        }
    };
    tokio::select! {
        result = flashjob::run(context, stop) => result?,
        () = keep => {
            metrics.set_leader(false);
            anyhow::bail!("the lease is lost; stopping at once so that another process can go on");
        }
    }
    metrics.set_leader(false);
    if options.leader_elect {
        holder.release().await;
    }
    tracing::info!("stopped");
    Ok(())
}

/// /healthz at once; /readyz when the CRDs are there, also while another process holds the lease.
async fn serve(
    options: &Options,
    metrics: &Metrics,
    missing: &Missing,
    stopping: &Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let (missing, stopping) = (missing.clone(), stopping.clone());
    let ok = || Some((StatusCode::OK, "text/plain", "ok\n".to_owned()));
    let not_ready = |why: String| Some((StatusCode::SERVICE_UNAVAILABLE, "text/plain", why + "\n"));
    let health = move |path: &str| match path {
        "/healthz" => ok(),
        "/readyz" if stopping.load(Ordering::Acquire) => not_ready("stopping".into()),
        "/readyz" => match missing.words() {
            None => ok(),
            Some(words) => not_ready(words),
        },
        _ => None,
    };
    let metrics = metrics.clone();
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
