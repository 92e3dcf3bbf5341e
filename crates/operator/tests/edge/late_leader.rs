//! A leader that slept through the end of its lease, while another one served what users changed. Its writes are on their way
//! meanwhile and arrive late, and requests of devices lie in its sockets. None of that does harm.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flashjob_sim::cluster::{Call, CallFate, Gate};
use flashjob_sim::edge::site::{EdgeSite, listens_at};
use flashjob_sim::edge::{Device, DeviceOptions, Manner};
use flashjob_sim::{PATIENCE, eventually};
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::replicas::{Replica, make_pod, serves, stands_by, start, start_behind, unread};
use super::steady::same;
use super::storage::{self, SOON, buckets, has_its_bucket, names_of_claims};
use super::workload_kit::{
    self, DEPLOYMENT, WORKLOAD, api, condition, content, for_all, image, is_sent, is_told, label,
    make_for_all, patch, phases, runs, version,
};

/// For longer than a device's status waits for its turn to be put right.
const TURN: Duration = Duration::from_secs(12);

/// A device that gives up a connection to somebody who stands still, and the same box on a connection straight to a process.
async fn boxes(site: &EdgeSite, to: &Replica, id: &str, manner: Manner) -> Result<[Device; 2]> {
    let own = site.registered(id, manner).await?.credential().and_then(|own| own.shown().cloned());
    let deadline = Duration::from_secs(3);
    let options = DeviceOptions { own, deadline, ..site.options(id, manner).await? };
    let server = listens_at(&to.operator).context("no address")?;
    let late = DeviceOptions { server, deadline: PATIENCE, ..options.clone() };
    Ok([Device::new(options)?, Device::new(late)?])
}

/// It runs both, and by its labels and statuses nothing else.
fn is_right(found: &Value) -> bool {
    let both = ["old", "web"].map(|name| (name.to_owned(), "Running".to_owned()));
    let labels = ["old", "web", "late"].map(|name| label(found, name).is_some());
    let conditions = ["Ready", "Synced", "Configured", "StorageReady"];
    phases(found, "workloads") == both
        && phases(found, "deployments") == both
        && labels == [true, true, false]
        && conditions.iter().all(|of| condition(found, of)["status"] == "True")
}

/// Has the leader write labels, a status and a claim, none of which arrives.
async fn writes_that_are_late(site: &EdgeSite, gate: &Gate, devices: &[Device; 2]) -> Result<()> {
    let before = gate.calls().len();
    make_for_all(site, DEPLOYMENT, "late", "app:1").await?;
    let third = json!({
        "apiVersion": "management.project-flotta.io/v1alpha1", "kind": "EdgeDevice",
        "metadata": { "name": "third" }, "spec": {},
    });
    site.devices().create(&PostParams::default(), &serde_json::from_value(third)?).await?;
    for device in devices {
        device.set_workload("web", "Exited");
        device.heartbeat().await?;
    }
    eventually("labels, statuses and a claim on their way", PATIENCE, async || {
        let calls = gate.calls().split_off(before);
        let is = |call: &Call, what: &str, end: &str| {
            call.resource() == what && call.path.ends_with(end)
        };
        let wanted = [
            ("edgedevices", "/ours"),
            ("edgedevices", "/flotta"),
            ("edgedevices", "/ours/status"),
            ("edgedevices", "/flotta/status"),
            ("objectbucketclaims", "/objectbucketclaims"),
        ];
        let all = wanted.iter().all(|(what, end)| calls.iter().any(|call| is(call, what, end)));
        Ok(all.then_some(()))
    })
    .await
    .with_context(|| format!("{:?}", gate.calls().split_off(before)))
}

/// Asks a process that stands still, lets it go on, and looks at what it answers.
async fn asks_the_late_one(late: Vec<Device>, a: &mut Replica) -> Result<()> {
    let port = listens_at(&a.operator).context("no address")?.port();
    let count = late.len();
    let asked = late.into_iter().map(|device| {
        tokio::spawn(async move { device.fetch_configuration().await.map(|told| told.code()) })
    });
    let asked: Vec<_> = asked.collect();
    let sent = async || Ok((unread(port)? >= count).then_some(()));
    eventually("the requests to lie there", PATIENCE, sent).await?;
    a.operator.resume()?;
    for asked in asked {
        let told = asked.await?;
        ensure!(told.is_err() || matches!(told, Ok(503)), "it told a device something: {told:?}");
    }
    let (code, _) = a.operator.ended().await?;
    ensure!(code != 0 && a.operator.log().contains("the lease is lost"), "{}", a.operator.log());
    Ok(())
}

