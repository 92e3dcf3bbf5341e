//! The device API on a thread of its own, so that no plan delays a device and no device a plan.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};

use super::device_api::DeviceApi;
use super::server::{ServerKey, Settings, listen, serve};

pub struct Serving {
    stop: watch::Sender<bool>,
    /// Where it listens, once it does.
    pub listening: oneshot::Receiver<SocketAddr>,
    /// What it came to.
    pub ended: oneshot::Receiver<anyhow::Result<()>>,
}

/// Listens as soon as there is a certificate to show.
pub fn start(api: DeviceApi, address: SocketAddr, settings: Settings) -> anyhow::Result<Serving> {
    let (stop, stopped) = watch::channel(false);
    let (say_listening, listening) = oneshot::channel();
    let (say_end, ended) = oneshot::channel();
    let thread = std::thread::Builder::new().name("edge-api".to_owned());
    let started = thread.spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build();
        let result = runtime.context("the device API has no runtime").and_then(|runtime| {
            runtime.block_on(run(api, address, settings, stopped, say_listening))
        });
        let _ = say_end.send(result);
    });
    started.context("no thread for the device API")?;
    Ok(Serving { stop, listening, ended })
}

impl Serving {
    /// Ends it: what is under way has its grace.
    pub fn stop(&self) {
        let _ = self.stop.send(true);
    }
}

async fn run(
    api: DeviceApi,
    address: SocketAddr,
    settings: Settings,
    mut stopped: watch::Receiver<bool>,
    say_listening: oneshot::Sender<SocketAddr>,
) -> anyhow::Result<()> {
    let mut certificates = api.shared.certificates.clone();
    let first = tokio::select! {
        first = certificates.wait_for(|certificates| certificates.server.is_some()) => {
            first.context("nobody looks after the certificates any more")?.server.clone()
        }
        _ = stopped.wait_for(|stop| *stop) => return Ok(()),
    };
    let Some(first) = first else { return Ok(()) };
    let key = ServerKey::new(first);
    let listener =
        listen(address).with_context(|| format!("devices cannot be served on {address}"))?;
    let address = listener.local_addr().context("the device API has no address")?;
    tracing::info!(%address, "serving devices");
    let _ = say_listening.send(address);
    let (shown, shared) = (key.clone(), api.shared.clone());
    tokio::spawn(async move {
        while certificates.changed().await.is_ok() {
            let server = certificates.borrow_and_update().server.clone();
            if let Some(server) = server {
                shown.replace(server);
            }
            // Whose CA it was may be nobody's now.
            shared.wake_all();
        }
    });
    let metrics = api.shared.metrics.server.clone();
    serve(listener, key, Arc::new(api), settings, metrics, stopped)
        .await
        .context("the device API cannot speak TLS")
}
