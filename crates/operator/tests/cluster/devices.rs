//! Devices: how they are found, missed, and shared between jobs.

use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::Phase;
use flashjob_sim::cluster::Cluster;
use flashjob_sim::flashjob::{Site, uids};
use flashjob_sim::node::{AddressPool, Script};
use flashjob_sim::{Operator, PATIENCE, eventually};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_device_delays_no_other_and_is_given_up_in_the_end() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let board = site.board("192.0.2.11").await?;
    let _operator = site.operator()?;
    let uuid = json!([board.uid(), "not-there", "comes-later"]);
    site.flash_with("mixed", json!({ "uuid": uuid, "timeouts": { "offlineSeconds": 6 } })).await?;
    let one = site.status("mixed", "the first to be flashed", |s| s.done.as_deref() == Some("1/3"));
    assert_eq!(one.await?.counts.map(|c| c.offline), Some(2));
    site.akri.discover_named("comes-later", "192.0.2.12", "esp32", "thermo", "0.1.0").await?;
    let ended = site.phase("mixed", Phase::Failed).await?;
    assert_eq!(ended.done.as_deref(), Some("2/3"));
    let failure = &ended.failures[0];
    assert_eq!((failure.uuid.as_str(), failure.reason.as_str()), ("not-there", "DeviceNotFound"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_found_again_under_a_new_uid_is_flashed_once() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(Duration::from_secs(3))).await?;
    let board = site.board("192.0.2.11").await?;
    let _operator = site.operator()?;
    site.flash("reborn", std::slice::from_ref(&board)).await?;
    site.kubelet.started(1).await;
    site.akri.lose(&board).await?;
    let again = site.board("192.0.2.11").await?;
    assert_ne!(again.uid(), board.uid());
    site.phase("reborn", Phase::Completed).await?;
    assert_eq!(site.flashed(), ["192.0.2.11"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_jobs_never_flash_one_board_at_the_same_time() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(Duration::from_secs(2))).await?;
    let board = site.board("192.0.2.11").await?;
    let _operator = site.operator()?;
    site.flash("first", std::slice::from_ref(&board)).await?;
    site.kubelet.started(1).await;
    let by_path = format!("{}/{}", site.namespace, board.name_any());
    site.flash_with("second", json!({ "uuid": [by_path] })).await?;
    let waiting = site.status("second", "it to wait", |s| s.counts.is_some_and(|c| c.blocked == 1));
    let words = waiting.await?.in_flight[0].message.clone().unwrap_or_default();
    assert!(words.contains("first"), "{words}");
    for job in ["first", "second"] {
        site.phase(job, Phase::Completed).await?;
    }
    let starts = site.kubelet.starts();
    assert_eq!(starts.len(), 2);
    assert!(starts[0].ended_at.is_some_and(|ended| ended <= starts[1].at), "{starts:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_are_chosen_by_what_they_are_and_the_wrong_board_is_refused() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    site.akri.discover("192.0.2.11", "esp32", "thermo", "0.1.0").await?;
    site.akri.discover("192.0.2.12", "ESP-32", "thermo", "0.3.0").await?;
    let other = site.akri.discover("192.0.2.13", "esp32s3", "thermo", "0.1.0").await?;
    let _operator = site.operator_with(&["--device-namespaces=own"], None)?;
    let selector = json!({ "deviceSelector": { "device": "esp32", "version": "<0.2.0" } });
    site.flash_with("chosen", selector).await?;
    let done = site.phase("chosen", Phase::Completed).await?;
    assert_eq!(done.done.as_deref(), Some("1/1"));
    site.flash("wrong", &[other]).await?;
    let refused = site.phase("wrong", Phase::Failed).await?;
    assert_eq!(refused.failures[0].reason, "WrongDevice");
    assert_eq!(site.flashed(), ["192.0.2.11"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_is_enough_for_many_and_a_hostname_will_do() -> Result<()> {
    let site = Site::on(Cluster::shared_installed().await?).pool(AddressPool::of(1));
    let script = |_: &Pod| Script::success("").run_for(Duration::from_millis(1500));
    let mut site = site.start(script).await?;
    let boards = site.boards(6).await?;
    let _operator = site.operator()?;
    let uids = uids(&boards);
    // In sum the flashes take longer than one may wait: a queue that moves does not time out.
    site.flash_with("queue", json!({ "uuid": uids, "timeouts": { "addressSeconds": 6 } })).await?;
    site.phase("queue", Phase::Completed).await?;
    assert_eq!(site.balancer.peak(), 1);

    let named = AddressPool::Hostname("lb.example".into());
    site.balancer = site.load_balancer(Some(&site.namespace), named)?;
    site.flash("named", &boards[..1]).await?;
    site.phase("named", Phase::Completed).await?;
    let last = site.kubelet.starts().pop().expect("a start");
    assert_eq!(last.env["EXTERNAL_IP"], "lb.example");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_never_comes_delays_no_other() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.boards(2).await?;
    site.balancer.withhold(None);
    let _operator = site.operator()?;
    let uids = uids(&boards);
    let brief = json!({ "uuid": uids, "timeouts": { "addressSeconds": 3 } });
    site.flash_with("stranded", brief).await?;
    let failed = site.phase("stranded", Phase::Failed).await?;
    assert!(failed.failures.iter().all(|f| f.reason == "AddressTimeout"), "{failed:#?}");
    site.cleaned_up().await?;
    site.balancer.resume();
    site.flash("later", &boards).await?;
    site.phase("later", Phase::Completed).await?;
    Ok(())
}

/// Two jobs in two namespaces, one by uid and one by path: the older is held, the newer goes first, and what it did is
/// not undone.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_job_does_not_undo_what_a_newer_one_did_in_another_namespace() -> Result<()> {
    let cluster = Cluster::installed().await?;
    let mut sites = Vec::new();
    for namespace in ["east", "west"] {
        sites.push(Site::on(&cluster).namespace(namespace).start(|_| Script::default()).await?);
    }
    let (east, west) = (&sites[0], &sites[1]);
    let board = east.board("192.0.2.11").await?;
    let _operator = Operator::start(&cluster, &[]).await?;
    east.flash_with("older", json!({ "uuid": [board.uid()], "suspend": true })).await?;
    east.phase("older", Phase::Suspended).await?;
    // Creation times have whole seconds.
    let created = east.jobs().get("older").await?.metadata.creation_timestamp;
    eventually("the next second", PATIENCE, async || {
        west.flash("probe", &[]).await.ok();
        let probe = west.jobs().get("probe").await?.metadata.creation_timestamp;
        west.jobs().delete("probe", &DeleteParams::default()).await?;
        Ok((probe.map(|t| t.0) > created.as_ref().map(|t| t.0)).then_some(()))
    })
    .await?;
    let path = format!("east/{}", board.name_any());
    west.flash_with("newer", json!({ "uuid": [path], "version": "0.3.0" })).await?;
    west.phase("newer", Phase::Completed).await?;
    east.edit("older", json!({ "suspend": false })).await?;
    let done = east.phase("older", Phase::Failed).await?;
    assert_eq!(done.counts.map(|c| c.skipped), Some(1));
    assert_eq!((east.flashed().len(), west.flashed().len()), (0, 1), "no downgrade");
    Ok(())
}
