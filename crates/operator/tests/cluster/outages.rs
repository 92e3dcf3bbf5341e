//! An API server that does not answer for a while, one that answers slowly, and one that forgets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_api::flashjob::Phase;
use flashjob_sim::cluster::{CallFate, Cluster, Gate};
use flashjob_sim::flashjob::{Site, uids};
use flashjob_sim::node::Script;
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

/// The addresses of the first so many boards.
fn addresses(count: usize) -> Vec<String> {
    (11..).take(count).map(|n| format!("192.0.2.{n}")).collect()
}

/// One operator holds a lease, which may run out meanwhile; the other has to bear it.
#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_is_gone_for_ten_seconds_costs_no_flash_and_no_second_one() -> Result<()>
{
    let cluster = Cluster::installed().await?;
    let mut parties = Vec::new();
    for (namespace, flags) in [("lease", vec![]), ("none", vec!["--leader-elect=false"])] {
        let script = |_: &Pod| Script::success("").run_for(Duration::from_secs(1));
        let site = Site::on(&cluster).namespace(namespace).start(script).await?;
        let boards = site.boards(10).await?;
        let operator = site.operator_with(&flags, None)?;
        let brief = json!({ "uuid": uids(&boards), "rollout": { "maxParallel": 3 } });
        site.flash_with("flashjob", brief).await?;
        parties.push((site, operator, flags));
    }
    for (site, ..) in &parties {
        site.kubelet.started(3).await;
    }
    cluster.pause_api_server().await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    cluster.resume_api_server().await?;
    for (site, operator, flags) in &mut parties {
        let done = eventually("the job to be Completed", PATIENCE, async || {
            // Without its lease it ends. Its Deployment starts it again.
            if operator.has_ended() {
                *operator = site.operator_with(flags, None)?;
            }
            let status = site.status_now("flashjob").await?;
            Ok((status.phase == Some(Phase::Completed)).then_some(status))
        });
        let done = done.await.with_context(|| format!("the operator said:\n{}", operator.log()))?;
        assert_eq!((done.done.as_deref(), done.failures.len()), (Some("10/10"), 0));
        site.cleaned_up().await?;
        assert_eq!(site.flashed(), addresses(10), "{}", operator.log());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_takes_a_second_for_every_answer_is_slow_and_nothing_else() -> Result<()>
{
    let site = Site::new(|_| Script::success("").run_for(Duration::from_secs(1))).await?;
    let slowly = |_: &_| CallFate::Delay(Duration::from_secs(1));
    let gate = Gate::start(&site.cluster, slowly).await?;
    gate.judge_reads(slowly);
    let boards = site.boards(4).await?;
    let operator = site.operator_with(&[], Some(&gate))?;
    let brief = json!({ "uuid": uids(&boards), "rollout": { "maxParallel": 2 } });
    site.flash_with("flashjob", brief).await?;
    let done = site.phase("flashjob", Phase::Completed).await;
    let done = done.with_context(|| format!("the operator said:\n{}", operator.log()))?;
    assert_eq!((done.done.as_deref(), done.failures.len()), (Some("4/4"), 0));
    site.cleaned_up().await?;
    assert_eq!(site.flashed(), addresses(4), "{}", operator.log());
    Ok(())
}

/// The server has forgotten where the watch was, and says so to the watch itself. Only a list helps.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_whose_past_is_forgotten_lists_anew() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let gate = Gate::start(&site.cluster, |_| CallFate::Pass).await?;
    let boards = site.two_boards().await?;
    let operator = site.operator_with(&["--leader-elect=false"], Some(&gate))?;
    operator.has_listed("flashjobs", PATIENCE).await?;
    let listed = AtomicBool::new(false);
    let gone = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410,
    });
    gate.judge_reads(move |call| {
        let jobs = call.resource() == "flashjobs";
        listed.fetch_or(jobs && call.is_list(), Ordering::AcqRel);
        if jobs && call.is_watch() && !listed.load(Ordering::Acquire) {
            CallFate::Answer(410, gone.to_string())
        } else {
            CallFate::Pass
        }
    });
    gate.cut();
    operator.says("the watch failed").await?;
    gate.mend();
    site.flash("flashjob", &boards).await?;
    site.phase("flashjob", Phase::Completed).await?;
    Ok(())
}
