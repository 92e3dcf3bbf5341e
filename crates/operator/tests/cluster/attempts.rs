//! Attempts that go wrong in the ways Pods do: a deadline that is past while the container still ends, a sidecar that
//! never ends, no node that fits.

use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::{DeviceState, Phase};
use flashjob_sim::flashjob::Flash;
use flashjob_sim::flashjob::{Site, uids};
use flashjob_sim::node::{Script, ScriptEnd};
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;
use tokio::time::timeout;

/// Waits for a Pod past its deadline.
async fn failed_pod(site: &Site) -> Result<Pod> {
    let (pods, all) = (site.api::<Pod>(), ListParams::default());
    let reason = |p: &Pod| p.status.as_ref().and_then(|s| s.reason.clone());
    eventually("a Pod past its deadline", PATIENCE, async || {
        let found = pods.list(&all).await?.items;
        Ok(found.into_iter().find(|p| reason(p).as_deref() == Some("DeadlineExceeded")))
    })
    .await
}

/// When the operator made Pods, or deleted them.
fn pod_writes(site: &Site, verb: &str) -> Result<Vec<jiff::Timestamp>> {
    let mut writes = site.operators.writes(&site.namespace)?;
    writes.retain(|w| w.resource == "pods" && w.subresource.is_none() && w.verb == verb);
    writes.retain(|w| w.code < 300);
    Ok(writes.into_iter().map(|w| w.at).collect())
}

fn attempt(pod: &Pod) -> &str {
    pod.labels().get("application.flashjob.nbfc.io/attempt").map_or("", String::as_str)
}

