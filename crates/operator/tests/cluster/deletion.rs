//! Deleting a job removes everything it made.

use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::Phase;
use flashjob_sim::eventually;
use flashjob_sim::node::Script;
use kube::api::DeleteParams;

use crate::site::{PATIENCE, Site};

impl Site {
    pub async fn job_is_gone(&self, name: &str) -> Result<()> {
        let jobs = self.jobs();
        let what = format!("{name} to be gone");
        eventually(&what, PATIENCE, async || Ok(jobs.get_opt(name).await?.is_none().then_some(())))
            .await
    }

    /// The ledger goes by ownership: the real garbage collector has to see it so.
    async fn ledger_is_collected(&self) -> Result<()> {
        let Some(_collector) = self.cluster.controller_manager(&["garbagecollector"]).await? else {
            println!(
                "the assets have no kube-controller-manager: the ledger's end was not checked"
            );
            return Ok(());
        };
        eventually("the ledger to be collected", PATIENCE, async || {
            Ok(self.ledgers().await?.is_empty().then_some(()))
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_deleted_while_it_flashes_ends_its_pods_and_leaves_nothing() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(Duration::from_secs(600))).await?;
    let boards = site.two_boards().await?;
    let _operator = site.operator().await?;
    site.flash("flashjob", &boards).await?;
    site.kubelet.started(2).await;
    assert_eq!(site.ledgers().await?.len(), 1);

    site.jobs().delete("flashjob", &DeleteParams::default()).await?;
    site.job_is_gone("flashjob").await?;
    site.cleaned_up().await?;
    site.ledger_is_collected().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_deleted_while_the_operator_was_down_goes_when_it_is_back() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(Duration::from_secs(600))).await?;
    let boards = site.two_boards().await?;
    let first = site.operator_with(&["--leader-elect=false"], None).await?;
    site.flash("flashjob", &boards).await?;
    site.kubelet.started(2).await;
    drop(first);

    site.jobs().delete("flashjob", &DeleteParams::default()).await?;
    let job = site.jobs().get("flashjob").await?;
    assert!(job.metadata.deletion_timestamp.is_some(), "the finalizer keeps it");

    let _second = site.operator_with(&["--leader-elect=false"], None).await?;
    site.job_is_gone("flashjob").await?;
    site.cleaned_up().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_job_is_deleted_and_its_name_can_be_used_again() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.two_boards().await?;
    let _operator = site.operator().await?;
    for round in 1..=2 {
        site.flash("flashjob", &boards).await?;
        site.phase("flashjob", Phase::Completed).await?;
        assert_eq!(site.flashed().len(), 2 * round, "a new job flashes anew");
        site.jobs().delete("flashjob", &DeleteParams::default()).await?;
        site.job_is_gone("flashjob").await?;
    }
    Ok(())
}
