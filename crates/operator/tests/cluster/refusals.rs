//! Creates that the API server refuses: told in its own words, tried again, and never counted as an attempt.

use anyhow::Result;
use flashjob_api::flashjob::{DeviceState, Phase};
use flashjob_sim::flashjob::Flash;
use flashjob_sim::flashjob::{Site, uids};
use flashjob_sim::node::Script;
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::api::PostParams;
use serde_json::{Value, json};

/// Lets none be made, and waits until that is in force.
pub async fn allow_none(site: &Site, kind: &str) -> Result<()> {
    site.cluster.allow(&site.namespace, kind, 0).await?;
    let pods = site.api::<Pod>();
    let services = site.api::<Service>();
    let maps = site.api::<ConfigMap>();
    let named = |spec: Value| json!({ "metadata": { "name": "probe" }, "spec": spec });
    let container = json!({ "name": "probe", "image": "probe" });
    let pod: Pod = serde_json::from_value(named(json!({ "containers": [container] })))?;
    let service: Service = serde_json::from_value(named(json!({ "ports": [{ "port": 80 }] })))?;
    let map: ConfigMap = serde_json::from_value(named(Value::Null))?;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    eventually("the quota to be in force", PATIENCE, async || {
        let made = match kind {
            "pods" => pods.create(&dry, &pod).await.map(drop),
            "configmaps" => maps.create(&dry, &map).await.map(drop),
            _ => services.create(&dry, &service).await.map(drop),
        };
        Ok(made.is_err().then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_on_pods_is_told_and_once_raised_the_device_is_flashed() -> Result<()> {
    refused_then_flashed("pods").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_on_services_is_told_and_once_raised_the_device_is_flashed() -> Result<()> {
    refused_then_flashed("services").await
}

/// Without a single retry: a refusal that counted as an attempt would end the device.
async fn refused_then_flashed(kind: &str) -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.boards(1).await?;
    allow_none(&site, kind).await?;
    let _operator = site.operator()?;
    let brief = json!({ "uuid": uids(&boards), "retry": { "limit": 0 } });
    site.flash_with("waits", brief).await?;
    let told = site.status("waits", "the refusal to be told", |s| {
        s.in_flight.first().is_some_and(|d| d.state == DeviceState::BackOff)
    });
    let told = told.await?;
    let words = told.in_flight[0].message.clone().unwrap_or_default();
    assert!(words.starts_with("CreateRefused: "), "{words}");
    assert!(words.contains(&format!("exceeded quota: tight, requested: {kind}=1")), "{words}");
    eventually("more refusals", PATIENCE, async || {
        Ok((site.operators.refusals(&site.namespace, kind)? >= 3).then_some(()))
    })
    .await?;
    assert_eq!(site.flashed().len(), 0);

    site.cluster.allow(&site.namespace, kind, 10).await?;
    let done = site.phase("waits", Phase::Completed).await?;
    assert_eq!((done.done.as_deref(), done.failures.len()), (Some("1/1"), 0));
    let starts = site.kubelet.starts();
    assert_eq!((starts.len(), starts[0].attempt()), (1, "1"), "no attempt was counted");
    site.cleaned_up().await
}

/// What is refused for one device holds up no other.
#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_is_used_up_lets_the_rest_wait() -> Result<()> {
    for kind in ["pods", "services"] {
        let site = Site::new(|_| Script::default()).await?;
        let boards = site.boards(3).await?;
        allow_none(&site, kind).await?;
        site.cluster.allow(&site.namespace, kind, 1).await?;
        let _operator = site.operator()?;
        site.flash("queue", &boards).await?;
        let one = site.status("queue", "one to be flashed and two to be refused", |s| {
            let refused = s.in_flight.iter().filter(|d| d.state == DeviceState::BackOff).count();
            s.done.as_deref() == Some("1/3") && refused == 2
        });
        assert_eq!(one.await?.phase, Some(Phase::InProgress));
        site.cluster.allow(&site.namespace, kind, 10).await?;
        let done = site.phase("queue", Phase::Completed).await?;
        assert_eq!(done.done.as_deref(), Some("3/3"));
        assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.12", "192.0.2.13"], "each once");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_refused_for_too_long_fails_with_the_servers_words_and_no_attempt() -> Result<()> {
    for kind in ["pods", "services"] {
        let site = Site::new(|_| Script::default()).await?;
        let boards = site.boards(1).await?;
        allow_none(&site, kind).await?;
        let _operator = site.operator()?;
        let brief = json!({ "uuid": uids(&boards), "timeouts": { "deviceSeconds": 3 } });
        site.flash_with("refused", brief).await?;
        let failed = site.phase("refused", Phase::Failed).await?;
        let failure = &failed.failures[0];
        assert_eq!((failure.reason.as_str(), failure.attempts), ("CreateRefused", 0));
        assert!(failure.message.contains("exceeded quota"), "{failed:#?}");
        site.cleaned_up().await?;
        assert!(site.operators.refusals(&site.namespace, kind)? >= 2, "it was tried again");
        assert_eq!(site.flashed().len(), 0);
    }
    Ok(())
}
