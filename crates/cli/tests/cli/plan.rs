//! The plan is what then happens: told before, and held against what the operator did.

use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::{DeviceState, FlashJob, Phase};
use flashjob_sim::flashjob::Flash;
use flashjob_sim::node::{Script, Started};
use flashjob_sim::{PATIENCE, eventually};
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::site::CliSite;

/// The plan of a job, by device: batch and fate.
async fn planned(site: &CliSite, job: &FlashJob) -> Result<Vec<(String, Value, String)>> {
    let text = serde_json::to_string(job)?;
    let out = site.run_as(&site.kubeconfig, &["plan", "-f", "-", "-o", "json"], &text).await.well();
    let plan: Value = serde_json::from_str(&out)?;
    let devices = plan["devices"].as_array().cloned().unwrap_or_default();
    let line = |d: Value| {
        let text = |field: &str| d[field].as_str().unwrap_or_default().to_owned();
        (text("device"), d["batch"].clone(), text("fate"))
    };
    Ok(devices.into_iter().map(line).collect())
}

#[tokio::test]
async fn what_is_planned_is_what_then_happens() -> Result<()> {
    let site = CliSite::new(|pod| {
        let hold = pod.name_any().starts_with("holder");
        Script::success("").run_for(Duration::from_millis(if hold { 3_000 } else { 200 }))
    })
    .await?;
    let boards = site.boards(6).await?;
    let namespace = site.namespace.clone();
    let path = |n: usize| format!("{namespace}/{}", boards[n].name_any());
    let wrong = site.akri.discover(&site.address(90), "esp32c3", "thermo", "0.1.0").await?;
    let wrong = format!("{}/{}", site.namespace, wrong.name_any());
    let away = format!("{}/http-disc-away", site.namespace);
    let spec = json!({
        // The first board twice: by path and by uid.
        "uuid": [path(0), wrong, path(1), boards[0].uid(), path(2), away, path(3), path(4)],
        "device": "esp32",
        "firmware": "registry.example/thermo:0.2.0",
        "version": "0.2.0",
        "rollout": { "batchSize": 3 },
        "timeouts": { "offlineSeconds": 2 },
    });
    let mut job = FlashJob::new("rollout", serde_json::from_value(spec)?);
    job.metadata.namespace = Some(site.namespace.clone());
    let text = serde_json::to_string(&job)?;
    let ended = site.run_as(&site.kubeconfig, &["plan", "-f", "-"], &text).await;
    assert!(
        ended.err.contains("8 devices in 3 batches: 5 to flash, 1 offline, 1 refused, 1 skipped."),
        "{ended:#?}"
    );

    // Another job holds a board meanwhile.
    let holder = json!({
        "uuid": [path(4)], "firmware": "registry.example/other:1", "version": "1",
    });
    let holder = FlashJob::new("holder", serde_json::from_value(holder)?);
    site.jobs().create(&PostParams::default(), &holder).await?;
    let _operator = site.operator()?;
    site.kubelet.started(1).await;
    // What the operator knows it writes down; the plan is from there.
    let plan = eventually("the plan to see the other job", PATIENCE, async || {
        let plan = planned(&site, &job).await?;
        Ok(plan.iter().any(|(_, _, fate)| fate == "blocked").then_some(plan))
    })
    .await?;
    let fates: Vec<&str> = plan.iter().map(|(_, _, fate)| fate.as_str()).collect();
    assert_eq!(fates, ["flash", "refuse", "flash", "skip", "flash", "offline", "flash", "blocked"]);

    site.jobs().create(&PostParams::default(), &job).await?;
    let blocked = site.status("rollout", "a board to be held by another job", |status| {
        status.in_flight.iter().any(|d| d.state == DeviceState::Blocked)
            || status.completion_time.is_some()
    });
    blocked.await?;
    let status = site.phase("rollout", Phase::Failed).await?;
    // In the end: what was to be flashed was, what was to be refused or waited for failed with that reason.
    let failed = |device: &str| {
        let failure = status.failures.iter().find(|f| f.uuid == device);
        failure.map(|f| f.reason.as_str()).unwrap_or_default()
    };
    let endpoint = |device: &str| {
        let n = (0..6).find(|n| path(*n) == device || boards[*n].uid().as_deref() == Some(device));
        n.map(|n| site.address(n)).unwrap_or_default()
    };
    let starts: Vec<Started> =
        site.kubelet.starts().into_iter().filter(|s| s.pod.starts_with("rollout")).collect();
    let started = |device: &str| starts.iter().filter(|s| s.endpoint() == endpoint(device)).count();
    let mut batches: Vec<(u64, usize, &Started)> = Vec::new();
    for (device, batch, fate) in &plan {
        let done = status.completed_uuids.contains(device);
        let what = (fate.as_str(), done, failed(device), started(device));
        match fate.as_str() {
            "flash" | "blocked" => {
                assert_eq!(what, (fate.as_str(), true, "", 1), "{device}");
                let start = starts.iter().find(|s| s.endpoint() == endpoint(device)).unwrap();
                batches.push((batch.as_u64().unwrap(), 0, start));
            }
            "refuse" => assert_eq!(what, ("refuse", false, "WrongDevice", 0), "{device}"),
            "offline" => assert_eq!(what, ("offline", false, "DeviceNotFound", 0), "{device}"),
            _ => assert_eq!((done, batch), (true, &Value::Null), "{device} is its twin's shadow"),
        }
    }
    // Batches began in the order that was told: none before all of the one before had ended.
    for (batch, _, start) in &batches {
        for (other, _, before) in batches.iter().filter(|(other, ..)| other < batch) {
            let ended = before.ended_at.unwrap();
            assert!(ended <= start.at, "batch {batch} began before batch {other} had ended");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_job_that_would_not_begin_says_why() -> Result<()> {
    let site = CliSite::new(|_| Script::success("")).await?;
    let plan = async |spec: Value| {
        let mut job = FlashJob::new("x", serde_json::from_value(spec).unwrap());
        job.metadata.namespace = Some(site.namespace.clone());
        let text = serde_json::to_string(&job).unwrap();
        site.run_as(&site.kubeconfig, &["plan", "-f", "-"], &text).await
    };
    let firmware = "registry.example/thermo:0.2.0";
    let nothing = json!({ "uuid": [], "firmware": firmware, "version": "1" });
    plan(nothing).await.badly(1, "spec.uuid");
    let none =
        json!({ "deviceSelector": { "device": "toaster" }, "firmware": firmware, "version": "1" });
    plan(none).await.badly(1, "no device fits spec.deviceSelector yet");
    let ended = site.run_as(&site.kubeconfig, &["plan", "-f", "-"], "kind: Pod\n").await;
    ended.badly(1, "is not a FlashJob");
    Ok(())
}
