//! Writes and answers that get lost or come late. Two devices, two flashes: no more and no fewer. (`make chaos` kills the
//! operator at every write.)

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_api::flashjob::{FlashJobStatus, Phase};
use flashjob_sim::cluster::{CallFate, Gate};
use flashjob_sim::flashjob::Site;
use flashjob_sim::node::Script;
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::api::core::v1::Pod;

/// One board's container starts late and the other's runs long, so that a crash meets Pods in every state.
fn script(pod: &Pod) -> Script {
    let text = serde_json::to_string(pod).unwrap_or_default();
    if text.contains("192.0.2.11") {
        Script::success("").start_after(Duration::from_millis(400))
    } else {
        Script::success("").run_for(Duration::from_millis(600))
    }
}

/// A third of the writes is lost on the way, and the answers to a third: what has happened is found out by reading. Which
/// ones looks random and is the same each time. (Every third would meet the same write in each round of retries.) After 30
/// it clears up: a write with so much bad luck that its pause has grown to a minute would only take time.
#[tokio::test(flavor = "multi_thread")]
async fn lost_writes_and_lost_answers_are_settled_by_a_live_read() -> Result<()> {
    let site = Site::new(script).await?;
    // A hash: what is tried again every few calls must not meet the same end each time.
    let fate = |number: usize| BuildHasherDefault::<DefaultHasher>::default().hash_one(number) % 3;
    let gate = Gate::start(&site.cluster, move |call| match fate(call.number) {
        _ if call.number > 30 => CallFate::Pass,
        0 => CallFate::PassThenDrop,
        1 => CallFate::Drop,
        _ => CallFate::Pass,
    })
    .await?;
    let boards = site.two_boards().await?;
    let operator = site.operator_with(&["--leader-elect=false"], Some(&gate))?;
    site.flash("flashjob", &boards).await?;
    let done = site.phase("flashjob", Phase::Completed).await;
    let done = done.with_context(|| format!("the operator said:\n{}", operator.log()))?;
    assert_eq!(done.failures, []);
    site.cleaned_up().await?;
    assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.12"], "{}", operator.log());
    Ok(())
}

/// A write of the ledger went through and its answer was lost. Once that is known, nothing says that it failed.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_was_written_after_all_is_no_trouble_any_more() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(Duration::from_secs(3))).await?;
    // All of them up to the Pod: from there to its end there is nothing to be written that could go well.
    let no_pod_yet = AtomicBool::new(true);
    let gate = Gate::start(&site.cluster, move |call| {
        no_pod_yet.fetch_and(call.resource() != "pods", Ordering::AcqRel);
        let ledger = call.method == "PATCH" && call.resource() == "configmaps";
        if ledger && no_pod_yet.load(Ordering::Acquire) {
            CallFate::PassThenDrop
        } else {
            CallFate::Pass
        }
    })
    .await?;
    let board = site.board("192.0.2.11").await?;
    let operator = site.operator_with(&["--leader-elect=false"], Some(&gate))?;
    site.flash("flashjob", &[board]).await?;
    operator.says("reading the ledger again").await?;
    let flashing = |s: &FlashJobStatus| s.counts.as_ref().is_some_and(|c| c.flashing == 1);
    let status = site.status("flashjob", "the board to be flashed", flashing).await?;
    let message = status.message.unwrap_or_default();
    assert!(!message.contains("cannot be written"), "{message}");
    site.phase("flashjob", Phase::Completed).await?;
    Ok(())
}

/// The ledger is written at once and says so late, while Pods and Services are answered as fast as ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_answers_late_lets_no_pod_run_ahead_of_it() -> Result<()> {
    let site = Site::new(script).await?;
    let gate = Gate::start(&site.cluster, |call| match call.resource() {
        "configmaps" => CallFate::PassThenDelay(Duration::from_secs(2)),
        _ => CallFate::Pass,
    })
    .await?;
    let boards = site.two_boards().await?;
    let operator = site.operator_with(&["--leader-elect=false"], Some(&gate))?;
    site.flash("flashjob", &boards).await?;
    site.phase("flashjob", Phase::Completed).await?;
    site.cleaned_up().await?;
    assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.12"], "{}", operator.log());
    Ok(())
}

/// The network is gone for a while, in the middle of it.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_off_the_network_goes_on_when_it_is_back() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(Duration::from_secs(2))).await?;
    let gate = Gate::start(&site.cluster, |_| CallFate::Pass).await?;
    let boards = site.two_boards().await?;
    let operator = site.operator_with(&["--leader-elect=false"], Some(&gate))?;
    site.flash("flashjob", &boards).await?;
    site.kubelet.started(1).await;
    gate.cut();
    operator.says("failed").await?;
    let starts = site.kubelet.starts();
    eventually("what was started to end", PATIENCE, async || {
        let all = site.kubelet.starts();
        Ok(all.iter().take(starts.len()).all(|s| s.ended_at.is_some()).then_some(()))
    })
    .await?;
    gate.mend();
    site.phase("flashjob", Phase::Completed).await?;
    site.cleaned_up().await?;
    assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.12"], "{}", operator.log());
    Ok(())
}
