//! What a device may run is on record, as a label of its EdgeDevice, before it is sent it; so the next process knows, whatever
//! else was not written. And a Secret that cannot be read is neither there nor missing.

use anyhow::Result;
use flashjob_sim::cluster::{Call, CallFate, Gate};
use flashjob_sim::edge::Manner;
use flashjob_sim::edge::site::EdgeSite;
use serde_json::{Value, json};

use super::sources::{FLAGS, KIND, app, delete_secret, deployments, password, secret};
use super::workload_kit::{
    condition, device, entry, is_told, keeps, label, make, never_told_to_run_less, nginx, told,
};

fn is_label(call: &Call) -> bool {
    let body = call.json().unwrap_or_default();
    call.resource() == "edgedevices" && !body["metadata"]["labels"]["workload/app"].is_null()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_right_after_a_workload_was_sent_takes_it_from_nobody() -> Result<()> {
    let site = EdgeSite::new().await?;
    let (here, api) = (site.namespace.clone(), deployments(&site));
    let gate = Gate::start(&site.cluster, |call| {
        // Labels wait, and of what it says in statuses nothing arrives.
        match call.subresource() {
            _ if is_label(call) => CallFate::Hold,
            Some("status") => CallFate::Drop,
            _ => CallFate::Pass,
        }
    });
    let gate = gate.await?;
    let operator = site.operator_with(&FLAGS, Some(&gate)).await?;
    secret(&site, &here, "db", json!({ "password": "one" })).await?;
    let one = site.registered("one", Manner::Ours).await?;
    make(&api, KIND.0, "app", app(password("db"), json!({}))).await?;
    let held = gate.held().await;
    assert_eq!(held.name().as_deref(), Some("one"), "{held:?}");
    assert_eq!(told(&one).await?, Vec::<String>::new(), "it is not on record");
    gate.release();
    is_told(&one, &["app"]).await?;
    drop(operator);
    delete_secret(&site, "db").await?;

    let _operator = site.operator_with(&FLAGS, None).await?;
    device(&site, "one", |found| condition(found, "Configured")["reason"] == "SecretMissing")
        .await?;
    keeps(&one).await?;
    let two = site.registered("two", Manner::Ours).await?;
    make(&api, KIND.0, "plain", nginx("plain:1", json!({ "deviceSelector": {} }))).await?;
    is_told(&two, &["plain"]).await?;
    let found = device(&site, "two", |found| !entry(found, "app").is_null()).await?;
    assert_eq!((label(&found, "app"), label(&found, "plain")), (None, Some("true")), "{found:#}");
    secret(&site, &here, "db", json!({ "password": "two" })).await?;
    for device in [&one, &two] {
        is_told(device, &["app", "plain"]).await?;
    }
    never_told_to_run_less(&one, &["app"]);
    never_told_to_run_less(&two, &["plain"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_cannot_be_read_is_said_and_takes_nothing_away() -> Result<()> {
    let site = EdgeSite::new().await?;
    let (here, api) = (site.namespace.clone(), deployments(&site));
    secret(&site, &here, "db", json!({ "password": "one" })).await?;
    let operator = site.operator_with(&FLAGS, None).await?;
    make(&api, KIND.0, "app", app(password("db"), json!({}))).await?;
    let one = site.registered("one", Manner::Ours).await?;
    is_told(&one, &["app"]).await?;
    drop(operator);

    let gate = Gate::start(&site.cluster, |_| CallFate::Pass).await?;
    gate.judge_reads(|call| {
        let forbidden = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden",
            "message": "secrets \"db\" is forbidden by a test", "code": 403,
        });
        match call.path.ends_with("/secrets/db") {
            true => CallFate::Answer(403, forbidden.to_string()),
            false => CallFate::Pass,
        }
    });
    let _operator = site.operator_with(&FLAGS, Some(&gate)).await?;
    let says = |found: &Value| {
        let said = condition(found, "Configured");
        let words = said["message"].as_str().unwrap_or_default();
        said["reason"] == "ReadFailed" && words.contains("is forbidden by a test")
    };
    let found = device(&site, "one", says).await?;
    let message = entry(&found, "app")["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("ReadFailed: "), "{found:#}");
    keeps(&one).await?;
    gate.judge_reads(|_| CallFate::Pass);
    device(&site, "one", |found| condition(found, "Configured")["status"] == "True").await?;
    is_told(&one, &["app"]).await?;
    never_told_to_run_less(&one, &["app"]);
    Ok(())
}
