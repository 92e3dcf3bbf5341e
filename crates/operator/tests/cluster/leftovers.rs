//! What is left of a deleted job: Pods that take their time, and a name that somebody uses again.

use anyhow::{Context, Result};
use flashjob_api::flashjob::{FlashJobStatus, Phase};
use flashjob_plan::flashjob::names;
use flashjob_sim::flashjob::Site;
use flashjob_sim::node::{Kubelet, Script, ScriptEnd, Started};
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_deleted_in_the_foreground_goes_after_everything_it_made() -> Result<()> {
    let site = Site::new(|_| Script::ending(ScriptEnd::Never)).await?;
    let boards = site.two_boards().await?;
    let _operator = site.operator()?;
    site.flash("flashjob", &boards).await?;
    site.kubelet.started(2).await;
    let Some(_collector) = site.cluster.controller_manager(&["garbagecollector"]).await? else {
        println!("the assets have no kube-controller-manager: nothing was checked");
        return Ok(());
    };
    site.jobs().delete("flashjob", &DeleteParams::foreground()).await?;
    site.job_is_gone("flashjob").await?;
    assert_eq!(site.ledgers().await?, [], "the ledger went before the job");
    site.cleaned_up().await?;
    // A Pod that is ended gracefully is removed by its kubelet; one deleted with grace 0 never gets that far.
    eventually("both Pods to be removed by the kubelet", PATIENCE, async || {
        let writes = site.cluster.writes(&site.namespace)?;
        let by_kubelet = writes.iter().filter(|w| w.user == "kubelet" && w.code == 200);
        let removed = by_kubelet.filter(|w| w.verb == "delete");
        Ok((removed.count() == 2).then_some(()))
    })
    .await?;
    assert!(site.kubelet.starts().iter().all(|start| start.ended_at.is_some()));
    Ok(())
}

/// The node falls silent: its containers run on, and Pods that are deleted stay.
fn node_is_lost(site: &mut Site) -> Result<Vec<Started>> {
    let before = site.kubelet.starts();
    let client = site.cluster.client("kubelet")?;
    site.kubelet = Kubelet::start(client, "no-such-namespace", |_| Script::default()).into();
    Ok(before)
}

/// The node is back, and learns what it missed. What it starts from now on is all that is counted.
fn node_is_back(site: &mut Site) -> Result<()> {
    let client = site.cluster.client("kubelet")?;
    site.kubelet = Kubelet::start(client, &site.namespace, |_| Script::default()).into();
    Ok(())
}

/// Waits until a job is held up by another, and says by which.
async fn held_up(site: &Site, name: &str) -> Result<String> {
    let blocked = |s: &FlashJobStatus| s.counts.is_some_and(|c| c.blocked == 1);
    let status = site.status(name, "it to wait for the board", blocked).await?;
    status.in_flight[0].message.clone().context("no word of what it waits for")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_used_again_once_the_old_pod_has_left_the_board() -> Result<()> {
    let mut site = Site::new(|_| Script::ending(ScriptEnd::Never)).await?;
    let boards = site.boards(1).await?;
    let _operator = site.operator()?;
    site.flash("flashjob", &boards).await?;
    site.kubelet.started(1).await;
    node_is_lost(&mut site)?;

    site.jobs().delete("flashjob", &DeleteParams::default()).await?;
    let taken = site.flash("flashjob", &boards).await.err().context("the name is still taken")?;
    assert!(format!("{taken:#}").contains("already exists"), "{taken:#}");
    // Of two jobs of one second the first by name counts as older.
    site.flash("another", &boards).await?;
    assert!(held_up(&site, "another").await?.contains("/flashjob"));

    node_is_back(&mut site)?;
    site.job_is_gone("flashjob").await?;
    site.flash("flashjob", &boards).await?;
    for name in ["another", "flashjob"] {
        site.phase(name, Phase::Completed).await?;
    }
    one_after_the_other(&site.kubelet.starts(), 2);
    Ok(())
}

/// Somebody took the finalizer off, as the manual says for a cluster without an operator, and here one runs all the
/// same: the job is gone at once, and its Pod is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_took_the_name_of_a_running_one_waits_for_its_pod_and_adopts_nothing()
-> Result<()> {
    let mut site = Site::new(|_| Script::ending(ScriptEnd::Never)).await?;
    let boards = site.boards(1).await?;
    let first = site.operator_with(&["--leader-elect=false"], None)?;
    let old = site.flash("flashjob", &boards).await?;
    site.kubelet.started(1).await;
    let running = node_is_lost(&mut site)?.remove(0);

    site.jobs().delete("flashjob", &DeleteParams::default()).await?;
    let bare = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    site.jobs().patch("flashjob", &PatchParams::default(), &bare).await?;
    site.job_is_gone("flashjob").await?;
    let new = site.flash("flashjob", &boards).await?;
    assert_ne!(new.uid(), old.uid());
    assert!(held_up(&site, "flashjob").await?.contains("/flashjob"));

    // An operator that never saw the old job knows as much.
    drop(first);
    let _second = site.operator_with(&["--leader-elect=false"], None)?;
    site.edit("flashjob", json!({ "suspend": true })).await?;
    site.phase("flashjob", Phase::Suspended).await?;
    site.edit("flashjob", json!({ "suspend": false })).await?;
    assert!(held_up(&site, "flashjob").await?.contains("/flashjob"));
    let pods = site.api::<Pod>();
    let left = pods.list(&ListParams::default()).await?.items;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].name_any(), running.pod);
    assert_eq!(left[0].owner_references()[0].uid, old.uid().unwrap(), "it is still the old one's");

    // What the garbage collector does.
    pods.delete(&running.pod, &DeleteParams::default()).await?;
    node_is_back(&mut site)?;
    site.phase("flashjob", Phase::Completed).await?;
    one_after_the_other(&site.kubelet.starts(), 1);
    Ok(())
}

/// So many flashes, never two at once.
fn one_after_the_other(starts: &[Started], count: usize) {
    assert_eq!(starts.len(), count, "{starts:#?}");
    for pair in starts.windows(2) {
        assert!(pair[0].ended_at.is_some_and(|ended| ended <= pair[1].at), "{starts:#?}");
    }
}

/// The whole object is applied again under another name, with what the operator has put on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_a_copy_of_another_begins_anew() -> Result<()> {
    let site = Site::new(|_| Script::success("")).await?;
    let board = site.board("192.0.2.11").await?;
    let _operator = site.operator()?;
    site.flash("first", &[board]).await?;
    site.phase("first", Phase::Completed).await?;
    let mut copy = site.jobs().get("first").await?;
    let ledger = copy.annotations()[names::LEDGER].clone();
    assert!(!copy.finalizers().is_empty());
    copy.metadata.name = Some("second".into());
    copy.metadata.resource_version = None;
    copy.metadata.uid = None;
    copy.metadata.managed_fields = None;
    site.jobs().create(&PostParams::default(), &copy).await?;
    site.phase("second", Phase::Completed).await?;
    assert_eq!(site.flashed().len(), 2, "once for each");
    let second = site.jobs().get("second").await?;
    assert_ne!(second.annotations()[names::LEDGER], ledger, "it has a ledger of its own");
    Ok(())
}
