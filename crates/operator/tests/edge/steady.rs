//! What devices keep through a restart, another leader, or a mistake in a spec: none is ever sent fewer workloads than its user
//! asked for, and nobody is sent anew what it has.

use std::time::Duration;

use anyhow::Result;
use flashjob_sim::edge::site::{EdgeSite, listens_at};
use flashjob_sim::edge::{Device, EdgeOperator, Manner};
use flashjob_sim::{PATIENCE, eventually};
use kube::api::DeleteParams;
use serde_json::json;
use tokio::time::sleep;

use super::workload_kit::{
    DEPLOYMENT, FLAGS, WORKLOAD, api, condition, content, device, for_all, image, is_sent, is_told,
    keeps, make_for_all, never_told_to_run_less, patch, runs, told, version, workload,
};

/// As it is in the field: one process, and another that waits for the lease.
async fn replica(site: &EdgeSite, identity: &str) -> Result<EdgeOperator> {
    let launcher = site.operators.clone().with_env("HOSTNAME", identity);
    site.listening(launcher.start(&[], None)?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_content_has_the_same_version_after_a_restart_and_from_another_leader()
-> Result<()> {
    let site = EdgeSite::new().await?;
    let mut first = replica(&site, "first").await?;
    for (kind, name) in [(DEPLOYMENT, "a"), (WORKLOAD, "b"), (DEPLOYMENT, "c")] {
        make_for_all(&site, kind, name, &format!("{name}:1")).await?;
    }
    let ours = site.registered("ours", Manner::Ours).await?;
    let flotta = site.registered("flotta", Manner::Flotta).await?;
    for device in [&ours, &flotta] {
        is_told(device, &["a", "b", "c"]).await?;
        device.heartbeat().await?;
        runs(&site, device.id(), &["a", "b", "c"]).await?;
    }
    let before = [&ours, &flotta].map(version);
    let text = serde_json::to_string(&content(&flotta).await?)?;
    let standby = site.operators.clone().with_env("HOSTNAME", "standby").start(&[], None)?;
    standby.says("standing by: another process holds the lease").await?;
    first.kill();
    site.lead_to(None);
    eventually("the standby to serve", PATIENCE, async || {
        Ok(listens_at(&standby).map(|address| site.lead_to(Some(address))))
    })
    .await?;
    same(&ours, &flotta, &text).await?;
    drop(standby);
    let mut last = site.operator_with(&FLAGS, None).await?;
    for _ in 0..2 {
        same(&ours, &flotta, &text).await?;
        last.kill();
        last = site.operator_with(&FLAGS, None).await?;
    }
    assert_eq!([&ours, &flotta].map(version), before);
    Ok(())
}

/// Who says that it has it is told so, and who does not is sent the same.
pub async fn same(ours: &Device, flotta: &Device, text: &str) -> Result<()> {
    eventually("304", PATIENCE, async || {
        let code = ours.fetch_configuration().await?.code();
        assert!([304, 503].contains(&code), "{code}");
        Ok((code == 304).then_some(()))
    })
    .await?;
    let sent = is_sent(flotta, "anything", |_| true).await?;
    assert_eq!(serde_json::to_string(&sent)?, text);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_devices_cannot_run_leaves_them_what_they_have() -> Result<()> {
    let site = EdgeSite::new().await?;
    let mut operator = site.operator_with(&FLAGS, None).await?;
    let api = api(&site, DEPLOYMENT);
    make_for_all(&site, DEPLOYMENT, "app", "app:1").await?;
    make_for_all(&site, DEPLOYMENT, "plain", "plain:1").await?;
    let ours = site.registered("ours", Manner::Ours).await?;
    let flotta = site.registered("flotta", Manner::Flotta).await?;
    for device in [&ours, &flotta] {
        is_told(device, &["app", "plain"]).await?;
        device.heartbeat().await?;
        runs(&site, device.id(), &["app", "plain"]).await?;
    }
    let before = [&ours, &flotta].map(version);

    let mut probed = for_all("app:2");
    probed["pod"]["spec"]["containers"][0]["livenessProbe"] =
        json!({ "httpGet": { "path": "/", "port": 80 } });
    patch(&api, "app", json!({ "spec": probed })).await?;
    workload(&api, "app", |found| {
        let accepted = condition(found, "Accepted");
        let message = accepted["message"].as_str().unwrap_or_default();
        accepted["status"] == "False"
            && message.contains("spec.pod.spec.containers[0].livenessProbe")
    })
    .await?;
    for held in ["ours", "flotta"] {
        device(&site, held, |found| condition(found, "Configured")["status"] == "False").await?;
    }
    for _ in 0..2 {
        for device in [&ours, &flotta] {
            told(device).await?;
            device.heartbeat().await?;
        }
        assert_eq!([&ours, &flotta].map(version), before);
        operator.kill();
        operator = site.operator_with(&FLAGS, None).await?;
        for device in [&ours, &flotta] {
            keeps(device).await?;
        }
    }

    // Who is new runs what can be run.
    let fresh = site.registered("fresh", Manner::Flotta).await?;
    is_told(&fresh, &["plain"]).await?;

    let mended = json!({ "spec": { "pod": { "spec": for_all("app:3")["pod"]["spec"] } } });
    patch(&api, "app", mended).await?;
    for device in [&flotta, &fresh] {
        is_sent(device, "the next edit", |sent| image(sent, "app").as_deref() == Some("app:3"))
            .await?;
    }
    eventually("another version", PATIENCE, async || {
        told(&ours).await?;
        Ok((version(&ours) != before[0]).then_some(()))
    })
    .await?;
    for device in [&ours, &flotta] {
        never_told_to_run_less(device, &["app", "plain"]);
    }
    workload(&api, "app", |found| condition(found, "Accepted")["status"] == "True").await?;
    drop(operator);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_workloads_with_one_name_the_older_is_sent_until_it_is_deleted() -> Result<()> {
    let site = EdgeSite::new().await?;
    let mut operator = site.operator_with(&FLAGS, None).await?;
    for (name, older) in [("web", DEPLOYMENT), ("db", WORKLOAD)] {
        make_for_all(&site, older, name, "older:1").await?;
    }
    // Their ages are in seconds.
    sleep(Duration::from_millis(1100)).await;
    for (name, younger) in [("web", WORKLOAD), ("db", DEPLOYMENT)] {
        make_for_all(&site, younger, name, "younger:1").await?;
    }
    let one = site.registered("one", Manner::Flotta).await?;
    is_told(&one, &["db", "web"]).await?;
    let both = |sent: &_, wanted: &str| {
        ["db", "web"].iter().all(|name| image(sent, name).as_deref() == Some(wanted))
    };
    is_sent(&one, "the older", |sent| both(sent, "older:1")).await?;
    one.heartbeat().await?;
    for (name, older, younger) in [("web", DEPLOYMENT, WORKLOAD), ("db", WORKLOAD, DEPLOYMENT)] {
        workload(&api(&site, younger), name, |found| {
            let accepted = condition(found, "Accepted");
            accepted["status"] == "False" && accepted["reason"] == "NameConflict"
        })
        .await?;
        let of_older = api(&site, older);
        workload(&of_older, name, |found| condition(found, "Complete")["status"] == "True").await?;
    }
    operator.kill();
    operator = site.operator_with(&FLAGS, None).await?;
    is_sent(&one, "the older", |sent| both(sent, "older:1")).await?;
    assert_eq!(one.ledger().configurations.len(), 1, "{:?}", one.ledger());

    for (name, older, younger) in [("web", DEPLOYMENT, WORKLOAD), ("db", WORKLOAD, DEPLOYMENT)] {
        api(&site, older).delete(name, &DeleteParams::default()).await?;
        is_sent(&one, "the younger", |sent| image(sent, name).as_deref() == Some("younger:1"))
            .await?;
        workload(&api(&site, younger), name, |found| {
            condition(found, "Accepted")["status"] == "True"
        })
        .await?;
    }
    never_told_to_run_less(&one, &["db", "web"]);
    drop(operator);
    Ok(())
}
