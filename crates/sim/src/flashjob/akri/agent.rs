//! Akri's agent at work: it asks the boards for `/info` every few seconds.
//!
//! A board that answers has an Instance that says what it answered; one that does not has none. So a reboot takes the
//! Instance away, and brings it back under a new uid, as with Akri since v0.13.8 when one node sees a device. It differs
//! in how it finds boards: it was told their addresses.

use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_api::flashjob::instance::Instance;
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

use super::Akri;

/// What a board says on `/info`, if it is not cut off.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Info {
    device: String,
    application: String,
    version: String,
}

/// An agent at work. It stops when dropped; its Instances stay.
#[derive(Debug)]
pub struct Agent {
    _boards: JoinSet<()>,
}

impl Agent {
    /// Starts on the current runtime, for the boards at these addresses.
    pub fn start(akri: &Akri, endpoints: Vec<String>, every: Duration) -> Result<Self> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .pool_max_idle_per_host(0)
            // A board that makes its certificate answers nobody else meanwhile, and is not away.
            .timeout(every.max(Duration::from_secs(2)))
            .build()
            .context("cannot make an HTTP client")?;
        let mut boards = JoinSet::new();
        for endpoint in endpoints {
            boards.spawn(follow(akri.clone(), client.clone(), endpoint, every));
        }
        Ok(Self { _boards: boards })
    }
}

async fn follow(akri: Akri, client: reqwest::Client, endpoint: String, every: Duration) {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut known: Option<(Info, Instance)> = None;
    loop {
        ticks.tick().await;
        let written = match (ask(&client, &endpoint).await, &known) {
            (Some(info), Some((before, _))) if info == *before => continue,
            (Some(info), _) => {
                let found =
                    akri.discover(&endpoint, &info.device, &info.application, &info.version).await;
                found.map(|instance| Some((info, instance)))
            }
            (None, Some((_, instance))) => lose(&akri, instance).await.map(|()| None),
            (None, None) => continue,
        };
        match written {
            Ok(now) => known = now,
            Err(error) => warn!("{endpoint}: {error:#}; trying again"),
        }
    }
}

async fn lose(akri: &Akri, instance: &Instance) -> Result<()> {
    akri.lose_agent_down(instance).await?;
    akri.let_go(instance).await
}

async fn ask(client: &reqwest::Client, endpoint: &str) -> Option<Info> {
    let answer = client.get(format!("http://{endpoint}/info")).send().await.ok()?;
    let body = answer.error_for_status().ok()?.bytes().await.ok()?;
    serde_json::from_slice(&body).ok()
}
