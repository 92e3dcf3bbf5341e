//! What goes wrong in one namespace does not hold up another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::Phase;
use flashjob_api::flashjob::instance::Instance;
use flashjob_sim::cluster::{Call, CallFate, Cluster, Gate};
use flashjob_sim::flashjob::Site;
use flashjob_sim::node::Script;
use flashjob_sim::{Operator, PATIENCE, eventually};
use serde_json::json;
use tokio::time::Instant;

use crate::refusals::allow_none;

/// More than there are slots for writes, several times over.
const CROWD: usize = 300;

/// How long a job for these boards takes.
async fn time_of(site: &Site, name: &str, boards: &[Instance]) -> Result<Duration> {
    let began = Instant::now();
    site.flash(name, boards).await?;
    let done = site.phase(name, Phase::Completed).await?;
    assert_eq!(done.done.as_deref(), Some("10/10"));
    Ok(began.elapsed())
}

/// Each of the crowd is refused its ledger, tries again after a while, and is refused again.
#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_jobs_whose_ledgers_are_refused_keep_no_job_of_another_namespace_waiting()
-> Result<()> {
    let cluster = Cluster::installed().await?;
    let crowd = Site::on(&cluster).namespace("crowd").start(|_| Script::default()).await?;
    let calm = Site::on(&cluster).namespace("calm").start(|_| Script::default()).await?;
    let boards = calm.boards(20).await?;
    allow_none(&crowd, "configmaps").await?;
    let _operator = Operator::start(&cluster, &["--leader-elect=false"]).await?;
    let alone = time_of(&calm, "alone", &boards[..10]).await?;

    for n in 0..CROWD {
        let nowhere = json!({ "uuid": [format!("nowhere-{n}")] });
        crowd.flash_with(&format!("job-{n}"), nowhere).await?;
    }
    // As many as there are slots have to wait before they try again; each time longer.
    eventually("the crowd to be refused", PATIENCE, async || {
        Ok((crowd.operators.refusals("crowd", "configmaps")? > 64).then_some(()))
    })
    .await?;

    let beside = time_of(&calm, "beside", &boards[10..]).await?;
    println!("10 boards: {alone:?} alone, {beside:?} beside {CROWD} jobs that are refused");
    // Twice, and room for a machine that has the API server and other tests on it.
    assert!(beside < alone * 4 + Duration::from_secs(5), "{beside:?}, and {alone:?} alone");
    Ok(())
}

/// Nobody knows whether a Pod was made, and for as long as it cannot be read nobody will. There is one slot for calls.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_fails_again_and_again_holds_up_no_other_job() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.two_boards().await?;
    let mended = Arc::new(AtomicBool::new(false));
    let broken = |call: &Call, mended: &AtomicBool| {
        let stuck = call.name().is_some_and(|name| name.starts_with("stuck-"));
        call.resource() == "pods" && stuck && !mended.load(Ordering::Acquire)
    };
    let fixed = mended.clone();
    let lose = move |call: &Call| {
        if call.method == "POST" && broken(call, &fixed) { CallFate::Drop } else { CallFate::Pass }
    };
    let gate = Gate::start(&site.cluster, lose).await?;
    let (fixed, failure) = (mended.clone(), json!({ "kind": "Status", "code": 500 }).to_string());
    gate.judge_reads(move |call| {
        if broken(call, &fixed) { CallFate::Answer(500, failure.clone()) } else { CallFate::Pass }
    });
    let operator = site.operator_with(&["--max-writes=1"], Some(&gate))?;
    site.flash("stuck", &boards[..1]).await?;
    operator.says("a live read failed and is tried again").await?;
    site.flash("other", &boards[1..]).await?;
    site.phase("other", Phase::Completed).await?;
    assert_eq!(site.flashed(), ["192.0.2.12"]);
    mended.store(true, Ordering::Release);
    site.phase("stuck", Phase::Completed).await?;
    assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.12"]);
    Ok(())
}
