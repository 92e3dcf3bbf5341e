//! An API server that does not answer for a while, and one that answers slowly.

use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_api::Phase;
use flashjob_sim::{Akri, Cluster, Gate, Script, Verdict, eventually};
use serde_json::json;

use crate::site::{INSTALL, PATIENCE, Site, uids};

/// The addresses of the first so many boards.
fn addresses(count: usize) -> Vec<String> {
    (11..).take(count).map(|n| format!("192.0.2.{n}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_is_gone_for_ten_seconds_costs_no_flash_and_no_second_one() -> Result<()>
{
    let cluster = Cluster::start().await?;
    cluster.apply_yaml(INSTALL).await?;
    Akri::install_crd(&cluster).await?;
    cluster.make_namespace("site").await?;
    let site = Site::at(&cluster, "site", |_| Script::success("").run_for(Duration::from_secs(2)))?;
    let boards = site.boards(10).await?;
    let mut operator = site.operator().await?;
    let brief = json!({ "uuid": uids(&boards), "rollout": { "maxParallel": 3 } });
    site.flash_with("flashjob", brief).await?;
    site.kubelet.started(4).await;
    cluster.pause_api_server().await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    cluster.resume_api_server().await?;
    let jobs = site.jobs();
    let done = eventually("the job to be Completed", PATIENCE, async || {
        // Its lease may have run out meanwhile, and then it ends. Its Deployment starts it again.
        if operator.has_ended() {
            operator = site.operator().await?;
        }
        let status = jobs.get("flashjob").await?.status.unwrap_or_default();
        Ok((status.phase == Some(Phase::Completed)).then_some(status))
    });
    let done = done.await?;
    assert_eq!((done.done.as_deref(), done.failures.len()), (Some("10/10"), 0));
    site.cleaned_up().await?;
    assert_eq!(site.flashed(), addresses(10), "{}", operator.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_takes_a_second_for_every_answer_is_slow_and_nothing_else() -> Result<()>
{
    let site = Site::new(|_| Script::success("").run_for(Duration::from_secs(1))).await?;
    let slowly = |_: &_| Verdict::Delay(Duration::from_secs(1));
    let gate = Gate::start(&site.cluster, slowly).await?;
    gate.judge_reads(slowly);
    let boards = site.boards(4).await?;
    let operator = site.operator_with(&[], Some(&gate)).await?;
    let brief = json!({ "uuid": uids(&boards), "rollout": { "maxParallel": 2 } });
    site.flash_with("flashjob", brief).await?;
    let done = site.phase("flashjob", Phase::Completed).await;
    let done = done.with_context(|| format!("the operator said:\n{}", operator.log()))?;
    assert_eq!((done.done.as_deref(), done.failures.len()), (Some("4/4"), 0));
    site.cleaned_up().await?;
    assert_eq!(site.flashed(), addresses(4), "{}", operator.log());
    Ok(())
}
