//! One board, several names for it: Instances that are the same device, and jobs that want it at the same time.

use anyhow::Result;
use flashjob_api::flashjob::Phase;
use flashjob_api::flashjob::instance::Instance;
use flashjob_sim::Operator;
use flashjob_sim::cluster::Cluster;
use flashjob_sim::flashjob::{Site, uids};
use flashjob_sim::node::{Script, Started};
use kube::ResourceExt;
use serde_json::json;

/// One board that two Configurations have found.
async fn found_twice(site: &Site) -> Result<[Instance; 2]> {
    let other = site.akri.discover_named("mdns-disc-1", "192.0.2.11", "esp32", "thermo", "0.1.0");
    Ok([site.board("192.0.2.11").await?, other.await?])
}

/// Waits until a job waits for another one, and says what it is told.
async fn blocked(site: &Site, name: &str) -> Result<String> {
    let what = format!("{name} to wait");
    let blocked = site.status(name, &what, |s| s.counts.is_some_and(|c| c.blocked == 1)).await?;
    Ok(blocked.in_flight[0].message.clone().unwrap_or_default())
}

async fn ledger_says(site: &Site, words: &str) -> Result<bool> {
    Ok(serde_json::to_string(&site.ledgers().await?)?.contains(words))
}

/// Fails if any two of these were at work at the same time.
fn one_after_the_other(mut starts: Vec<Started>) {
    starts.sort_by_key(|start| start.at);
    for pair in starts.windows(2) {
        assert!(pair[0].ended_at.is_some_and(|ended| ended <= pair[1].at), "{pair:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_instances_with_one_address_are_one_device_of_a_job() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let duplicates = found_twice(&site).await?;
    let _operator = site.operator()?;
    site.flash("both", &duplicates).await?;
    let done = site.phase("both", Phase::Completed).await?;
    let counts = done.counts.unwrap_or_default();
    assert_eq!((counts.total, counts.succeeded, counts.skipped), (2, 1, 1));
    assert_eq!(done.completed_uuids, uids(&duplicates));
    assert!(ledger_says(&site, "the same device as").await?);
    site.cleaned_up().await?;
    assert_eq!(site.flashed(), ["192.0.2.11"]);
    Ok(())
}

/// The second is found while the first is flashed.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_instance_of_a_device_that_comes_later_is_not_flashed() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let board = site.board("192.0.2.11").await?;
    let _operator = site.operator()?;
    site.kubelet.hold();
    let later = format!("{}/mdns-disc-1", site.namespace);
    site.flash_with("both", json!({ "uuid": [board.uid(), Some(later)] })).await?;
    let offline = site.status("both", "one at work and one missed", |s| {
        s.counts.is_some_and(|c| (c.flashing, c.offline) == (1, 1))
    });
    offline.await?;
    found_twice(&site).await?;
    let left_out = site
        .status("both", "the second to be left out", |s| s.counts.is_some_and(|c| c.skipped == 1));
    assert_eq!(left_out.await?.completed_uuids, [] as [String; 0], "nothing is flashed yet");
    site.kubelet.release();
    site.phase("both", Phase::Completed).await?;
    assert_eq!(site.flashed(), ["192.0.2.11"]);
    Ok(())
}

/// Of two names for one board the first is taken out: the other one stands for it from now on.
#[tokio::test(flavor = "multi_thread")]
async fn a_board_is_flashed_also_when_its_first_name_is_taken_out() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let duplicates = found_twice(&site).await?;
    let _operator = site.operator()?;
    site.flash_with("both", json!({ "uuid": uids(&duplicates), "suspend": true })).await?;
    site.phase("both", Phase::Suspended).await?;
    site.edit("both", json!({ "uuid": uids(&duplicates[1..]), "suspend": false })).await?;
    let done = site.phase("both", Phase::Completed).await?;
    assert_eq!(done.done.as_deref(), Some("1/1"));
    assert_eq!(site.flashed(), ["192.0.2.11"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_jobs_with_two_names_for_one_board_take_turns() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let [one, other] = found_twice(&site).await?;
    let _operator = site.operator()?;
    site.kubelet.hold();
    site.flash("first", &[one]).await?;
    let made = site.status("first", "its Pod", |s| s.counts.is_some_and(|c| c.flashing == 1));
    made.await?;
    site.flash("second", &[other]).await?;
    let words = blocked(&site, "second").await?;
    assert!(words.contains("/first comes first"), "{words}");
    site.kubelet.release();
    for job in ["first", "second"] {
        site.phase(job, Phase::Completed).await?;
    }
    assert_eq!(site.flashed().len(), 2);
    one_after_the_other(site.kubelet.starts());
    Ok(())
}

/// One job by uid, one by name from another namespace, and one by that namespace's own Instance at the same address.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_two_namespaces_take_turns_however_they_name_the_board() -> Result<()> {
    let cluster = Cluster::installed().await?;
    let east = Site::on(&cluster).namespace("east").start(|_| Script::default()).await?;
    let west = Site::on(&cluster).namespace("west").start(|_| Script::default()).await?;
    let board = east.board("192.0.2.11").await?;
    let other =
        west.akri.discover_named("mdns-1", "192.0.2.11", "esp32", "thermo", "0.1.0").await?;
    let _operator = Operator::start(&cluster, &[]).await?;
    east.kubelet.hold();
    east.flash("first", std::slice::from_ref(&board)).await?;
    let made = east.status("first", "its Pod", |s| s.counts.is_some_and(|c| c.flashing == 1));
    made.await?;
    west.flash_with("second", json!({ "uuid": [board.name_any()] })).await?;
    west.flash("third", &[other]).await?;
    for job in ["second", "third"] {
        let words = blocked(&west, job).await?;
        assert!(words.contains("east/first"), "{words}");
    }
    assert_eq!(west.kubelet.starts().len(), 0);
    east.kubelet.release();
    east.phase("first", Phase::Completed).await?;
    for job in ["second", "third"] {
        west.phase(job, Phase::Completed).await?;
    }
    let starts = [east.kubelet.starts(), west.kubelet.starts()].concat();
    assert_eq!(starts.len(), 3);
    one_after_the_other(starts);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_job_is_superseded_by_a_newer_one_and_not_by_its_own_next_firmware() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let board = site.board("192.0.2.11").await?;
    let _operator = site.operator()?;
    // Created in the same second, the name decides which is older.
    site.flash_with("a-older", json!({ "uuid": [board.uid()], "suspend": true })).await?;
    site.phase("a-older", Phase::Suspended).await?;
    let newer = json!({ "uuid": [board.name_any()], "version": "0.3.0" });
    site.flash_with("b-newer", newer).await?;
    site.phase("b-newer", Phase::Completed).await?;
    site.edit("a-older", json!({ "suspend": false })).await?;
    let skipped = site.phase("a-older", Phase::Failed).await?;
    assert!(skipped.completed_uuids.is_empty(), "it does not run this job's firmware");
    assert_eq!(skipped.failures[0].reason, "Superseded");
    assert_eq!(
        (skipped.done.as_deref(), skipped.counts.map(|c| c.skipped)),
        (Some("0/1"), Some(1))
    );
    assert!(ledger_says(&site, "Superseded").await?);
    assert!(ledger_says(&site, &format!("{}/b-newer has flashed", site.namespace)).await?);
    assert_eq!(site.flashed().len(), 1, "no downgrade");

    site.edit("a-older", json!({ "version": "0.4.0" })).await?;
    let done = site.status("a-older", "its own next firmware", |s| {
        s.phase == Some(Phase::Completed) && s.done.as_deref() == Some("1/1")
    });
    done.await?;
    let versions: Vec<String> =
        site.kubelet.starts().into_iter().map(|s| s.env["VERSION"].clone()).collect();
    assert_eq!(versions, ["0.3.0", "0.4.0"]);
    Ok(())
}
