//! What runs is ended in the middle of a rollout.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_sim::eventually;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use crate::site::{NodeSite, SYSTEM};
use crate::tell;

const PATIENCE: Duration = Duration::from_secs(90);

/// Once as a drain does it, and once by force, which lets the next operator start while the old one still runs.
pub async fn operator_deleted(site: &NodeSite) -> Result<()> {
    let spec = json!({ "rollout": { "maxParallel": 2 }, "retry": { "backoffSeconds": 1 } });
    site.field.flash("operators", "0.4.0", spec).await?;
    for (flashed, how) in [(1, "--grace-period=10"), (3, "--force")] {
        site.flashed("0.4.0", flashed).await?;
        // Those that were deleted earlier may still be ending.
        let before = site.operators().await?;
        let old = before.iter().find(|pod| pod.metadata.deletion_timestamp.is_none());
        let old = old.context("no operator")?.name_any();
        let before: HashSet<String> = before.iter().map(ResourceExt::name_any).collect();
        tell(&format!("kubectl delete pod {how}"));
        site.kubectl.run(&["delete", "pod", &old, "-n", SYSTEM, how, "--wait=false"])?;
        eventually("another operator to say something", PATIENCE, async || {
            let others = site.operators().await?.into_iter().map(|pod| pod.name_any());
            let others: Vec<String> = others.filter(|name| !before.contains(name)).collect();
            let lines = site.operator_lines();
            let speaks = |name: &String| lines.iter().any(|line| line.starts_with(name.as_str()));
            Ok(others.iter().any(speaks).then_some(()))
        })
        .await?;
    }
    site.account_for("operators", "0.4.0").await
}

/// Containers go on while nobody watches them, and the cluster believes the node lost.
pub async fn kubelet_stopped(site: &NodeSite) -> Result<()> {
    let Some(node) = &site.node else {
        tell("left out: this cluster's kubelets are not ours to stop");
        return Ok(());
    };
    let spec = json!({ "rollout": { "maxParallel": 2 }, "retry": { "backoffSeconds": 1 } });
    site.field.flash("kubelet", "0.5.0", spec).await?;
    site.flashed("0.5.0", 1).await?;
    eventually("a flash Pod to run", PATIENCE, async || {
        let pods = site.pods().list(&ListParams::default()).await?.items;
        let runs = |status: k8s_openapi::api::core::v1::PodStatus| {
            status.phase.as_deref() == Some("Running")
        };
        Ok(pods.into_iter().any(|pod| pod.status.is_some_and(runs)).then_some(()))
    })
    .await?;
    tell("the kubelet is stopped until the cluster misses the node");
    node.stop_kubelet();
    node.until_ready(false).await?;
    tell("the kubelet is started again");
    node.start_kubelet()?;
    node.until_ready(true).await?;
    site.account_for("kubelet", "0.5.0").await
}
