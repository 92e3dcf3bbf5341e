//! Creates that the API server refuses: told in its own words, tried again, and never counted as an attempt.

use anyhow::Result;
use flashjob_api::flashjob::{DeviceState, Phase};
use flashjob_sim::eventually;
use flashjob_sim::flashjob::Flash;
use flashjob_sim::node::Script;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota, Service};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::site::{PATIENCE, Site, uids};

impl Site {
    /// Lets no more than so many objects of a kind be made. No controller works out what is used, so this says it: nothing.
    /// (The API server itself counts what is made from here on.)
    async fn allow(&self, kind: &str, count: u32) -> Result<()> {
        let quotas: Api<ResourceQuota> = Api::namespaced(self.client.clone(), &self.namespace);
        let hard = json!({ kind: count.to_string() });
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": { "name": "tight" }, "spec": { "hard": hard },
        });
        let params = PatchParams::apply("test").force();
        quotas.patch("tight", &params, &Patch::Apply(quota)).await?;
        let used = json!({ "status": { "hard": hard, "used": { kind: "0" } } });
        quotas.patch_status("tight", &PatchParams::default(), &Patch::Merge(used)).await?;
        Ok(())
    }

    /// Lets none be made, and waits until that is in force.
    pub async fn allow_none(&self, kind: &str) -> Result<()> {
        self.allow(kind, 0).await?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let services: Api<Service> = Api::namespaced(self.client.clone(), &self.namespace);
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
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

    /// How often the operator was refused an object of this kind.
    pub fn refused(&self, kind: &str) -> Result<usize> {
        let writes = self.cluster.writes(&self.namespace)?;
        let by_operator = writes.iter().filter(|w| w.user.contains("operator-controller-manager"));
        let creates = by_operator.filter(|w| w.resource == kind && w.verb == "create");
        Ok(creates.filter(|w| w.code == 403).count())
    }
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
    site.allow_none(kind).await?;
    let _operator = site.operator().await?;
    let brief = json!({ "uuid": uids(&boards), "retry": { "limit": 0 } });
    site.flash_with("waits", brief).await?;
    let told = site.status("waits", "the refusal to be told", |s| {
        s.in_flight.first().is_some_and(|d| d.state == DeviceState::BackOff)
    });
    let told = told.await?;
    let words = told.in_flight[0].message.clone().unwrap_or_default();
    assert!(words.starts_with("CreateRefused: "), "{words}");
    assert!(words.contains(&format!("exceeded quota: tight, requested: {kind}=1")), "{words}");
    eventually("more refusals", PATIENCE, async || Ok((site.refused(kind)? >= 3).then_some(())))
        .await?;
    assert_eq!(site.flashed().len(), 0);

    site.allow(kind, 10).await?;
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
        site.allow_none(kind).await?;
        site.allow(kind, 1).await?;
        let _operator = site.operator().await?;
        site.flash("queue", &boards).await?;
        let one = site.status("queue", "one to be flashed and two to be refused", |s| {
            let refused = s.in_flight.iter().filter(|d| d.state == DeviceState::BackOff).count();
            s.done.as_deref() == Some("1/3") && refused == 2
        });
        assert_eq!(one.await?.phase, Some(Phase::InProgress));
        site.allow(kind, 10).await?;
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
        site.allow_none(kind).await?;
        let _operator = site.operator().await?;
        let brief = json!({ "uuid": uids(&boards), "timeouts": { "deviceSeconds": 3 } });
        site.flash_with("refused", brief).await?;
        let failed = site.phase("refused", Phase::Failed).await?;
        let failure = &failed.failures[0];
        assert_eq!((failure.reason.as_str(), failure.attempts), ("CreateRefused", 0));
        assert!(failure.message.contains("exceeded quota"), "{failed:#?}");
        site.cleaned_up().await?;
        assert!(site.refused(kind)? >= 2, "it was tried again");
        assert_eq!(site.flashed().len(), 0);
    }
    Ok(())
}
