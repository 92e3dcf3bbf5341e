//! A namespace that is deleted goes, whatever is being flashed in it, and takes no other with it.

use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::Phase;
use flashjob_sim::cluster::Cluster;
use flashjob_sim::flashjob::{Site, uids};
use flashjob_sim::node::{Script, ScriptEnd};
use flashjob_sim::{Operator, PATIENCE, eventually};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_deleted_while_its_devices_are_flashed_goes_and_the_others_stay() -> Result<()>
{
    let cluster = Cluster::installed().await?;
    let doomed =
        Site::on(&cluster).namespace("doomed").start(|_| Script::ending(ScriptEnd::Never)).await?;
    let stays = Site::on(&cluster).namespace("stays").start(|_| Script::default()).await?;
    let boards = doomed.boards(3).await?;
    let operator = Operator::start(&cluster, &[]).await?;
    doomed.flash("flashing", &boards[..2]).await?;
    let later = json!({ "uuid": uids(&boards[2..]), "suspend": true });
    doomed.flash_with("later", later).await?;
    let selector = json!({ "device": null, "deviceSelector": { "applicationType": "late" } });
    doomed.flash_with("chosen", selector).await?;
    doomed.kubelet.started(2).await;
    doomed.phase("later", Phase::Suspended).await?;
    doomed.phase("chosen", Phase::Pending).await?;

    // Nobody empties the namespace yet, but the server takes nothing new in it: no ledger and no Service.
    let namespaces: Api<Namespace> = Api::all(doomed.client.clone());
    namespaces.delete("doomed", &DeleteParams::default()).await?;
    let late = stays.akri.discover("192.0.2.31", "esp32", "late", "0.1.0").await?;
    doomed.edit("later", json!({ "suspend": false })).await?;
    let refused = doomed.status("chosen", "the refusal to be told", |s| {
        s.message.as_ref().is_some_and(|m| m.contains("being terminated"))
    });
    assert_eq!(refused.await?.conditions[0].reason, "CreateRefused");
    doomed
        .status("later", "the refusal to be told", |s| {
            let words = s.in_flight.first().and_then(|d| d.message.as_deref());
            words.is_some_and(|w| w.contains("being terminated"))
        })
        .await?;
    stays.flash("flashjob", &[late]).await?;
    stays.phase("flashjob", Phase::Completed).await?;

    let Some(_manager) = cluster.controller_manager(&["namespace", "garbagecollector"]).await?
    else {
        println!("the assets have no kube-controller-manager: the namespace's end was not checked");
        return Ok(());
    };
    for board in &boards {
        doomed.akri.lose(board).await?;
    }
    let gone = eventually("the namespace to be gone", PATIENCE, async || {
        Ok(namespaces.get_opt("doomed").await?.is_none().then_some(()))
    });
    gone.await?;
    assert_eq!(doomed.kubelet.starts().len(), 2, "nothing was started in it any more");
    let ended = doomed.kubelet.starts_when(|starts| starts.iter().all(|s| s.ended_at.is_some()));
    ended.await;

    // What was under way may still be answered; then there is nothing left to complain about.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = operator.log().len();
    tokio::time::sleep(Duration::from_secs(6)).await;
    let log = operator.log();
    let mut after = log[before..].lines();
    let complaint = after.find(|line| line.contains("WARN") || line.contains("ERROR"));
    assert_eq!(complaint, None);

    // The name is as good as new.
    cluster.make_namespace("doomed").await?;
    let again = doomed.board("192.0.2.11").await?;
    doomed.flash("flashing", &[again]).await?;
    doomed.kubelet.started(3).await;
    Ok(())
}
