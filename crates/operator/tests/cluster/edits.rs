//! Edits of a job under way and of one that has ended: devices come and go, and an edit is never lost.

use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::instance::Instance;
use flashjob_api::flashjob::{DeviceState, Phase};
use flashjob_sim::cluster::{Call, CallFate, Gate};
use flashjob_sim::flashjob::Flash;
use flashjob_sim::flashjob::{Site, uids};
use flashjob_sim::node::Script;
use flashjob_sim::{PATIENCE, eventually};
use kube::ResourceExt;
use serde_json::{Value, json};
use tokio::time::timeout;

/// Long enough to edit the job while a board is flashed.
const A_WHILE: Duration = Duration::from_secs(3);

/// The boards whose flash container was started, in that order.
fn in_order(site: &Site) -> Vec<String> {
    site.kubelet.starts().iter().map(|start| start.endpoint().to_owned()).collect()
}

/// A job that flashes one board at a time, and is at work on the first.
async fn one_at_a_time(site: &Site, name: &str, boards: &[Instance]) -> Result<()> {
    let spec = json!({ "uuid": uids(boards), "rollout": { "maxParallel": 1 } });
    site.flash_with(name, spec).await?;
    timeout(PATIENCE, site.kubelet.started(1)).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_added_to_a_running_job_is_flashed_last() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(Duration::from_secs(1))).await?;
    let boards = site.boards(3).await?;
    let _operator = site.operator()?;
    one_at_a_time(&site, "growing", &boards[..2]).await?;
    let uids = uids(&boards);
    // Written first: its place is the last all the same.
    site.edit("growing", json!({ "uuid": [uids[2], uids[0], uids[1]] })).await?;
    let done = site.status("growing", "all three to be flashed", |s| {
        s.phase == Some(Phase::Completed) && s.done.as_deref() == Some("3/3")
    });
    assert_eq!(done.await?.observed_generation, Some(2));
    assert_eq!(in_order(&site), ["192.0.2.11", "192.0.2.12", "192.0.2.13"]);
    Ok(())
}

/// In batches, so that the new one needs a batch of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_device_added_to_a_completed_job_opens_it_again_and_is_flashed_alone() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.boards(3).await?;
    let _operator = site.operator()?;
    let batches = json!({ "uuid": uids(&boards[..2]), "rollout": { "batchSize": 2 } });
    site.flash_with("again", batches).await?;
    let first = site.phase("again", Phase::Completed).await?;
    site.kubelet.hold();
    site.edit("again", json!({ "uuid": uids(&boards) })).await?;
    let open = site.phase("again", Phase::InProgress).await?;
    assert_eq!((open.done.as_deref(), open.completion_time), (Some("2/3"), None));
    site.kubelet.release();
    let done = site.phase("again", Phase::Completed).await?;
    assert_eq!(done.done.as_deref(), Some("3/3"));
    assert_eq!(done.completed_uuids, uids(&boards));
    assert_eq!(done.start_time, first.start_time);
    assert!(done.completion_time.map(|t| t.0) > first.completion_time.map(|t| t.0));
    site.cleaned_up().await?;
    assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.12", "192.0.2.13"], "each once");
    Ok(())
}

/// Also the one that comes next, which has its address and its permit already.
#[tokio::test(flavor = "multi_thread")]
async fn a_device_taken_out_before_it_started_is_dropped() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.boards(4).await?;
    let _operator = site.operator()?;
    // The first has its Pod, and its container does not start: nobody else may.
    site.kubelet.hold();
    let (uids, next) = (uids(&boards), boards[1].uid().unwrap());
    site.flash_with("shrinking", json!({ "uuid": uids, "rollout": { "maxParallel": 1 } })).await?;
    let ready = site.status("shrinking", "the next one to be ready", |s| {
        s.in_flight.iter().any(|d| d.uuid == next && d.external_ip.is_some() && d.attempt == 1)
    });
    ready.await?;
    site.edit("shrinking", json!({ "uuid": [uids[0], uids[2]] })).await?;
    let edited = site.status("shrinking", "the edit to be seen", |s| {
        s.observed_generation == Some(2) && s.counts.is_some_and(|c| c.total == 2)
    });
    edited.await?;
    site.kubelet.release();
    let done = site.phase("shrinking", Phase::Completed).await?;
    assert_eq!(done.done.as_deref(), Some("2/2"));
    assert_eq!(done.completed_uuids, [uids[0].as_str(), uids[2].as_str()]);
    site.cleaned_up().await?;
    assert_eq!(in_order(&site), ["192.0.2.11", "192.0.2.13"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_taken_out_while_it_is_flashed_finishes_and_stays_on_record() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(A_WHILE)).await?;
    let boards = site.boards(2).await?;
    let _operator = site.operator()?;
    one_at_a_time(&site, "leaving", &boards).await?;
    site.edit("leaving", json!({ "uuid": uids(&boards[1..]) })).await?;
    let done = site.phase("leaving", Phase::Completed).await?;
    assert_eq!((done.done.as_deref(), done.completed_uuids), (Some("2/2"), uids(&boards)));
    assert_eq!(in_order(&site), ["192.0.2.11", "192.0.2.12"]);
    let starts = site.kubelet.starts();
    let ran = starts[0].ended_at.unwrap().duration_since(starts[0].at);
    assert!(ran.as_secs_f64() >= A_WHILE.as_secs_f64(), "it was cut off after {ran:?}");
    Ok(())
}

