//! Rollouts: batches, budgets, and what people do to a job under way.

use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::Phase;
use flashjob_sim::flashjob::Flash;
use flashjob_sim::flashjob::{Site, uids};
use flashjob_sim::node::{Script, Started};
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

/// Fails the boards at these addresses.
fn failing(addresses: &'static [&'static str]) -> impl Fn(&Pod) -> Script + Send + Sync {
    move |pod| {
        let text = serde_json::to_string(pod).unwrap_or_default();
        if addresses.iter().any(|a| text.contains(&format!("{a}\""))) {
            Script::failure(1, r#"{"reason":"NotBack","message":"it did not come back"}"#)
        } else {
            Script::default()
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_of_two_come_in_order() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(Duration::from_millis(300))).await?;
    let boards = site.boards(5).await?;
    let _operator = site.operator()?;
    let rollout =
        json!({ "uuid": uids(&boards), "rollout": { "batchSize": 2, "delaySeconds": 1 } });
    site.flash_with("steps", rollout).await?;
    let done = site.phase("steps", Phase::Completed).await?;
    assert_eq!(done.batch.map(|b| (b.current, b.of)), Some((3, 3)));
    let starts = site.kubelet.starts();
    let batch = |s: &Started| match s.endpoint() {
        "192.0.2.11" | "192.0.2.12" => 1,
        "192.0.2.13" | "192.0.2.14" => 2,
        _ => 3,
    };
    for next in &starts {
        for earlier in starts.iter().filter(|s| batch(s) < batch(next)) {
            let ended = earlier.ended_at.expect("it has ended");
            let pause = next.at.duration_since(ended);
            assert!(pause.as_millis() >= 900, "{pause:?} between {earlier:?} and {next:?}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_budget_stops_new_starts_and_more_budget_goes_on() -> Result<()> {
    let site = Site::new(failing(&["192.0.2.11", "192.0.2.12"])).await?;
    let boards = site.boards(5).await?;
    let _operator = site.operator()?;
    let limits = json!({
        "uuid": uids(&boards), "retry": { "limit": 0 },
        "rollout": { "batchSize": 1, "maxFailures": "20%" },
    });
    site.flash_with("careful", limits).await?;
    let stopped = site.phase("careful", Phase::Failed).await?;
    assert_eq!(stopped.conditions[1].reason, "FailureBudgetExceeded");
    let counts = stopped.counts.unwrap();
    assert_eq!((counts.failed, counts.pending), (2, 3));
    assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.12"]);

    site.edit("careful", json!({ "rollout": { "maxFailures": 3 } })).await?;
    let ended = site.status("careful", "the rest to be flashed", |s| {
        s.counts.is_some_and(|c| c.succeeded == 3) && s.phase == Some(Phase::Failed)
    });
    assert_eq!(ended.await?.conditions[1].reason, "DevicesFailed");
    assert_eq!(site.flashed().len(), 5);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_retried_a_nonce_asks_again_and_the_pods_words_are_kept() -> Result<()> {
    let site = Site::new(|pod| match pod.labels().get("application.flashjob.nbfc.io/attempt") {
        Some(attempt) if attempt == "3" => Script::default(),
        _ => Script::failure(2, "panic: no such partition"),
    })
    .await?;
    let boards = site.boards(1).await?;
    let _operator = site.operator()?;
    let retry = json!({ "uuid": uids(&boards), "retry": { "limit": 1, "backoffSeconds": 1 } });
    site.flash_with("stubborn", retry).await?;
    let failed = site.phase("stubborn", Phase::Failed).await?;
    let failure = &failed.failures[0];
    assert_eq!((failure.reason.as_str(), failure.attempts), ("FlashFailed", 2));
    assert_eq!(failure.message, "panic: no such partition");
    site.edit("stubborn", json!({ "retry": { "nonce": "again" } })).await?;
    site.phase("stubborn", Phase::Completed).await?;
    assert_eq!(site.flashed().len(), 3);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_held_goes_on_and_is_ended_early() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(Duration::from_secs(2))).await?;
    let boards = site.boards(3).await?;
    let _operator = site.operator()?;
    let one = json!({ "uuid": uids(&boards), "rollout": { "maxParallel": 1 } });
    site.flash_with("held", one).await?;
    site.kubelet.started(1).await;
    site.edit("held", json!({ "suspend": true })).await?;
    let held = site.status("held", "what flashes to finish", |s| {
        s.phase == Some(Phase::Suspended) && s.done.as_deref() == Some("1/3")
    });
    held.await?;
    site.cleaned_up().await?;
    assert_eq!(site.kubelet.starts().len(), 1, "nothing new has started");

    site.edit("held", json!({ "suspend": false })).await?;
    site.kubelet.started(2).await;
    site.edit("held", json!({ "abort": true })).await?;
    let ended = site.phase("held", Phase::Failed).await?;
    assert_eq!(ended.conditions[1].reason, "Aborted");
    assert_eq!(ended.done.as_deref(), Some("2/3"), "what was flashing has finished");
    site.cleaned_up().await?;
    assert_eq!(site.kubelet.starts().len(), 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_job_goes_after_its_time() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.boards(1).await?;
    let _operator = site.operator()?;
    let brief = json!({ "uuid": uids(&boards), "ttlSecondsAfterFinished": 2 });
    site.flash_with("brief", brief).await?;
    site.phase("brief", Phase::Completed).await?;
    let jobs = site.jobs();
    eventually("the job to be gone", PATIENCE, async || {
        Ok(jobs.get_opt("brief").await?.is_none().then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn firmware_back_and_forth_flashes_each_time_and_never_two_at_once() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(Duration::from_millis(700))).await?;
    let boards = site.boards(1).await?;
    let _operator = site.operator()?;
    site.flash("there-and-back", &boards).await?;
    site.kubelet.started(1).await;
    // Before the first has ended.
    site.edit("there-and-back", json!({ "firmware": "registry.example/esp32:0.3.0" })).await?;
    site.kubelet.started(2).await;
    site.edit("there-and-back", json!({ "firmware": "registry.example/esp32:0.2.0" })).await?;
    let starts = site.kubelet.started(3).await;
    site.phase("there-and-back", Phase::Completed).await?;
    site.cleaned_up().await?;
    let tags: Vec<&str> = starts.iter().map(|s| &s.env["FIRMWARE"][23..]).collect();
    assert_eq!(tags, ["0.2.0", "0.3.0", "0.2.0"]);
    for pair in site.kubelet.starts().windows(2) {
        assert!(pair[0].ended_at.is_some_and(|ended| ended <= pair[1].at), "{pair:?}");
    }
    Ok(())
}