/// What the other one has told a device is the last that the device was told, and all of it had both workloads.
fn nothing_less_and_nothing_older(device: &Device, latest: Option<&str>) {
    let ledger = device.ledger();
    let told = ledger.configurations.iter();
    let told: Vec<_> = told.skip_while(|told| told.workloads != ["old", "web"]).collect();
    let has = |all: &[String], name: &str| all.iter().any(|known| known == name);
    let both = told.iter().all(|t| has(&t.workloads, "old") && has(&t.workloads, "web"));
    let first = told.iter().position(|told| Some(told.version.as_str()) == latest);
    assert!(both && first == told.len().checked_sub(1), "{latest:?}: {ledger:?}");
    assert_eq!((ledger.disconnects(), &ledger.unreadable), (0, &vec![]), "{ledger:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_late_leader_says_and_writes_does_no_harm() -> Result<()> {
    let site = storage::site().await?;
    let _buckets = buckets(&site, SOON);
    for pod in ["a", "b"] {
        make_pod(&site, pod).await?;
    }
    let holds = Arc::new(AtomicBool::new(false));
    let held = holds.clone();
    let gate = Gate::start(&site.cluster, move |_| {
        if held.load(Ordering::Relaxed) { CallFate::Hold } else { CallFate::Pass }
    });
    let gate = gate.await?;
    let mut a = start_behind(&site, "a", Some(&gate))?;
    serves(&site, &a).await?;
    make_for_all(&site, DEPLOYMENT, "web", "app:1").await?;
    make_for_all(&site, WORKLOAD, "old", "app:1").await?;
    let [ours, late_ours] = boxes(&site, &a, "ours", Manner::Ours).await?;
    let [flotta, late_flotta] = boxes(&site, &a, "flotta", Manner::Flotta).await?;
    let devices = [ours, flotta];
    for device in &devices {
        has_its_bucket(&site, device.id()).await?;
        is_told(device, &["old", "web"]).await?;
        device.heartbeat().await?;
        runs(&site, device.id(), &["old", "web"]).await?;
    }
    for late in [&late_ours, &late_flotta] {
        assert_eq!(late.heartbeat().await?.code(), 200);
    }
    let mut b = start(&site, "b")?;
    stands_by(&b).await?;

    holds.store(true, Ordering::Relaxed);
    writes_that_are_late(&site, &gate, &devices).await?;
    a.operator.pause()?;
    holds.store(false, Ordering::Relaxed);
    serves(&site, &b).await?;
    for device in &devices {
        let heard = async || Ok(device.heartbeat().await.ok().filter(|told| told.code() == 200));
        eventually("the other one to hear it", PATIENCE, heard).await?;
    }
    api(&site, DEPLOYMENT).delete("late", &DeleteParams::default()).await?;
    let edit = json!({ "spec": for_all("app:2") });
    patch(&api(&site, DEPLOYMENT), "web", edit).await?;
    is_sent(&devices[1], "the edit and nothing else", |sent| {
        image(sent, "web").as_deref() == Some("app:2") && sent.workloads.len() == 2
    })
    .await?;
    let latest = version(&devices[1]);
    for device in &devices {
        device.set_workload("web", "Running");
        is_told(device, &["old", "web"]).await?;
        device.heartbeat().await?;
        workload_kit::device(&site, device.id(), is_right).await?;
    }
    has_its_bucket(&site, "third").await?;
    let versions = devices.each_ref().map(version);

    // Late writes arrive, after what they were decided on has changed.
    gate.release();
    gate.settled().await;
    for _ in 0..2 {
        for device in &devices {
            workload_kit::device(&site, device.id(), is_right).await?;
        }
        sleep(TURN).await;
    }
    assert_eq!(names_of_claims(&site).await?, ["flotta", "ours", "third"]);

    asks_the_late_one(vec![late_ours.clone(), late_flotta.clone()], &mut a).await?;
    for (device, late) in devices.iter().zip([&late_ours, &late_flotta]) {
        assert!(late.ledger().configurations.is_empty(), "{:?}", late.ledger());
        device.fetch_configuration().await?;
        workload_kit::device(&site, device.id(), is_right).await?;
    }
    assert_eq!(devices.each_ref().map(version), versions);

    // The same from the next one, who is the first again.
    let text = serde_json::to_string(&content(&devices[1]).await?)?;
    a = start(&site, "a")?;
    stands_by(&a).await?;
    b.operator.kill();
    site.lead_to(None);
    serves(&site, &a).await?;
    same(&devices[0], &devices[1], &text).await?;
    nothing_less_and_nothing_older(&devices[1], latest.as_deref());
    nothing_less_and_nothing_older(&devices[0], versions[0].as_deref());
    Ok(())
}
