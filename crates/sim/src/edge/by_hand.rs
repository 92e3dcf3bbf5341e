//! `flashjob-sim device` and `flashjob-sim fleet`: devices until they are told to stop, and what they are told.

pub mod fleet;
mod kept;
mod words;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use flashjob_pki::CertifiedKey;
use tokio::net::lookup_host;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use self::words::Words;
use super::args::{Agent, Device as Wanted, Dial, Manners};
use super::bundle::Bundle;
use super::client::Protocol;
use super::device::{Device, DeviceOptions, Manner};
use super::ledger::News;
use crate::output::say;

/// Runs it.
pub async fn run(wanted: Wanted) -> Result<()> {
    let own = wanted.state.as_deref().map(kept::read).transpose()?.flatten();
    let id = wanted.id.clone().or_else(|| name_in(own.as_ref()?)).unwrap_or_else(new_name);
    let (news, mut heard) = mpsc::unbounded_channel();
    let device = Device::new(DeviceOptions {
        own: own.map(Arc::new),
        news: Some(news),
        ..wanted.manners.of(wanted.dial.options(id).await?)
    })?;
    let (address, server) = (device.options().server, &wanted.dial.server);

    let mut terminate = signal(SignalKind::terminate())?;
    let began = Instant::now();
    let line = |text: &str| say(&format!("{:6.1} s  {text}\n", began.elapsed().as_secs_f64()));
    line(&format!("device {} calls {server} ({address}); Ctrl-C ends it", device.id()))?;
    let mut words = Words::new(device.id());
    let life = device.run(std::future::pending());
    tokio::pin!(life);
    loop {
        tokio::select! {
            pressed = tokio::signal::ctrl_c() => return Ok(pressed?),
            _ = terminate.recv() => return Ok(()),
            Some(news) = heard.recv() => {
                if let Some(folder) = &wanted.state {
                    keep(folder, &device, &news)?;
                }
                if let Some(text) = words.about(&news) {
                    line(&text)?;
                }
            }
            () = &mut life => return Ok(()),
        }
    }
}

impl Dial {
    /// A device of ours that calls there.
    async fn options(&self, id: impl Into<String>) -> Result<DeviceOptions> {
        let (address, host) = server(&self.server).await?;
        let bundle = Bundle::from_folder(&self.bundle)?;
        let server_name = self.server_name.clone().unwrap_or(host);
        Ok(DeviceOptions { server_name, ..DeviceOptions::new(id, address, bundle, Manner::Ours) })
    }
}

impl Manners {
    /// The same device, with these manners.
    fn of(&self, device: DeviceOptions) -> DeviceOptions {
        let manner = match self.like {
            Agent::Flotta => Manner::Flotta,
            Agent::Ours => Manner::Ours,
        };
        let DeviceOptions { id, server, server_name, bundle, .. } = device;
        DeviceOptions {
            server_name,
            protocol: if self.http1 { Protocol::H1 } else { Protocol::H2 },
            // Another one at each run: message ids must not come again.
            seed: crate::clock::now().as_nanosecond() as u64,
            target_namespace: self.namespace.clone(),
            ..DeviceOptions::new(id, server, bundle, manner)
        }
    }
}

/// What a device keeps when its power goes.
fn keep(folder: &std::path::Path, device: &Device, news: &News) -> Result<()> {
    match (news, device.credential()) {
        (News::Certificate(_), Some(own)) => kept::write(folder, &own),
        // The original's keeps its certificate, but asks to be let in again all the same, because its configuration is gone.
        (News::Disconnect(_), _) => kept::forget(folder),
        _ => Ok(()),
    }
}

/// The address, and the name before it was looked up.
async fn server(text: &str) -> Result<(SocketAddr, String)> {
    let (host, _) = text.rsplit_once(':').with_context(|| {
        format!("--server {text} has no port: give it as HOST:PORT, such as {text}:8043")
    })?;
    let mut found = lookup_host(text)
        .await
        .with_context(|| format!("--server {text} is no address: is the host's name right?"))?;
    let address = found.next().with_context(|| format!("--server {text} has no address"))?;
    Ok((address, host.trim_matches(['[', ']']).to_owned()))
}

fn name_in(own: &CertifiedKey) -> Option<String> {
    own.leaf().common_names().into_iter().next()
}

fn new_name() -> String {
    format!("sim-{}", std::process::id())
}
