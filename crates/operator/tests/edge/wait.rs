//! `Prefer: wait`: a device that asks for its configuration hears of a change when there is one.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use flashjob_sim::edge::site::{EdgeOperator, EdgeSite};
use flashjob_sim::edge::{Answer, Device, DeviceOptions, Identity, Manner, Operation, Protocol};
use flashjob_sim::http::{free_address, get};
use flashjob_sim::{PATIENCE, eventually};
use kube::api::DeleteParams;
use serde_json::json;
use tokio::task::JoinHandle;

use super::kit::{codes, patch_device};

/// From an edit that the API server has taken to the device.
const SOON: Duration = Duration::from_secs(2);
/// Sooner than anything that is held would be answered by itself.
const BEFORE_ITS_TIME: Duration = Duration::from_secs(30);

struct Ground {
    site: EdgeSite,
    operator: EdgeOperator,
    metrics: SocketAddr,
}

impl Ground {
    async fn new(flags: &[&str]) -> Result<Self> {
        let (site, metrics) = (EdgeSite::new().await?, free_address().await?);
        let at = format!("--metrics-bind-address={metrics}");
        let operator = site.operator_with(&[flags, &[&at]].concat(), None).await?;
        Ok(Self { site, operator, metrics })
    }

    /// One that is registered and has its configuration, and would wait for another one so long.
    async fn device(&self, id: &str, protocol: Protocol, seconds: u64) -> Result<Device> {
        let registered = self.site.registered(id, Manner::Ours).await?;
        let own = registered.credential().and_then(|own| own.shown().cloned());
        let wait = Duration::from_secs(seconds);
        let options = self.site.options(id, Manner::Ours).await?;
        let device = Device::new(DeviceOptions { own, protocol, wait, ..options })?;
        assert_eq!(codes(&device, Identity::Own, &[Operation::FetchConfiguration]).await, [200]);
        Ok(device)
    }

    /// Waits until the operator counts so many of these.
    async fn counts(&self, what: &str, count: usize) -> Result<()> {
        let line = format!("\nedge_{what} {count}\n");
        eventually(&line, PATIENCE, async || {
            let (_, text) = get(self.metrics, "/metrics").await?;
            Ok(text.contains(&line).then_some(()))
        })
        .await
    }

    /// Asks, with so many others, and is held when this returns.
    async fn held(&self, device: &Device, others: usize) -> Result<JoinHandle<Result<Answer>>> {
        let asking = device.clone();
        let asking = tokio::spawn(async move { asking.await_configuration().await });
        self.counts("waiting_requests", others + 1).await?;
        Ok(asking)
    }
}

fn said(answer: &Answer) -> (u16, Option<&str>) {
    (answer.code(), answer.header("preference-applied"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_reaches_the_device_it_concerns_while_it_waits() -> Result<()> {
    let ground = Ground::new(&[]).await?;
    let other = ground.device("other", Protocol::H2, 60).await?;
    let others = ground.held(&other, 0).await?;
    for (id, protocol) in [("by-h1", Protocol::H1), ("by-h2", Protocol::H2)] {
        let device = ground.device(id, protocol, 60).await?;
        for period in [11, 12] {
            let asking = ground.held(&device, 1).await?;
            let heartbeat = json!({ "spec": { "heartbeat": { "periodSeconds": period } } });
            patch_device(&ground.site, id, heartbeat).await?;
            let edited = Instant::now();
            let answer = asking.await??;
            let took = edited.elapsed();
            assert_eq!(said(&answer), (200, None), "{id}");
            let content = &answer.json::<serde_json::Value>()?["content"];
            assert_eq!(content["configuration"]["heartbeat"]["period_seconds"], period);
            assert!(took < SOON, "{id}: {took:?}");
        }
    }
    assert!(!others.is_finished(), "nothing has changed for it");
    others.abort();
    ground.counts("waiting_requests", 0).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_says_the_same_is_no_news() -> Result<()> {
    let ground = Ground::new(&[]).await?;
    for (id, protocol) in [("by-h1", Protocol::H1), ("by-h2", Protocol::H2)] {
        let device = ground.device(id, protocol, 3).await?;
        let began = Instant::now();
        let asking = ground.held(&device, 0).await?;
        patch_device(&ground.site, id, json!({ "metadata": { "labels": { "a": "b" } } })).await?;
        let beat = device.heartbeat().await?;
        assert_eq!((beat.code(), asking.is_finished()), (200, false), "it beats meanwhile");
        assert_eq!(said(&asking.await??), (304, Some("wait=3")), "{id}");
        assert!(began.elapsed() >= Duration::from_secs(3), "{id}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_loses_its_access_while_it_waits_hears_it() -> Result<()> {
    let ground = Ground::new(&[]).await?;
    for (id, protocol) in [("by-h1", Protocol::H1), ("by-h2", Protocol::H2)] {
        let device = ground.device(id, protocol, 60).await?;
        let asking = ground.held(&device, 0).await?;
        assert_eq!(device.renew().await?.code(), 200, "with another key");
        assert!(!asking.is_finished(), "that is not in use yet");
        assert_eq!(device.heartbeat().await?.code(), 200);
        let answer = tokio::time::timeout(BEFORE_ITS_TIME, asking).await???;
        assert_eq!((answer.code(), answer.body.len()), (401, 0), "{id}: {answer:?}");

        let asking = ground.held(&device, 0).await?;
        ground.site.devices().delete(id, &DeleteParams::default()).await?;
        let answer = tokio::time::timeout(BEFORE_ITS_TIME, asking).await???;
        // Between both it is being deleted.
        assert!([404, 503].contains(&answer.code()), "{id}: {answer:?}");
        let fetch = codes(&device, Identity::Own, &[Operation::FetchConfiguration]).await;
        assert_eq!(fetch, [404], "{id}");
        assert_eq!(device.fetch_commands().await?.code(), 200);
        assert_eq!(device.ledger().disconnects(), 1, "{id}");
    }
    ground.counts("waiting_requests", 0).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_stops_does_not_keep_them_waiting() -> Result<()> {
    let mut ground = Ground::new(&[]).await?;
    let mut asking = Vec::new();
    for number in 0..6 {
        let protocol = if number % 2 == 0 { Protocol::H1 } else { Protocol::H2 };
        let device = ground.device(&format!("d{number}"), protocol, 60).await?;
        asking.push(ground.held(&device, number).await?);
    }
    let began = Instant::now();
    ground.operator.operator.terminate()?;
    for answer in asking {
        assert_eq!(said(&answer.await??), (304, None));
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(3), "{took:?}");
    let (code, _) = ground.operator.operator.ended().await?;
    let log = ground.operator.log();
    assert!(code == 0 && !log.contains("cut off"), "{log}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_held_when_connections_are_scarce() -> Result<()> {
    let ground = Ground::new(&["--edge-max-connections=5"]).await?;
    let mut devices = Vec::new();
    for number in 1..=4 {
        let device = ground.device(&format!("d{number}"), Protocol::H2, 1).await?;
        ground.counts("connections", number).await?;
        let answer = device.await_configuration().await?;
        let applied = if number < 4 { Some("wait=1") } else { None };
        assert_eq!(said(&answer), (304, applied), "{number} connections");
        devices.push(device);
    }
    let (_, text) = get(ground.metrics, "/metrics").await?;
    for line in ["edge_waits_total{result=\"granted\"} 3", "edge_waits_total{result=\"refused\"} 1"]
    {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    devices.remove(0);
    ground.counts("connections", 3).await?;
    assert_eq!(said(&devices[2].await_configuration().await?), (304, Some("wait=1")));
    Ok(())
}
