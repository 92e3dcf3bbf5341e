//! Who is silent, who is back, and that nobody is thought silent because it was us who did not listen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use flashjob_api::edge::EdgeDevice;
use flashjob_sim::edge::device::FIELD_POLL;
use flashjob_sim::edge::site::{EdgeOperator, EdgeSite};
use flashjob_sim::edge::{Device, DeviceOptions, Fleet, FleetOptions, Manner};
use flashjob_sim::{PATIENCE, eventually};
use futures::StreamExt;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::heartbeats::{condition, seen};
use super::kit::{POLL, delete, patch_device};

/// Between two heartbeats, by the devices' configuration. They beat more often: who stands still for a moment on a busy machine
/// is not silent.
const PERIOD: Duration = Duration::from_secs(2);
const BEAT: Duration = Duration::from_millis(500);
/// From the last heartbeat until a device is missing, and has been looked at.
const MISSING: Duration = PERIOD.saturating_mul(3).saturating_add(Duration::from_secs(2));

/// Gives devices the short period.
async fn hurry(site: &EdgeSite, devices: &[Device]) -> Result<()> {
    let hurry = async |device: &Device| {
        let version = || device.ledger().configuration().map(|known| known.version.clone());
        let other = async |before: Option<String>| {
            eventually("another configuration", PATIENCE, async || {
                let _ = device.fetch_configuration().await;
                Ok(version().filter(|now| Some(now) != before.as_ref()))
            })
            .await
        };
        let before = other(None).await?;
        let spec = json!({ "heartbeat": { "periodSeconds": PERIOD.as_secs() } });
        patch_device(site, device.id(), json!({ "spec": spec })).await?;
        other(Some(before)).await
    };
    try_join_all(devices.iter().map(hurry)).await.map(drop)
}

/// Has a device beat until what this returns is dropped.
fn pulse(device: &Device) -> JoinSet<()> {
    let (device, mut life) = (device.clone(), JoinSet::new());
    life.spawn(async move {
        loop {
            let _ = device.heartbeat().await;
            sleep(BEAT).await;
        }
    });
    life
}

/// What Ready has said of each device, every time it said something else.
#[derive(Clone, Default)]
struct History(Arc<Mutex<BTreeMap<String, Vec<String>>>>);

impl History {
    /// Looks on from now until what this returns is dropped.
    async fn start(site: &EdgeSite) -> Result<(Self, JoinSet<()>)> {
        let (history, mut watching) = (Self::default(), JoinSet::new());
        let devices = site.devices();
        let list = devices.list(&ListParams::default()).await?;
        list.items.iter().for_each(|device| history.see(device));
        let (watched, mut version) = (history.clone(), list.metadata.resource_version);
        watching.spawn(async move {
            loop {
                let from = version.clone().unwrap_or_default();
                let Ok(stream) = devices.watch(&WatchParams::default(), &from).await else {
                    continue;
                };
                let mut stream = std::pin::pin!(stream);
                while let Some(Ok(event)) = stream.next().await {
                    if let WatchEvent::Added(device) | WatchEvent::Modified(device) = event {
                        version = device.resource_version();
                        watched.see(&device);
                    }
                }
            }
        });
        Ok((history, watching))
    }

    fn see(&self, device: &EdgeDevice) {
        let found = json!({ "status": device.status });
        let ready = condition(&found, "Ready")["status"].as_str().unwrap_or("none").to_owned();
        let mut history = self.0.lock().unwrap();
        let said = history.entry(device.name_any()).or_default();
        if said.last() != Some(&ready) {
            said.push(ready);
        }
    }

    fn of(&self, device: &str) -> Vec<String> {
        self.0.lock().unwrap().get(device).cloned().unwrap_or_default()
    }
}

async fn is_ready(site: &EdgeSite, device: &str, status: &str) -> Result<()> {
    let what = format!("Ready is {status}");
    seen(site, device, &what, |found| condition(found, "Ready")["status"] == status).await?;
    Ok(())
}

