//! Deleting a job removes everything it made.

use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::Phase;
use flashjob_sim::flashjob::Site;
use flashjob_sim::node::Script;
use flashjob_sim::{PATIENCE, eventually};
use kube::api::DeleteParams;

/// The ledger goes by ownership: the real garbage collector has to see it so.
async fn ledger_is_collected(site: &Site) -> Result<()> {
    let Some(_collector) = site.cluster.controller_manager(&["garbagecollector"]).await? else {
        println!("the assets have no kube-controller-manager: the ledger's end was not checked");
        return Ok(());
    };
    eventually("the ledger to be collected", PATIENCE, async || {
        Ok(site.ledgers().await?.is_empty().then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_deleted_while_it_flashes_ends_its_pods_and_leaves_nothing() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(Duration::from_secs(600))).await?;
    let boards = site.two_boards().await?;
    let _operator = site.operator()?;
    site.flash("flashjob", &boards).await?;
    site.kubelet.started(2).await;
    assert_eq!(site.ledgers().await?.len(), 1);

    site.jobs().delete("flashjob", &DeleteParams::default()).await?;
    site.job_is_gone("flashjob").await?;
    site.cleaned_up().await?;
    ledger_is_collected(&site).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_deleted_while_the_operator_was_down_goes_when_it_is_back() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(Duration::from_secs(600))).await?;
    let boards = site.two_boards().await?;
    let first = site.operator_with(&["--leader-elect=false"], None)?;
    site.flash("flashjob", &boards).await?;
    site.kubelet.started(2).await;
    drop(first);

    site.jobs().delete("flashjob", &DeleteParams::default()).await?;
    let job = site.jobs().get("flashjob").await?;
    assert!(job.metadata.deletion_timestamp.is_some(), "the finalizer keeps it");

    let _second = site.operator_with(&["--leader-elect=false"], None)?;
    site.job_is_gone("flashjob").await?;
    site.cleaned_up().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_job_is_deleted_and_its_name_can_be_used_again() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.two_boards().await?;
    let _operator = site.operator()?;
    for round in 1..=2 {
        site.flash("flashjob", &boards).await?;
        site.phase("flashjob", Phase::Completed).await?;
        assert_eq!(site.flashed().len(), 2 * round, "a new job flashes anew");
        site.jobs().delete("flashjob", &DeleteParams::default()).await?;
        site.job_is_gone("flashjob").await?;
    }
    Ok(())
}
