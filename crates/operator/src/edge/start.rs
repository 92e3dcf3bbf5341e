//! Edge from the moment the lease is won to its end.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::{mpsc, watch};

use super::args::EdgeOptions;
use super::certificates::AskKeys;
use super::controller::{EdgeController, Surroundings, TOMBSTONES, WORKLOAD_CRDS};
use super::device_api::DeviceApi;
use super::input::Input;
use super::metrics::EdgeMetrics;
use super::serving::{self, Serving};
use super::serving_label::ServingLabel;
use super::shared::Shared;
use super::tombstones;
use super::{certificates, roll, route, server, watches, workload_crds};
use crate::engine::fair_queue::Flow;
use crate::engine::pool::{Caller, Pool};
use crate::engine::watch::{Resync, Watches};
use crate::engine::{self, backoff};
use crate::process::client::error_message;
use crate::process::{self, clock};

/// Inputs that may wait. Those of devices that come back all at once are among them.
const MOST_INPUTS: usize = 4096;
/// How often it is looked whether everything was listed.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_secs(1);
/// The key of the writes of the roll among all callers.
const ROLL: &str = "/roll";
/// How often tombstones that have done their work are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(3600);

/// Works until `stop` says so. The lease is held.
pub async fn run(
    process: process::Context,
    options: EdgeOptions,
    metrics: EdgeMetrics,
    label: ServingLabel,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let client = process.client.clone();
    let home = client.default_namespace().to_owned();
    let pool = Pool::new(client.clone(), process.max_writes);
    let caller =
        |key: &str| pool.caller(Flow { namespace: home.clone(), key: key.to_owned() }, false);
    let (inputs, arriving) = mpsc::channel(MOST_INPUTS);
    let (say_keys, keys) = watch::channel(None);
    let certificates = certificates::start(
        caller("certificates"),
        &home,
        options.certificates(),
        process.resync,
        keys,
        clock::now,
    );
    metrics.follow(certificates.clone());
    let (settings, storage) = (options.settings(), options.storage()?);
    let shared = Shared::new(settings.clone(), certificates, metrics, process.window);
    let shared = Arc::new(shared);

    let watches = Watches {
        client: client.clone(),
        namespace: None,
        missing: process.missing.clone(),
        metrics: process.metrics.clone(),
        resync: Resync::every(process.resync),
        inputs: inputs.clone(),
    };
    watches::start(&watches, &settings);
    tokio::spawn(watches::claims(watches, settings.namespaces.clone()));
    if storage.server.address.is_none() {
        tokio::spawn(route::follow(client.clone(), inputs.clone()));
    }
    tokio::spawn(load_tombstones(caller(TOMBSTONES), home.clone(), inputs.clone()));
    tokio::spawn(load_roll(caller(ROLL), home.clone(), inputs.clone()));
    tokio::spawn(load_crds(caller(WORKLOAD_CRDS), home.clone(), inputs.clone()));
    tokio::spawn(tell_keys(shared.clone(), say_keys));
    tokio::spawn(tick(inputs.clone()));

    let controller = EdgeController::new(Surroundings {
        shared: shared.clone(),
        storage,
        inputs: inputs.clone(),
        pool,
        metrics: process.metrics,
        home,
    });
    let address = options.edge_bind_address.0.context("--edge-bind-address names no address")?;
    let connections = usize::try_from(options.edge_max_connections).unwrap_or(usize::MAX);
    let limits = server::Settings { max_connections: connections, ..server::Settings::default() };
    let serving = serving::start(DeviceApi { shared, inputs }, address, limits)?;

    // Devices have their grace before the controller ends: some of them wait for what it writes.
    let (say_end, end) = watch::channel(false);
    let serve = async {
        let served = serve(serving, client, label, stop).await;
        let _ = say_end.send(true);
        served
    };
    tokio::join!(serve, engine::run(controller, arriving, end)).0
}

/// Lets the Service find this process while it listens.
async fn serve(
    mut serving: Serving,
    client: kube::Client,
    label: ServingLabel,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let work = async {
        if (&mut serving.listening).await.is_ok() {
            label.set(&client, true).await;
        }
        std::future::pending::<()>().await;
    };
    let gone = || anyhow::anyhow!("the device API has panicked");
    tokio::select! {
        () = work => {}
        _ = stop.wait_for(|stop| *stop) => {}
        ended = &mut serving.ended => return ended.unwrap_or_else(|_| Err(gone())),
    }
    serving.stop();
    let taken_off = tokio::time::timeout(Duration::from_secs(2), label.set(&client, false));
    let (_, ended) = tokio::join!(taken_off, serving.ended);
    ended.unwrap_or_else(|_| Err(gone()))
}

async fn load_tombstones(caller: Caller, home: String, inputs: mpsc::Sender<Input>) {
    let loaded = insist("tombstones", || tombstones::load(&caller, &home)).await;
    let _ = inputs.send(Input::TombstonesLoaded(loaded)).await;
    while !inputs.is_closed() {
        tokio::time::sleep(SWEEP_EVERY).await;
        let _ = inputs.send(Input::Tombstones).await;
    }
}

async fn load_roll(caller: Caller, home: String, inputs: mpsc::Sender<Input>) {
    let loaded = insist("the roll", || roll::load(&caller, &home)).await;
    let _ = inputs.send(Input::RollLoaded(Box::new(loaded))).await;
}

async fn load_crds(caller: Caller, home: String, inputs: mpsc::Sender<Input>) {
    let record = insist("the record of CRDs", || workload_crds::load(&caller, &home)).await;
    let _ = inputs.send(Input::CrdsLoaded(record)).await;
}

/// Reads something that nothing can begin without, for as long as it takes.
async fn insist<T, R: Future<Output = kube::Result<T>>>(what: &str, read: impl Fn() -> R) -> T {
    let mut failures = 0;
    loop {
        match read().await {
            Ok(found) => return found,
            Err(error) => {
                let error = error_message(&error);
                tracing::warn!(error, "{what} could not be read, which is tried again");
            }
        }
        tokio::time::sleep(backoff::pause(failures)).await;
        failures += 1;
    }
}

/// Devices are looked for that say nothing any more.
async fn tick(inputs: mpsc::Sender<Input>) {
    while !inputs.is_closed() {
        tokio::time::sleep(TICK).await;
        let _ = inputs.send(Input::Tick).await;
    }
}

/// Lets whoever retires a CA ask which of them the keys of devices depend on, once all of those are known.
async fn tell_keys(shared: Arc<Shared>, keys: watch::Sender<Option<AskKeys>>) {
    while !shared.is_ready() {
        if keys.is_closed() {
            return;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    keys.send_replace(Some(Arc::new(move || shared.devices().keys_by_ca())));
}
