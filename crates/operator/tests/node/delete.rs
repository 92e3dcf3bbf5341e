//! Taking everything away.

use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_sim::eventually;
use serde_json::json;

use crate::site::{NAMESPACE, NodeSite, SYSTEM};
use crate::{objects, tell};

const PATIENCE: Duration = Duration::from_secs(180);

/// With one job that is finished and one in the middle of its work.
pub async fn everything(site: &NodeSite) -> Result<()> {
    site.field.flash("finished", "0.6.0", json!({})).await?;
    let status = site.field.finished("finished", crate::PATIENCE).await?;
    site.field.agrees(&status, "0.6.0")?;
    site.field.flash("at-work", "0.7.0", json!({ "rollout": { "maxParallel": 2 } })).await?;
    site.flashed("0.7.0", 1).await?;

    tell("make undeploy");
    site.kubectl.make("undeploy", &[])?;
    site.field.withdraw_akri().await?;
    site.kubectl.run(&["delete", "namespace", NAMESPACE, "--wait=false"])?;
    if site.akri_is_ours {
        site.kubectl.run(&["delete", "crd", "instances.akri.sh", "--wait=false"])?;
    }
    let mut left = Vec::new();
    let gone = eventually("the cluster to be as it was", PATIENCE, async || {
        // While a kind goes, what the API server says of its kinds does not fit together.
        let now = match objects::all(&site.client).await {
            Ok(now) => now,
            Err(error) => {
                left = vec![format!("{error:#}")];
                return Ok(None);
            }
        };
        left = now.difference(&site.before).cloned().collect();
        // Others may be at work in a cluster that is not ours.
        left.retain(|object| {
            site.node.is_some() || object.contains("flashjob") || object.contains(SYSTEM)
        });
        Ok(left.is_empty().then_some(()))
    });
    gone.await.with_context(|| format!("still there: {left:#?}"))
}
