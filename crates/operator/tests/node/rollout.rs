//! A rollout as it should be.

use anyhow::Result;
use serde_json::json;

use crate::site::NodeSite;

pub async fn in_batches(site: &NodeSite) -> Result<()> {
    let spec = json!({ "rollout": { "batchSize": 2, "delaySeconds": 1 } });
    site.field.flash("batches", "0.2.0", spec).await?;
    site.account_for("batches", "0.2.0").await
}
