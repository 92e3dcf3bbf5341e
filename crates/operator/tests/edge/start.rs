//! The start of a process among many devices: whoever was listed is served, also while the list goes on, and whoever was not is
//! asked to come again. Nothing is written, and nobody is thought to be missing or unknown, before all were listed.

use std::time::Duration;

use anyhow::Result;
use flashjob_sim::PATIENCE;
use flashjob_sim::cluster::{Call, CallFate, Gate};
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{Device, DeviceLedger, Manner, Operation};
use futures::future::try_join_all;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::kit::{beats, live, patch_device, quick_and_registered};
use super::workload_kit::{condition, device, entry, is_told, make, nginx, objects, told};

/// Devices are listed in pages of 100; so many by themselves fill the first.
const FILL: usize = 110;
/// From the last word to a device to when it is thought to be missing.
const SILENCE: Duration = Duration::from_secs(3);

async fn is_running(site: &EdgeSite, name: &str) -> Result<Value> {
    let runs = |found: &Value| entry(found, "w")["phase"] == "Running";
    device(site, name, runs).await
}

/// EdgeDevices whose devices were never there. By name they come between the first and the last.
async fn fill(site: &EdgeSite) -> Result<()> {
    let made = (0..FILL).map(|at| async move {
        let device = json!({
            "apiVersion": "management.project-flotta.io/v1alpha1", "kind": "EdgeDevice",
            "metadata": { "name": format!("m-{at}") }, "spec": {},
        });
        let (devices, device) = (site.devices(), serde_json::from_value(device)?);
        anyhow::Ok(devices.create(&PostParams::default(), &device).await?)
    });
    try_join_all(made).await?;
    Ok(())
}

fn only(ledger: &DeviceLedger, before: &DeviceLedger, wanted: u16) {
    for operation in [Operation::Heartbeat, Operation::FetchConfiguration, Operation::FetchCommands]
    {
        for code in [200, 304, 401, 403, 404, 409, 503].into_iter().filter(|code| *code != wanted) {
            let [now, then] = [ledger, before].map(|ledger| ledger.answered(operation, code));
            assert_eq!(now, then, "{operation:?} was answered {code}: {ledger:?}");
        }
    }
}

async fn refused(device: &Device, times: u64) -> Result<()> {
    let refused = |ledger: &DeviceLedger| ledger.answered(Operation::Heartbeat, 503);
    let before = device.read(refused);
    device.until("to be asked to come again", PATIENCE, |now| refused(now) >= before + times).await
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_listed_is_served_while_the_list_goes_on_and_nobody_else_is_unknown()
-> Result<()> {
    let site = EdgeSite::new().await?;
    let operator = site.operator_with(&["--leader-elect=false"], None).await?;
    let workloads = objects(&site, "EdgeDeployment", "edgedeployments");
    let spec = nginx("app:1", json!({ "deviceSelector": { "matchLabels": { "runs": "w" } } }));
    make(&workloads, "EdgeDeployment", "w", spec).await?;
    let (first, last) = (
        quick_and_registered(&site, "a-first", Manner::Flotta).await?,
        quick_and_registered(&site, "z-last", Manner::Ours).await?,
    );
    for device in [&first, &last] {
        let spec = json!({ "heartbeat": { "periodSeconds": 1 } });
        let change = json!({ "metadata": { "labels": { "runs": "w" } }, "spec": spec });
        patch_device(&site, device.id(), change).await?;
        is_told(device, &["w"]).await?;
    }
    let lives = [live(&first), live(&last)];
    let before = is_running(&site, "z-last").await?;
    is_running(&site, "a-first").await?;
    fill(&site).await?;
    drop(operator);

    let gate = Gate::start(&site.cluster, |_| CallFate::Pass).await?;
    gate.judge_reads(|call| {
        let later = call.query.as_deref().is_some_and(|query| query.contains("continue="));
        let held = later && call.is_list() && call.resource() == "edgedevices";
        if held { CallFate::Hold } else { CallFate::Pass }
    });
    let _operator = site.operator_with(&["--leader-elect=false"], Some(&gate)).await?;
    // From here on the first is served, and the last is not.
    beats(&first).await?;
    refused(&last, 1).await?;
    let then = [&first, &last].map(|device| device.ledger());
    assert_eq!(told(&first).await?, ["w"]);
    for _ in 0..2 * SILENCE.as_secs() {
        beats(&first).await?;
    }
    refused(&last, 2).await?;
    for (device, (then, code)) in [&first, &last].into_iter().zip(then.iter().zip([200, 503])) {
        only(&device.ledger(), then, code);
    }
    // Whether there is anything on record of this one is not known either.
    let stranger = Device::new(site.options("b-stranger", Manner::Ours).await?)?;
    assert_eq!([stranger.enrol().await?.code(), stranger.register().await?.code()], [503, 503]);
    let writes = |call: &Call| call.path.contains("project-flotta.io");
    assert!(!gate.calls().iter().any(writes), "{:?}", gate.calls());

    gate.judge_reads(|_| CallFate::Pass);
    gate.release();
    beats(&last).await?;
    assert_eq!(last.ledger().disconnects() + first.ledger().disconnects(), 0);
    // Its silence was none of its own.
    let after =
        device(&site, "z-last", |found| condition(found, "Ready")["status"] == "True").await?;
    let since = |device: &Value| condition(device, "Ready")["lastTransitionTime"].clone();
    assert_eq!(since(&before), since(&after));
    drop(lives);
    Ok(())
}
