//! The Secrets with the CA, the server's certificate and those for registration: read, made, renewed, rotated, retired.
//!
//! ```text
//!   Secrets ──▶ read ──▶ plan: decide ──▶ keeper: one write each ──▶ Secrets
//!                │
//!                └──▶ Certificates: what the server shows, whom it trusts, what a device is given
//! ```
//!
//! One task owns them. It looks when one of them changes, and every hour, and publishes what it knows; from that a device is
//! served also when a Secret is spoilt or the API server is away. Nothing is served that was not read from a Secret first, so
//! a CA that was made and never arrived has signed nothing.

mod keeper;
mod make;
mod published;
mod secret;
mod steps;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use flashjob_plan::edge::certificates::{
    CA_SECRET, DeviceKeys, REGISTRATION_SECRET, SERVER_SECRET, server_names,
};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::{Notify, watch};

use crate::engine::backoff;
use crate::engine::pool::Caller;
use keeper::Keeper;
pub use published::{Certificates, Trust};

/// From a change to the look at it: changes come in twos and threes.
const PAUSE: Duration = Duration::from_millis(100);

/// Says which CAs the devices' keys depend on, at the moment it is asked. A CA is retired by what it says, so it may not be what
/// was known some time ago.
pub type AskKeys = Arc<dyn Fn() -> DeviceKeys + Send + Sync>;

/// What certificates are to say.
#[derive(Debug, Clone)]
pub struct CertificateSettings {
    /// DNS names and addresses of the server.
    pub names: Vec<String>,
    /// Sentences about names that are none.
    pub problems: Vec<String>,
    /// How long a device's certificate is good.
    pub client_days: u32,
}

impl CertificateSettings {
    /// As the environment of the original and the flags have them.
    pub fn new(domain: &str, more: &[String], localhost: bool, client_days: u32) -> Self {
        let (names, problems) = server_names(domain, more, localhost);
        Self { names, problems, client_days }
    }
}

/// Looks after the Secrets of `namespace` until nobody listens any more. `devices` is `None` until every EdgeDevice was
/// listed; `resync` is how long a watch is trusted to have left nothing out. The caller's client has to be the one that refuses to write without the lease.
pub fn start(
    caller: Caller,
    namespace: &str,
    settings: CertificateSettings,
    resync: Duration,
    devices: watch::Receiver<Option<AskKeys>>,
    clock: impl Fn() -> Timestamp + Send + 'static,
) -> watch::Receiver<Arc<Certificates>> {
    let (sender, receiver) = watch::channel(Arc::default());
    let changed = Arc::new(Notify::new());
    for config in [
        watcher::Config::default().fields(&format!("metadata.name={CA_SECRET}")),
        watcher::Config::default().fields(&format!("metadata.name={SERVER_SECRET}")),
        watcher::Config::default().labels(&format!("{REGISTRATION_SECRET}=true")),
    ] {
        let api = Api::namespaced(caller.client.clone(), namespace);
        tokio::spawn(notice(api, config, resync, changed.clone(), sender.clone()));
    }
    let keeper = Keeper::new(caller, namespace, settings, sender);
    tokio::spawn(keep(keeper, changed, devices, clock));
    receiver
}

/// Says when a Secret has changed. What is in it is read when it is looked at.
async fn notice(
    api: Api<PartialObjectMeta<Secret>>,
    config: watcher::Config,
    resync: Duration,
    changed: Arc<Notify>,
    listeners: watch::Sender<Arc<Certificates>>,
) {
    let watch = || Box::pin(watcher(api.clone(), config.clone()).default_backoff());
    let (mut events, mut again) = (watch(), tokio::time::interval(resync));
    again.reset();
    loop {
        tokio::select! {
            () = listeners.closed() => return,
            _ = again.tick() => events = watch(),
            event = events.next() => match event {
                Some(Ok(_)) => changed.notify_one(),
                Some(Err(error)) => {
                    tracing::warn!(%error, "the watch of the certificates' Secrets failed and will be tried again");
                }
                None => return,
            },
        }
    }
}

async fn keep(
    mut keeper: Keeper,
    changed: Arc<Notify>,
    mut devices: watch::Receiver<Option<AskKeys>>,
    clock: impl Fn() -> Timestamp,
) {
    let (listeners, mut failures) = (keeper.listeners(), 0);
    loop {
        let ask = devices.borrow_and_update().clone();
        let unlisted = ask.is_none();
        let pause = match keeper.look(|| Some(ask.as_ref()?()), clock()).await {
            Ok(again) => {
                failures = 0;
                Duration::try_from(again.duration_since(clock())).unwrap_or_default()
            }
            Err(_) => {
                failures += 1;
                backoff::pause(failures - 1)
            }
        };
        tokio::select! {
            () = listeners.closed() => return,
            () = soon_after(&changed) => {}
            () = tokio::time::sleep(pause) => {}
            () = listed(&mut devices), if unlisted => {}
        }
    }
}

async fn soon_after(changed: &Notify) {
    changed.notified().await;
    tokio::time::sleep(PAUSE).await;
}

/// Every EdgeDevice was listed.
async fn listed(devices: &mut watch::Receiver<Option<AskKeys>>) {
    if devices.wait_for(Option::is_some).await.is_err() {
        // Nobody will say so any more.
        std::future::pending().await
    }
}
