//! The operator is killed with -9 at every write it makes, once before the server sees the write and once after, and
//! started again. Two devices, two flashes: no more and no fewer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_api::{FlashJobStatus, Phase};
use flashjob_sim::{Call, Gate, Script, Verdict, eventually};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;

use crate::site::{PATIENCE, Site, signal};

/// How many of these lives are lived side by side.
const SIDE_BY_SIDE: usize = 6;

#[derive(Clone, Copy, Debug)]
enum When {
    /// The server never sees the write.
    Before,
    /// The server has done it; the operator never learns.
    After,
}

/// One board's container starts late and the other's runs long, so that a crash meets Pods in every state.
fn script(pod: &Pod) -> Script {
    let text = serde_json::to_string(pod).unwrap_or_default();
    match text.contains("192.0.2.11") {
        true => Script::success("").start_after(Duration::from_millis(400)),
        false => Script::success("").run_for(Duration::from_millis(600)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_write_two_devices_are_flashed_two_times() -> Result<()> {
    let writes = count_writes().await?;
    assert!(writes >= 12, "a run has at least 12 writes, this one had {writes}");
    let crashes = (1..=writes).flat_map(|n| [(n, When::Before), (n, When::After)]);
    let deaths = futures::stream::iter(crashes)
        .map(|(n, when)| async move {
            live_and_die(n, when).await.with_context(|| format!("killed {when:?} write {n}"))
        })
        .buffer_unordered(SIDE_BY_SIDE)
        .try_collect::<Vec<bool>>()
        .await?;
    // The last write or two of a run may fall together with others.
    let killed = deaths.iter().filter(|killed| **killed).count();
    assert!(killed >= 2 * (writes - 2), "{killed} of {} lives ended early", deaths.len());
    Ok(())
}

/// A third of the writes is lost on the way, and the answers to a third: what has happened is found out by reading. Which
/// ones looks random and is the same each time. (Every third would meet the same write in each round of retries.)
#[tokio::test(flavor = "multi_thread")]
async fn lost_writes_and_lost_answers_are_settled_by_a_live_read() -> Result<()> {
    let site = Site::new(script).await?;
    let luck = |number: usize| (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) % 3;
    let gate = Gate::start(&site.cluster, move |call| match luck(call.number) {
        0 => Verdict::PassThenDrop,
        1 => Verdict::Drop,
        _ => Verdict::Pass,
    })
    .await?;
    let boards = site.two_boards().await?;
    let operator = site.operator_with(&["--leader-elect=false"], Some(&gate)).await?;
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
        match ledger && no_pod_yet.load(Ordering::Acquire) {
            true => Verdict::PassThenDrop,
            false => Verdict::Pass,
        }
    })
    .await?;
    let board = site.board("192.0.2.11").await?;
    let operator = site.operator_with(&["--leader-elect=false"], Some(&gate)).await?;
    site.flash("flashjob", &[board]).await?;
    operator.says("reading the ledger again").await?;
    let flashing = |s: &FlashJobStatus| s.counts.as_ref().is_some_and(|c| c.flashing == 1);
    let status = site.status("flashjob", "the board to be flashed", flashing).await?;
    let message = status.message.unwrap_or_default();
    assert!(!message.contains("cannot be written"), "{message}");
    site.phase("flashjob", Phase::Completed).await?;
    Ok(())
}

/// The network is gone for a while, in the middle of it.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_off_the_network_goes_on_when_it_is_back() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(Duration::from_secs(2))).await?;
    let gate = Gate::start(&site.cluster, |_| Verdict::Pass).await?;
    let boards = site.two_boards().await?;
    let operator = site.operator_with(&["--leader-elect=false"], Some(&gate)).await?;
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

/// A life without a crash: how many writes it takes.
async fn count_writes() -> Result<usize> {
    let site = Site::new(script).await?;
    let gate = Gate::start(&site.cluster, |_| Verdict::Pass).await?;
    let boards = site.two_boards().await?;
    site.flash("flashjob", &boards).await?;
    let _operator = site.operator_with(&["--leader-elect=false"], Some(&gate)).await?;
    site.phase("flashjob", Phase::Completed).await?;
    site.cleaned_up().await?;
    Ok(gate.calls().iter().map(|call| call.number).max().unwrap_or(0))
}

/// Says whether the operator was really killed.
async fn live_and_die(n: usize, when: When) -> Result<bool> {
    let site = Site::new(script).await?;
    let boards = site.two_boards().await?;
    site.flash("flashjob", &boards).await?;

    let pid = Arc::new(AtomicU32::new(0));
    let dead = Arc::new(AtomicBool::new(false));
    let kill = {
        let (pid, dead) = (pid.clone(), dead.clone());
        move || {
            dead.store(signal(pid.load(Ordering::Acquire), "KILL").is_ok(), Ordering::Release);
        }
    };
    let judge = move |call: &Call| match when {
        _ if call.number != n => Verdict::Pass,
        When::Before => {
            kill();
            Verdict::Drop
        }
        When::After => Verdict::PassThen(Box::new(kill.clone())),
    };
    let gate = Gate::start(&site.cluster, judge).await?;
    let first = site.operator_with(&["--leader-elect=false"], Some(&gate)).await?;
    pid.store(first.pid(), Ordering::Release);
    let jobs = site.jobs();
    // A run may take a write less than the one that was counted, and then nothing is killed.
    eventually("the crash, or the end", PATIENCE, async || {
        let phase = jobs.get("flashjob").await?.status.and_then(|s| s.phase);
        Ok((dead.load(Ordering::Acquire) || phase == Some(Phase::Completed)).then_some(()))
    })
    .await?;
    gate.settled().await;
    drop(first);

    let second = site.operator_with(&["--leader-elect=false"], None).await?;
    let done = site.phase("flashjob", Phase::Completed).await;
    let done = done.with_context(|| format!("the second life said:\n{}", second.log()))?;
    assert_eq!(done.done.as_deref(), Some("2/2"));
    site.cleaned_up().await.with_context(|| format!("the second life said:\n{}", second.log()))?;
    let flashed = site.flashed();
    assert_eq!(
        flashed,
        ["192.0.2.11", "192.0.2.12"],
        "killed {when:?} write {n}\n{}",
        second.log()
    );
    Ok(dead.load(Ordering::Acquire))
}
