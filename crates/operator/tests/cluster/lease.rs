//! Two operators, one writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::Phase;
use flashjob_sim::cluster::{Call, CallFate, Gate};
use flashjob_sim::flashjob::Site;
use flashjob_sim::node::Script;
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::ListParams};

use flashjob_sim::http::{answers, free_address};

/// The leader is stopped with a Pod create on the wire. Another one takes over and finishes that device; then the old
/// create arrives, and the old leader goes on.
#[tokio::test(flavor = "multi_thread")]
async fn the_late_pod_of_a_stopped_leader_never_starts() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.two_boards().await?;
    let held = AtomicBool::new(false);
    let hold_first_pod = move |call: &Call| {
        let pod = call.method == "POST" && call.resource() == "pods";
        if pod && !held.swap(true, Ordering::AcqRel) { CallFate::Hold } else { CallFate::Pass }
    };
    let gate = Gate::start(&site.cluster, hold_first_pod).await?;
    let mut first = site.operator_with(&[], Some(&gate))?;
    site.flash("flashjob", &boards).await?;

    let late = gate.held().await.json().unwrap_or_default();
    let late = late["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    first.pause()?;
    let _second = site.operator()?;
    site.phase("flashjob", Phase::Completed).await?;
    assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.12"]);

    // What the kubelet is shown of the late Pod, whoever removes it again.
    gate.release();
    gate.settled().await;
    let answered = gate.answers().into_iter().any(|(call, code)| {
        call.json().is_some_and(|o| o["metadata"]["name"] == late.as_str()) && code == 201
    });
    assert!(answered, "the late create of {late} reached the server");
    first.resume()?;

    let (code, _) = first.ended().await?;
    assert_ne!(code, 0, "the old leader says that it lost the lease");
    assert!(first.log().contains("the lease is lost"), "{}", first.log());
    site.cleaned_up().await?;
    let starts = site.kubelet.starts();
    assert!(starts.iter().all(|start| start.pod != late), "{late} started");
    assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.12"], "each board once");
    Ok(())
}

/// The leader is stopped with the write on the wire that says how a flash ended. Another one takes over and says it itself;
/// then the old write arrives.
#[tokio::test(flavor = "multi_thread")]
async fn the_late_ledger_of_a_stopped_leader_changes_nothing() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let board = site.board("192.0.2.11").await?;
    let held = AtomicBool::new(false);
    let hold_the_result = move |call: &Call| {
        // With the result goes the permit.
        let data = call.json().map(|body| body["data"].clone()).unwrap_or_default();
        let withdraws = data.as_object().is_some_and(|data| data.values().any(|v| v.is_null()));
        let result = call.resource() == "configmaps" && withdraws;
        if result && !held.swap(true, Ordering::AcqRel) { CallFate::Hold } else { CallFate::Pass }
    };
    let gate = Gate::start(&site.cluster, hold_the_result).await?;
    let mut first = site.operator_with(&[], Some(&gate))?;
    site.flash("flashjob", &[board]).await?;

    gate.held().await;
    first.pause()?;
    let _second = site.operator()?;
    site.phase("flashjob", Phase::Completed).await?;
    let before = site.ledgers().await?;

    gate.release();
    gate.settled().await;
    let refused = gate.answers().into_iter().filter(|(call, _)| call.resource() == "configmaps");
    assert_eq!(refused.last().map(|(_, code)| code), Some(409), "it is for a ledger of the past");
    first.resume()?;
    first.ended().await?;
    assert_eq!(site.ledgers().await?, before);
    site.cleaned_up().await?;
    assert_eq!(site.flashed(), ["192.0.2.11"]);
    Ok(())
}

/// A leader that is stopped for longer than its lease writes nothing when it goes on, even if nobody took over.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_lease_ran_out_writes_nothing() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.two_boards().await?;
    let awake = Arc::new(AtomicBool::new(true));
    let after_sleep = awake.clone();
    let gate = Gate::start(&site.cluster, move |_| {
        if after_sleep.load(Ordering::Acquire) {
            CallFate::Pass
        } else {
            CallFate::Answer(500, "{}".into())
        }
    })
    .await?;
    let mut operator = site.operator_with(&[], Some(&gate))?;
    operator.says("holding the lease").await?;
    operator.has_listed("services", PATIENCE).await?;
    operator.pause()?;
    awake.store(false, Ordering::Release);
    let before = gate.calls().len();
    // Longer than the 10 s after which the guard closes.
    tokio::time::sleep(Duration::from_secs(12)).await;
    site.flash("flashjob", &boards).await?;
    operator.resume()?;
    operator.ended().await?;
    let written: Vec<Call> =
        gate.calls().into_iter().skip(before).filter(|call| !call.is_lease()).collect();
    assert!(written.is_empty(), "{written:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_told_to_stop_gives_the_lease_back() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(Duration::from_secs(2))).await?;
    let boards = site.two_boards().await?;
    let mut first = site.operator()?;
    first.says("holding the lease").await?;
    site.flash("flashjob", &boards).await?;
    site.kubelet.started(2).await;

    let (code, took) = first.stop().await?;
    assert_eq!(code, 0);
    assert!(took < Duration::from_secs(5), "it took {took:?}");
    let leases: Api<Lease> = Api::namespaced(site.client.clone(), "operator-system");
    let lease = leases.get(&format!("338c7440.flashjob.nbfc.io-{}", site.namespace)).await?;
    assert_eq!(lease.spec.and_then(|s| s.holder_identity).as_deref(), Some(""));

    let _second = site.operator()?;
    site.phase("flashjob", Phase::Completed).await?;
    assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.12"], "each board once");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_is_ready_and_takes_over_when_the_leader_is_killed() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(Duration::from_secs(1))).await?;
    let boards = site.two_boards().await?;
    let mut first = site.operator()?;
    first.says("holding the lease").await?;
    let address = free_address().await?;
    let health = format!("--health-probe-bind-address={address}");
    let second = site.operator_with(&[&health], None)?;
    second.says("standing by").await?;
    answers(address, "/readyz", 200, "ok").await?;
    site.flash("flashjob", &boards).await?;
    site.kubelet.started(1).await;
    first.kill();
    site.phase("flashjob", Phase::Completed).await?;
    site.cleaned_up().await?;
    assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.12"], "each board once");

    let pods = site.api::<Pod>();
    eventually("no Pod to be left", PATIENCE, async || {
        Ok(pods.list(&ListParams::default()).await?.items.is_empty().then_some(()))
    })
    .await
}