/// The kubelet says Failed at the deadline, and the container takes its time to end: the board is at work until then.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_past_its_deadline_is_not_followed_by_another_while_its_container_runs() -> Result<()>
{
    let slow_to_end = Duration::from_secs(7);
    let site = Site::new(move |pod| match attempt(pod) {
        "1" => Script::ending(ScriptEnd::Never).on_sigterm(slow_to_end, 1, "cut off at 40 %"),
        _ => Script::default(),
    })
    .await?;
    let boards = site.boards(1).await?;
    let _operator = site.operator()?;
    let brief = json!({
        "uuid": uids(&boards), "timeouts": { "deviceSeconds": 2 },
        "retry": { "limit": 1, "backoffSeconds": 4 },
    });
    site.flash_with("slow", brief).await?;
    let pods = site.api::<Pod>();
    assert_eq!(attempt(&failed_pod(&site).await?), "1");
    assert_eq!(site.kubelet.starts()[0].ended_at, None, "its container runs");
    // The Pod is neither given up nor followed by another.
    while site.kubelet.starts()[0].ended_at.is_none() {
        let found = pods.list(&ListParams::default()).await?.items;
        let ended = site.kubelet.starts()[0].ended_at.is_some();
        assert!(ended || (found.len() == 1 && found[0].metadata.deletion_timestamp.is_none()));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let words = site.status("slow", "the failure to be told", |s| {
        let words = s.in_flight.first().and_then(|d| d.message.as_deref()).unwrap_or_default();
        words.contains("cut off at 40 %")
    });
    words.await?;
    site.phase("slow", Phase::Completed).await?;
    let starts = site.kubelet.starts();
    assert_eq!(starts.len(), 2);
    assert!(starts[0].ended_at.is_some_and(|ended| ended <= starts[1].at), "{starts:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_takes_too_long_is_a_timeout_with_the_pods_words() -> Result<()> {
    let site = Site::new(|pod| {
        let script = Script::ending(ScriptEnd::Never);
        if serde_json::to_string(pod).unwrap_or_default().contains("192.0.2.11\"") {
            script.on_sigterm(Duration::from_secs(1), 1, "cut off at 40 %")
        } else {
            // Told to end it ends well, and that is no word of the firmware.

            script.on_sigterm(Duration::from_secs(1), 0, "")
        }
    })
    .await?;
    let boards = site.two_boards().await?;
    let _operator = site.operator()?;
    let brief = json!({
        "uuid": uids(&boards), "retry": { "limit": 0 }, "timeouts": { "deviceSeconds": 2 },
    });
    site.flash_with("late", brief).await?;
    let ended = site.phase("late", Phase::Failed).await?;
    assert_eq!(ended.done.as_deref(), Some("0/2"), "{ended:#?}");
    assert!(ended.failures.iter().all(|f| f.reason == "Timeout" && f.attempts == 1), "{ended:#?}");
    assert_eq!(ended.failures[0].message, "cut off at 40 %");
    assert!(ended.failures[1].message.contains("deviceSeconds"), "{ended:#?}");
    site.cleaned_up().await?;
    assert_eq!(site.flashed().len(), 2);
    Ok(())
}

/// As a mesh or a log shipper injects one. The flash container alone says how it went.
#[tokio::test(flavor = "multi_thread")]
async fn a_sidecar_that_never_ends_holds_nothing_up() -> Result<()> {
    let site = Site::new(|pod| {
        if serde_json::to_string(pod).unwrap_or_default().contains("192.0.2.11\"") {
            Script::success("").sidecars_run_on()
        } else {
            Script::failure(3, "no such partition").sidecars_run_on()
        }
    })
    .await?;
    let boards = site.two_boards().await?;
    let _operator = site.operator_with(&["--unsafe-pod-templates"], None)?;
    let sidecar = json!({ "name": "proxy", "image": "registry.example/proxy:1" });
    let meshed = json!({
        "uuid": uids(&boards), "retry": { "limit": 0 },
        "podTemplate": { "spec": { "containers": [sidecar] } },
    });
    site.flash_with("meshed", meshed).await?;
    let ended = site.phase("meshed", Phase::Failed).await?;
    assert_eq!(ended.completed_uuids, [boards[0].uid().unwrap()]);
    let failure = &ended.failures[0];
    assert_eq!((failure.uuid.as_str(), failure.attempts), (boards[1].uid().unwrap().as_str(), 1));
    assert_eq!(failure.message, "no such partition");
    // Nobody but the operator ends them.
    site.cleaned_up().await?;
    assert_eq!(pod_writes(&site, "delete")?.len(), 2);
    assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.12"], "each board once");
    Ok(())
}

/// The sidecar ran into the Pod's deadline while nobody looked: the flash had ended well before.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_only_a_sidecar_met_does_not_undo_a_success() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(Duration::from_secs(1)).sidecars_run_on());
    let site = site.await?;
    let boards = site.boards(1).await?;
    let flags = ["--unsafe-pod-templates", "--leader-elect=false"];
    let first = site.operator_with(&flags, None)?;
    let sidecar = json!({ "name": "proxy", "image": "registry.example/proxy:1" });
    let meshed = json!({
        "uuid": uids(&boards), "timeouts": { "deviceSeconds": 5 },
        "podTemplate": { "spec": { "containers": [sidecar] } },
    });
    site.flash_with("meshed", meshed).await?;
    timeout(PATIENCE, site.kubelet.started(1)).await?;
    drop(first);
    failed_pod(&site).await?;
    let _second = site.operator_with(&flags, None)?;
    site.phase("meshed", Phase::Completed).await?;
    site.cleaned_up().await?;
    assert_eq!(site.flashed().len(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_no_node_takes_is_told_and_given_up_with_the_schedulers_words() -> Result<()> {
    let site = Site::new(|_| Script::ending(ScriptEnd::Unschedulable)).await?;
    let boards = site.boards(1).await?;
    let _operator = site.operator()?;
    let brief = json!({
        "uuid": uids(&boards), "timeouts": { "deviceSeconds": 4 },
        "retry": { "limit": 1, "backoffSeconds": 1 },
    });
    site.flash_with("too-big", brief).await?;
    let words = "0/1 nodes are available: 1 Insufficient cpu.";
    let told = site.status("too-big", "the scheduler's words", |s| {
        let device = s.in_flight.first();
        device.is_some_and(|d| {
            d.state == DeviceState::Starting && d.message.as_deref() == Some(words)
        })
    });
    assert_eq!(told.await?.counts.map(|c| c.flashing), Some(1));
    let failed = site.phase("too-big", Phase::Failed).await?;
    let failure = &failed.failures[0];
    assert_eq!((failure.reason.as_str(), failure.attempts), ("NotStarted", 2));
    assert_eq!(failure.message, words);
    assert!(failed.message.is_some_and(|m| m.contains(words)));
    site.cleaned_up().await?;
    let (made, ended) = (pod_writes(&site, "create")?, pod_writes(&site, "delete")?);
    assert_eq!((made.len(), ended.len()), (2, 2));
    assert!(ended[0] < made[1], "the second came when the first was gone");
    let waited = made[1].duration_since(made[0]);
    assert!(waited.as_secs() >= 4, "the second Pod came after {waited:?}");
    assert_eq!(site.flashed().len(), 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_fails_once_and_then_works_is_a_success() -> Result<()> {
    let site = Site::new(|pod| match attempt(pod) {
        "1" => Script::failure(1, r#"{"reason":"NotBack","message":"it did not come back"}"#),
        _ => Script::default(),
    })
    .await?;
    let boards = site.boards(1).await?;
    let _operator = site.operator()?;
    let retry = json!({ "uuid": uids(&boards), "retry": { "backoffSeconds": 3 } });
    site.flash_with("second-time", retry).await?;
    let between = site.status("second-time", "the back-off", |s| {
        s.in_flight.first().is_some_and(|d| d.state == DeviceState::BackOff)
    });
    let device = between.await?.in_flight.remove(0);
    let words = device.message.unwrap_or_default();
    assert!(words.contains("it did not come back"), "{words}");
    let done = site.phase("second-time", Phase::Completed).await?;
    assert_eq!((done.done.as_deref(), done.failures.len()), (Some("1/1"), 0));
    let starts = site.kubelet.starts();
    assert_eq!(starts.iter().map(Flash::attempt).collect::<Vec<_>>(), ["1", "2"]);
    Ok(())
}
