//! Pods, Services and the ledger: names, strangers, and hands that interfere.

use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::Phase;
use flashjob_sim::flashjob::{Site, uids};
use flashjob_sim::node::{Script, ScriptEnd};
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn any_job_name_will_do() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.boards(1).await?;
    let _operator = site.operator()?;
    let (long, dots) = ("a".repeat(63), "9.with.dots-in.it".to_owned());
    for name in [long, dots, "x".repeat(253)] {
        site.flash(&name, &boards).await?;
        site.phase(&name, Phase::Completed).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_somebody_deletes_is_made_again() -> Result<()> {
    let site = Site::new(|pod| {
        if pod.name_any().ends_with("-1") {
            Script::ending(ScriptEnd::Never)
        } else {
            Script::default()
        }
    })
    .await?;
    let boards = site.boards(1).await?;
    let _operator = site.operator()?;
    let uids = uids(&boards);
    site.flash_with("lost", json!({ "uuid": uids, "retry": { "backoffSeconds": 1 } })).await?;
    let start = site.kubelet.started(1).await.remove(0);
    let pods = site.api::<Pod>();
    pods.delete(&start.pod, &DeleteParams::default()).await?;
    site.phase("lost", Phase::Completed).await?;
    assert_eq!(site.flashed().len(), 2);
    Ok(())
}

/// Nobody has seen whether it ran, so the device is flashed, under the next number. (That costs none of its retries: an
/// operator that dies before it makes the Pod leaves the same.)
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_somebody_deletes_while_the_operator_is_down_is_made_again() -> Result<()> {
    let site = Site::new(|pod| {
        if pod.name_any().ends_with("-1") {
            Script::ending(ScriptEnd::Never)
        } else {
            Script::default()
        }
    })
    .await?;
    let boards = site.boards(1).await?;
    let first = site.operator_with(&["--leader-elect=false"], None)?;
    let uids = uids(&boards);
    site.flash_with("lost", json!({ "uuid": uids, "retry": { "limit": 0 } })).await?;
    let start = site.kubelet.started(1).await.remove(0);
    drop(first);
    let pods = site.api::<Pod>();
    pods.delete(&start.pod, &DeleteParams::default()).await?;
    eventually("the Pod to be gone", PATIENCE, async || {
        Ok(pods.get_opt(&start.pod).await?.is_none().then_some(()))
    })
    .await?;

    let _second = site.operator_with(&["--leader-elect=false"], None)?;
    site.phase("lost", Phase::Completed).await?;
    let pods: Vec<String> = site.kubelet.starts().into_iter().map(|start| start.pod).collect();
    assert_eq!(pods.len(), 2);
    assert!(pods[1].ends_with("-2"), "{pods:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_pod_that_lost_its_label_is_still_followed() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(Duration::from_secs(3))).await?;
    let boards = site.boards(1).await?;
    let _operator = site.operator()?;
    site.flash("stripped", &boards).await?;
    let start = site.kubelet.started(1).await.remove(0);
    let pods = site.api::<Pod>();
    let label = "application.flashjob.nbfc.io/job-uid";
    let strip = json!({ "metadata": { "labels": { label: null } } });
    pods.patch(&start.pod, &PatchParams::default(), &Patch::Merge(strip)).await?;
    site.phase("stripped", Phase::Completed).await?;
    site.cleaned_up().await?;
    assert_eq!(site.flashed().len(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_cannot_start_is_given_up_with_the_kubelets_words() -> Result<()> {
    let site = Site::new(|_| Script::ending(ScriptEnd::ImagePullBackOff)).await?;
    let boards = site.boards(1).await?;
    let _operator = site.operator()?;
    let uids = uids(&boards);
    let brief = json!({
        "uuid": uids, "retry": { "limit": 0 }, "timeouts": { "deviceSeconds": 3 },
    });
    site.flash_with("no-image", brief).await?;
    let failed = site.phase("no-image", Phase::Failed).await?;
    assert_eq!(failed.failures[0].reason, "NotStarted");
    assert!(failed.failures[0].message.contains("ImagePullBackOff"), "{failed:#?}");
    site.cleaned_up().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strangers_service_is_left_alone_and_told() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.boards(1).await?;
    let uids = uids(&boards);
    let brief = json!({ "uuid": uids, "timeouts": { "deviceSeconds": 3 } });
    let job = site.flash_with("crowded", brief).await?;
    // The name our Service will have, taken by somebody else before the operator comes.
    let revision =
        flashjob_plan::flashjob::names::revision("registry.example/esp32:0.2.0", "0.2.0");
    let target =
        flashjob_plan::flashjob::names::target(&job.uid().unwrap().into(), &uids[0], &revision);
    let name = flashjob_plan::flashjob::names::service("crowded", target);
    let services = site.api::<Service>();
    let strange: Service = serde_json::from_value(json!({
        "metadata": { "name": name }, "spec": { "ports": [{ "port": 80 }] },
    }))?;
    let strange = services.create(&PostParams::default(), &strange).await?;
    let _operator = site.operator()?;
    let failed = site.phase("crowded", Phase::Failed).await?;
    assert_eq!(failed.failures[0].reason, "NameConflict");
    let after = services.get(&name).await?;
    assert_eq!(after.metadata.resource_version, strange.metadata.resource_version);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_ledger_was_deleted_says_so_and_starts_nothing() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(Duration::from_secs(2))).await?;
    let boards = site.boards(2).await?;
    let _operator = site.operator()?;
    let uids = uids(&boards);
    site.flash_with("forgetful", json!({ "uuid": uids, "rollout": { "maxParallel": 1 } })).await?;
    site.kubelet.started(1).await;
    let maps = site.api::<ConfigMap>();
    for ledger in site.ledgers().await? {
        maps.delete(&ledger.name_any(), &DeleteParams::default()).await?;
    }
    let lost = site.phase("forgetful", Phase::Failed).await?;
    assert_eq!(lost.conditions[1].reason, "LedgerLost");
    assert_eq!(site.flashed().len(), 1, "nothing more was started");
    Ok(())
}
