//! What is wrong with one job is that job's own trouble: the operator goes on, and so do the jobs of others.

use anyhow::Result;
use flashjob_api::flashjob::{FlashJobStatus, Phase};
use flashjob_sim::flashjob::{Site, uids};
use flashjob_sim::node::Script;
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

fn stalled(status: &FlashJobStatus) -> Option<(&str, &str)> {
    let stalled = status.conditions.iter().find(|c| c.type_ == "Stalled" && c.status == "True")?;
    Some((&stalled.reason, &stalled.message))
}

/// Each of these ended the operator, again after each restart.
#[tokio::test(flavor = "multi_thread")]
async fn nonsense_in_a_ledger_is_told_on_its_job_and_others_go_on() -> Result<()> {
    let site = Site::new(|_| Script::success("")).await?;
    let boards = site.two_boards().await?;
    let nonsense = [
        ("devices", json!(u64::MAX), "shard 0: header: devices is 18446744073709551615"),
        ("releasedAt", json!("9999-12-30T22:00:00.999999999Z"), "releasedAt is 9999-12-30"),
        ("batch", json!(u64::MAX), "batch is 18446744073709551615"),
    ];
    let mut operator = site.operator_with(&["--leader-elect=false"], None)?;
    let name = |n: usize| format!("broken-{n}");
    for n in 0..nonsense.len() {
        let held =
            json!({ "uuid": [uids(&boards)[0]], "suspend": true, "rollout": { "batchSize": 1 } });
        site.flash_with(&name(n), held).await?;
        site.phase(&name(n), Phase::Suspended).await?;
    }
    operator.kill();
    let maps = site.api::<ConfigMap>();
    for (n, (field, value, _)) in nonsense.iter().enumerate() {
        let ours = |map: &ConfigMap| map.name_any().starts_with(&format!("{}-ledger-", name(n)));
        let ledger = site.ledgers().await?.into_iter().find(ours).unwrap();
        let mut header: Value = serde_json::from_str(&ledger.data.as_ref().unwrap()["header"])?;
        header[field] = value.clone();
        let patch = Patch::Merge(json!({ "data": { "header": header.to_string() } }));
        maps.patch(&ledger.name_any(), &PatchParams::default(), &patch).await?;
        site.edit(&name(n), json!({ "suspend": false })).await?;
    }
    let mut operator = site.operator_with(&["--leader-elect=false"], None)?;
    site.flash("sound", &boards[1..]).await?;
    site.phase("sound", Phase::Completed).await?;
    for (n, (_, _, words)) in nonsense.iter().enumerate() {
        let failed = site.phase(&name(n), Phase::Failed).await?;
        let (reason, message) = stalled(&failed).unwrap();
        assert!(reason == "LedgerLost" && message.contains(words), "{reason}: {message}");
    }
    assert!(!operator.has_ended());
    assert_eq!(
        site.flashed(),
        ["192.0.2.12"],
        "nothing is started for a job whose record is nonsense"
    );
    Ok(())
}

#[cfg(feature = "crash")]
#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_the_look_at_one_job_is_told_on_it_and_others_go_on() -> Result<()> {
    use flashjob_sim::http::{answers, free_address};

    let site = Site::new(|_| Script::success("")).await?;
    let boards = site.two_boards().await?;
    let metrics = free_address().await?;
    let bind = format!("--metrics-bind-address={metrics}");
    let flags = ["--leader-elect=false", "--panic-at-version=13", &bind];
    let mut operator = site.operator_with(&flags, None)?;
    let unlucky = json!({ "uuid": [uids(&boards)[0]], "version": "13" });
    site.flash_with("unlucky", unlucky).await?;
    let failed = site.phase("unlucky", Phase::Failed).await?;
    let (reason, message) = stalled(&failed).unwrap();
    assert_eq!(reason, "InternalError");
    assert!(message.contains("told to panic at ") && message.contains("Report it"), "{message}");

    // Others begin and end while it is so, and what goes on around it does not try it again and again.
    for n in 0..3 {
        let job = format!("sound-{n}");
        site.flash(&job, &boards[1..]).await?;
        site.phase(&job, Phase::Completed).await?;
    }
    let told = operator.log().matches("the reconcile of a job panicked").count();
    assert_eq!(told, 1, "{}", operator.log());
    assert!(operator.log().contains(&format!("job={}/unlucky", site.namespace)));
    answers(metrics, "/metrics", 200, "flashjob_internal_errors_total 1\n").await?;

    // Another spec is tried at once.
    site.edit("unlucky", json!({ "version": "14" })).await?;
    site.phase("unlucky", Phase::Completed).await?;
    eventually("the fault to be forgotten", PATIENCE, async || {
        let status = site.status_now("unlucky").await?;
        Ok(stalled(&status).is_none().then_some(()))
    })
    .await?;
    assert!(!operator.has_ended());
    Ok(())
}
