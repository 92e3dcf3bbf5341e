//! The status is written, never read; and nothing is written when nothing happens.

use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::instance::Instance;
use flashjob_api::flashjob::{DeviceState, FlashJob, Phase};
use flashjob_sim::flashjob::{Site, uids};
use flashjob_sim::node::Script;
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_and_a_nonsensical_status_are_rebuilt_and_nothing_is_flashed_again() -> Result<()>
{
    let site = Site::new(|_| Script::success("").run_for(Duration::from_secs(8))).await?;
    let boards = site.two_boards().await?;
    let _operator = site.operator()?;
    site.flash("flashjob", &boards).await?;
    site.phase("flashjob", Phase::InProgress).await?;
    site.kubelet.started(2).await;

    let put = async |status: Value| -> Result<()> {
        let patch = json!([{ "op": "add", "path": "/status", "value": status }]);
        let patch = Patch::Json::<()>(serde_json::from_value(patch)?);
        site.jobs().patch_status("flashjob", &PatchParams::default(), &patch).await?;
        Ok(())
    };
    let rebuilt = async |what: &str| {
        site.status("flashjob", what, |s| {
            s.phase == Some(Phase::InProgress)
                && s.in_flight.len() == 2
                && s.completed_uuids.is_empty()
                && s.conditions.len() == 7
        })
        .await
    };
    rebuilt("the status as it is").await?;
    put(json!({})).await?;
    rebuilt("the erased status to be rebuilt").await?;
    put(json!({
        "phase": "Completed",
        "message": "all is well",
        "done": "9/9",
        "counts": { "total": 9, "succeeded": 9 },
        "completedUUIDs": uids(&boards),
        "startTime": "1999-01-01T00:00:00Z",
    }))
    .await?;
    rebuilt("the nonsensical status to be rebuilt").await?;

    let done = site.phase("flashjob", Phase::Completed).await?;
    assert_eq!(done.done.as_deref(), Some("2/2"));
    site.cleaned_up().await?;
    assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.12"], "each board once");

    // Also once everything is over.
    put(json!({ "phase": "Running", "message": "as the original leaves it" })).await?;
    let again = site.phase("flashjob", Phase::Completed).await?;
    assert_eq!(again.completion_time, done.completion_time);
    assert_eq!(site.flashed().len(), 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_cluster_gets_no_writes() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.two_boards().await?;
    let _operator = site.operator()?;
    site.flash("done", &boards).await?;
    site.phase("done", Phase::Completed).await?;
    // One that waits for a device nobody has seen.
    let job: FlashJob = serde_json::from_value(json!({
        "metadata": { "name": "waits" },
        "spec": { "uuid": ["nowhere"], "firmware": "f", "version": "v", "flashjobPodImage": "i" },
    }))?;
    site.jobs().create(&PostParams::default(), &job).await?;
    let waits = site
        .status("waits", "the device to be offline", |s| s.counts.is_some_and(|c| c.offline == 1));
    assert_eq!(waits.await?.in_flight[0].state, DeviceState::Offline);
    site.cleaned_up().await?;

    // What was under way may end: from the moment nothing was written for two seconds, it must stay so.
    let writes = || -> Result<usize> { Ok(site.cluster.writes(&site.namespace)?.len()) };
    let mut last = (writes()?, tokio::time::Instant::now());
    eventually("two seconds without a write", PATIENCE, async || {
        let now = writes()?;
        if now != last.0 {
            last = (now, tokio::time::Instant::now());
        }
        Ok((last.1.elapsed() > Duration::from_secs(2)).then_some(()))
    })
    .await?;
    // A busy server logs a call long after it came in; only what came in later counts.
    let before = site.cluster.writes(&site.namespace)?.iter().map(|write| write.at).max();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let mut after = site.cluster.writes(&site.namespace)?;
    after.retain(|write| Some(write.at) > before);
    assert_eq!(after, []);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_optional_field_may_be_null_and_every_way_of_applying_takes_it() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.boards(4).await?;
    let _operator = site.operator()?;
    let nulls = json!({
        "firmware": "registry.example/esp32:0.2.0",
        "version": "0.2.0",
        "flashjobPodImage": "registry.example/flasher:1",
        "hostEndpoint": null, "device": null, "applicationType": null, "externalIP": null,
        "deviceSelector": null, "podTemplate": null, "suspend": null, "abort": null,
        "ttlSecondsAfterFinished": null, "verify": null, "versionPolicy": null,
        "rollout": { "batchSize": null, "delaySeconds": null, "maxParallel": null, "maxFailures": null },
        "retry": { "limit": null, "backoffSeconds": null, "nonce": null },
        "timeouts": { "deviceSeconds": null, "addressSeconds": null, "offlineSeconds": null },
        "service": { "type": null, "annotations": null, "loadBalancerClass": null,
                     "externalTrafficPolicy": null },
    });
    let outer = json!({
        "firmware": "f", "version": "v", "flashjobPodImage": "i",
        "rollout": null, "retry": null, "timeouts": null, "service": null, "device": "",
    });
    // Each job has a board of its own: of two jobs for one board, made in one second, either may be the older one.
    let jobs = [("inner", nulls, &boards[..2]), ("outer", outer, &boards[2..])];
    for (name, mut spec, boards) in jobs {
        let mut object = |name: &str, board: &Instance| {
            spec["uuid"] = json!([board.uid()]);
            json!({
                "apiVersion": "application.flashjob.nbfc.io/v1alpha1",
                "kind": "FlashJob",
                "metadata": { "name": name, "namespace": site.namespace },
                "spec": spec,
            })
        };
        let (applied, created) = (format!("{name}-applied"), format!("{name}-created"));
        site.cluster.apply_yaml(&object(&applied, &boards[0]).to_string()).await?;
        let path = format!(
            "/apis/application.flashjob.nbfc.io/v1alpha1/namespaces/{}/flashjobs",
            site.namespace
        );
        let body = object(&created, &boards[1]).to_string().into_bytes();
        let request =
            http::Request::post(path).header("content-type", "application/json").body(body)?;
        site.client.request::<Value>(request).await?;
        for job in [applied, created] {
            site.phase(&job, Phase::Completed).await?;
        }
    }
    assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.12", "192.0.2.13", "192.0.2.14"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_ledger_is_told_and_tried_again() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.two_boards().await?;
    let quotas = site.api::<ResourceQuota>();
    let quota: ResourceQuota = serde_json::from_value(json!({
        "metadata": { "name": "tight" },
        "spec": { "hard": { "configmaps": "0" } },
    }))?;
    quotas.create(&PostParams::default(), &quota).await?;
    // No controller works out what is used, so the test says it.
    let used =
        json!({ "status": { "hard": { "configmaps": "0" }, "used": { "configmaps": "0" } } });
    quotas.patch_status("tight", &PatchParams::default(), &Patch::Merge(used)).await?;
    let maps = site.api::<ConfigMap>();
    let probe: ConfigMap =
        serde_json::from_value(json!({ "metadata": { "generateName": "probe-" } }))?;
    eventually("the quota to be in force", PATIENCE, async || {
        Ok(maps.create(&PostParams::default(), &probe).await.is_err().then_some(()))
    })
    .await?;
    let _operator = site.operator()?;
    site.flash("flashjob", &boards).await?;
    let refused = site.status("flashjob", "the refusal to be told", |s| {
        s.message.as_ref().is_some_and(|m| m.contains("quota"))
    });
    let refused = refused.await?;
    assert_eq!(refused.phase, Some(Phase::Pending));
    assert_eq!(refused.conditions[0].reason, "CreateRefused");

    quotas.delete("tight", &DeleteParams::default()).await?;
    site.phase("flashjob", Phase::Completed).await?;
    assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.12"]);
    Ok(())
}