/// A board that was half flashed must not vanish from the record because somebody took it out of the list.
#[tokio::test(flavor = "multi_thread")]
async fn a_device_taken_out_whose_flash_fails_stays_on_record_as_failed() -> Result<()> {
    let site = Site::new(|pod| {
        if serde_json::to_string(pod).unwrap_or_default().contains("192.0.2.13\"") {
            Script::default()
        } else {
            Script::failure(1, "no such partition").run_for(A_WHILE)
        }
    })
    .await?;
    let boards = site.boards(3).await?;
    let _operator = site.operator()?;
    let uids = uids(&boards);
    let patient = json!({ "uuid": uids, "retry": { "limit": 5, "backoffSeconds": 60 } });
    site.flash_with("leaving", patient).await?;
    timeout(PATIENCE, site.kubelet.started(3)).await?;
    // One while it is flashed, the other while it waits for its next attempt.
    site.edit("leaving", json!({ "uuid": uids[1..] })).await?;
    let waits = site.status("leaving", "the other to wait for its next attempt", |s| {
        s.in_flight.iter().any(|d| d.uuid == uids[1] && d.state == DeviceState::BackOff)
    });
    waits.await?;
    site.edit("leaving", json!({ "uuid": uids[2..] })).await?;
    let ended = site.phase("leaving", Phase::Failed).await?;
    assert_eq!(ended.done.as_deref(), Some("1/3"), "{ended:#?}");
    let failed: Vec<&str> = ended.failures.iter().map(|f| f.uuid.as_str()).collect();
    assert_eq!(failed, [uids[0].as_str(), uids[1].as_str()]);
    let told =
        |f: &flashjob_api::flashjob::Failure| f.attempts == 1 && f.message == "no such partition";
    assert!(ended.failures.iter().all(told), "{ended:#?}");
    site.cleaned_up().await?;
    assert_eq!(site.flashed().len(), 3, "no second attempt");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_added_when_the_jobs_time_is_over_is_not_lost() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.two_boards().await?;
    let edit = json!({ "uuid": uids(&boards) });
    edited_when_its_time_is_over(&site, &boards[..1], edit).await?;
    assert_eq!(in_order(&site), ["192.0.2.11", "192.0.2.12"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_firmware_set_when_the_jobs_time_is_over_is_not_lost() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.boards(1).await?;
    let edit = json!({ "firmware": "registry.example/esp32:0.3.0", "version": "0.3.0" });
    edited_when_its_time_is_over(&site, &boards, edit).await?;
    let versions: Vec<String> =
        site.kubelet.starts().into_iter().map(|s| s.env["VERSION"].clone()).collect();
    assert_eq!(versions, ["0.2.0", "0.3.0"]);
    Ok(())
}

/// The delete of an expired job is on its way when somebody edits the job: the server refuses the delete, and the job
/// goes on. When its time is over once more, it goes.
async fn edited_when_its_time_is_over(site: &Site, boards: &[Instance], edit: Value) -> Result<()> {
    let of_the_job = |call: &Call| call.method == "DELETE" && call.resource() == "flashjobs";
    let gate = Gate::start(&site.cluster, {
        let held = std::sync::atomic::AtomicBool::new(false);
        let first = move || !held.swap(true, std::sync::atomic::Ordering::AcqRel);
        move |call| if of_the_job(call) && first() { CallFate::Hold } else { CallFate::Pass }
    })
    .await?;
    let operator = site.operator_with(&["--leader-elect=false"], Some(&gate))?;
    let brief = json!({ "uuid": uids(boards), "ttlSecondsAfterFinished": 1 });
    let job = site.flash_with("brief", brief).await?;
    let delete = timeout(PATIENCE, gate.held()).await?.json().unwrap_or_default();
    assert_eq!(delete["preconditions"]["uid"], json!(job.uid()));
    let version = delete["preconditions"]["resourceVersion"].as_str().unwrap_or_default();
    assert_ne!(version, "", "{delete}");

    site.edit("brief", edit).await?;
    gate.release();
    gate.settled().await;
    let refused = gate.answers().into_iter().find(|(call, _)| of_the_job(call));
    assert_eq!(refused.map(|(_, code)| code), Some(409), "{}", operator.log());
    timeout(PATIENCE, site.kubelet.started(2)).await?;
    let jobs = site.jobs();
    eventually("the job to be gone", PATIENCE, async || {
        Ok(jobs.get_opt("brief").await?.is_none().then_some(()))
    })
    .await?;
    assert_eq!(site.kubelet.starts().len(), 2);
    Ok(())
}
