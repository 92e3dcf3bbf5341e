//! A Pod that arrives after its permit was withdrawn: what a late write of an operator that lost its lease would be.

use std::time::Duration;

use anyhow::{Result, bail};
use flashjob_sim::eventually;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ListParams, PostParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::site::{NodeSite, OPERATOR, SYSTEM};
use crate::tell;

const PATIENCE: Duration = Duration::from_secs(90);
/// How long a kubelet is given to start what it must not start. It looks again every ten seconds or so.
const WATCHED: Duration = Duration::from_secs(30);

pub async fn withdrawn(site: &NodeSite) -> Result<()> {
    site.field.flash("permits", "0.3.0", json!({})).await?;
    let pod = eventually("a flash Pod", PATIENCE, async || {
        Ok(site.pods().list(&ListParams::default()).await?.items.into_iter().next())
    })
    .await?;
    let status = site.field.finished("permits", crate::PATIENCE).await?;
    site.field.agrees(&status, "0.3.0")?;

    tell("the same Pod once more, with nobody there to take it away");
    scale(site, 0).await?;
    let late = site.pods().create(&PostParams::default(), &as_sent(&pod)).await?;
    let name = late.name_any();
    eventually("it to wait for its permit", PATIENCE, async || {
        let waiting = reason_to_wait(site, &name).await?;
        Ok((waiting.as_deref() == Some("CreateContainerConfigError")).then_some(()))
    })
    .await?;
    let end = Instant::now() + WATCHED;
    while Instant::now() < end {
        reason_to_wait(site, &name).await?;
        sleep(Duration::from_millis(200)).await;
    }

    tell("the operator comes back");
    scale(site, 1).await?;
    eventually("the late Pod to be taken away", PATIENCE, async || {
        Ok(site.pods().get_opt(&name).await?.is_none().then_some(()))
    })
    .await?;
    site.account_for("permits", "0.3.0").await
}

/// The Pod as the operator has sent it.
fn as_sent(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    pod.status = None;
    pod.metadata.uid = None;
    pod.metadata.resource_version = None;
    pod.metadata.creation_timestamp = None;
    pod.metadata.managed_fields = None;
    if let Some(spec) = pod.spec.as_mut() {
        spec.node_name = None;
    }
    pod
}

/// Why a Pod's container has not started. It is an error that it has.
async fn reason_to_wait(site: &NodeSite, pod: &str) -> Result<Option<String>> {
    let pod = site.pods().get(pod).await?;
    let statuses = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
    let Some(status) = statuses.into_iter().next() else { return Ok(None) };
    let state = status.state.unwrap_or_default();
    if state.running.is_some() || state.terminated.is_some() || status.restart_count > 0 {
        bail!("it has run: {state:#?}");
    }
    Ok(state.waiting.and_then(|waiting| waiting.reason))
}

async fn scale(site: &NodeSite, replicas: usize) -> Result<()> {
    let wanted = format!("--replicas={replicas}");
    site.kubectl.run(&["scale", "deployment", OPERATOR, "-n", SYSTEM, &wanted])?;
    eventually("the operator to be scaled", PATIENCE, async || {
        Ok((site.operators().await?.len() == replicas).then_some(()))
    })
    .await
}