/// How many statuses of devices the operator has written.
async fn status_writes(site: &EdgeSite) -> Result<usize> {
    let writes = site.operators.writes_settled(&site.namespace).await?;
    Ok(writes.iter().filter(|write| write.subresource.as_deref() == Some("status")).count())
}

/// The devices in the roll and when it was written.
async fn roll(site: &EdgeSite) -> Result<Option<(BTreeSet<String>, String)>> {
    let maps: Api<ConfigMap> = Api::namespaced(site.client.clone(), &site.home);
    let Some(map) = maps.get_opt("edge-roll-0").await? else { return Ok(None) };
    let data = map.data.unwrap_or_default();
    let [devices, written] = ["devices", "writtenAt"].map(|key| data.get(key).cloned());
    let prefix = format!("{}/", site.namespace);
    let name = |line: &str| {
        let place = line.split(' ').next().unwrap_or_default();
        place.strip_prefix(&prefix).unwrap_or(line).to_owned()
    };
    let names = devices.unwrap_or_default().lines().map(name).collect();
    Ok(Some((names, written.unwrap_or_default())))
}

/// Kills the process and starts another, until one has written a roll with just these devices in it: those that it has heard
/// of by then. It does so first of all, and then not for five minutes.
async fn restarted(site: &EdgeSite, operator: &mut EdgeOperator, wanted: &[&str]) -> Result<()> {
    let wanted: BTreeSet<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
    let before = roll(site).await?.map(|(_, at)| at).unwrap_or_default();
    for _ in 0..10 {
        operator.kill();
        *operator = site.operator().await?;
        sleep(Duration::from_secs(5)).await;
        if roll(site).await?.is_some_and(|(names, at)| names == wanted && at > before) {
            return Ok(());
        }
    }
    bail!("{wanted:?} is not in {:?}: {}", roll(site).await?, operator.log())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_device_turns_unknown_once_and_back_once() -> Result<()> {
    let site = EdgeSite::new().await?;
    let operator = site.operator().await?;
    let silent = site.registered("silent", Manner::Flotta).await?;
    let other = site.registered("other", Manner::Flotta).await?;
    hurry(&site, &[silent.clone(), other.clone()]).await?;
    let (mut life, _other_life) = (pulse(&silent), pulse(&other));
    for name in ["silent", "other"] {
        let synced = |found: &serde_json::Value| condition(found, "Synced")["status"] == "True";
        seen(&site, name, "synced", synced).await?;
    }
    let (history, _watching) = History::start(&site).await?;
    let before = status_writes(&site).await?;

    life.shutdown().await;
    is_ready(&site, "silent", "Unknown").await?;
    let found = seen(&site, "silent", "is still there", |_| true).await?;
    let ready = condition(&found, "Ready");
    assert_eq!(ready["reason"], "NoHeartbeat");
    assert!(ready["message"].as_str().unwrap().starts_with("no heartbeat since 20"), "{ready}");
    sleep(MISSING).await;
    let _life = pulse(&silent);
    is_ready(&site, "silent", "True").await?;
    sleep(MISSING).await;
    assert_eq!(history.of("silent"), ["True", "Unknown", "True"], "{}", operator.log());
    assert_eq!(history.of("other"), ["True"], "{}", operator.log());
    assert_eq!(status_writes(&site).await? - before, 2, "{}", operator.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_turns_unknown_because_nobody_listened() -> Result<()> {
    let site = EdgeSite::new().await?;
    let mut operator = site.operator().await?;
    let (mut devices, mut lives) = (Vec::new(), BTreeMap::new());
    for name in ["a", "b", "c", "gone"] {
        devices.push(site.registered(name, Manner::Flotta).await?);
    }
    hurry(&site, &devices).await?;
    for device in &devices {
        lives.insert(device.id(), pulse(device));
        is_ready(&site, device.id(), "True").await?;
    }
    let (history, _watching) = History::start(&site).await?;

    // A restart right away.
    let all = ["a", "b", "c", "gone"];
    restarted(&site, &mut operator, &all).await?;
    lives.remove("gone").unwrap().shutdown().await;
    is_ready(&site, "gone", "Unknown").await?;

    // Once more, and now the roll says of one that it was missing when it was written.
    restarted(&site, &mut operator, &all).await?;
    sleep(MISSING).await;
    let ready = condition(&seen(&site, "gone", "is there", |_| true).await?, "Ready").clone();

    // Away for ten periods.
    operator.kill();
    sleep(PERIOD * 10).await;
    operator = site.operator().await?;
    sleep(MISSING * 2).await;
    for name in ["a", "b", "c"] {
        assert_eq!(history.of(name), ["True"], "{name}: {}", operator.log());
    }
    assert_eq!(history.of("gone"), ["True", "Unknown"], "{}", operator.log());
    let after = condition(&seen(&site, "gone", "is there", |_| true).await?, "Ready").clone();
    assert_eq!(after, ready, "since when it is missing is known");

    // Who is deleted leaves the roll, though nobody was there to see it go.
    delete(&site, "gone").await?;
    restarted(&site, &mut operator, &["a", "b", "c"]).await?;
    Ok(())
}

/// The reasons of events about the Deployment.
async fn of_the_fleet(site: &EdgeSite) -> Result<Vec<String>> {
    let events: Api<Event> = Api::namespaced(site.client.clone(), &site.home);
    let all = events.list(&ListParams::default()).await?.items;
    let regards = |event: &Event| {
        let regarding = event.regarding.as_ref();
        regarding.and_then(|of| of.name.as_deref()) == Some("flotta-edge-api")
    };
    let mut reasons: Vec<_> =
        all.into_iter().filter(regards).filter_map(|event| event.reason).collect();
    reasons.sort();
    Ok(reasons)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_that_is_gone_and_back_is_two_events_and_few_writes() -> Result<()> {
    const ALL: usize = 60;
    let site = EdgeSite::new().await?;
    let operator = site.operator().await?;
    let deadline = Duration::from_secs(5);
    let device = DeviceOptions { poll: POLL, deadline, ..site.options("", Manner::Ours).await? };
    let stagger = FIELD_POLL;
    let options = FleetOptions { prefix: "edge".to_owned(), stagger, device };
    let mut fleet = Fleet::start(ALL, options)?;
    fleet.all_registered(PATIENCE).await?;
    fleet.wait_until("a configuration", PATIENCE, |l| l.configuration().is_some()).await?;
    fleet.stop().await;
    hurry(&site, fleet.devices()).await?;
    let mut lives: Vec<_> = fleet.devices().iter().map(pulse).collect();
    for device in fleet.devices() {
        let synced = |found: &serde_json::Value| condition(found, "Synced")["status"] == "True";
        seen(&site, device.id(), "synced", synced).await?;
    }
    let (history, _watching) = History::start(&site).await?;
    let before = status_writes(&site).await?;

    let silent = Instant::now();
    lives.clear();
    let of_fleet = async |wanted: &[&str]| {
        eventually(&format!("{wanted:?}"), PATIENCE, async || {
            Ok((of_the_fleet(&site).await? == wanted).then_some(()))
        })
        .await
        .with_context(|| operator.log())
    };
    of_fleet(&["FleetMissing"]).await?;
    sleep(PERIOD).await;
    lives.extend(fleet.devices().iter().map(pulse));
    let back = silent.elapsed();
    of_fleet(&["FleetBack", "FleetMissing"]).await?;
    for device in fleet.devices() {
        is_ready(&site, device.id(), "True").await?;
    }
    sleep(MISSING).await;

    // Five in a second turned, and not all of them at once.
    let turned = fleet.devices().iter().filter(|device| history.of(device.id()).len() > 1).count();
    let most = 5 * (usize::try_from(back.as_secs())? + 3);
    assert!((1..=most.min(ALL - 1)).contains(&turned), "{turned} in {back:?}: {}", operator.log());
    for device in fleet.devices() {
        let said = history.of(device.id());
        assert!(said == ["True"] || said == ["True", "Unknown", "True"], "{said:?}");
    }
    let writes = status_writes(&site).await? - before;
    assert_eq!(writes, 2 * turned, "{}", operator.log());
    assert_eq!(of_the_fleet(&site).await?, ["FleetBack", "FleetMissing"]);
    Ok(())
}
