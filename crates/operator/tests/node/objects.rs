//! Everything a cluster has, by name.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use kube::api::{DynamicObject, ListParams};
use kube::discovery::{Discovery, verbs};
use kube::{Api, Client, ResourceExt};

/// `kind.group namespace/name` of every object there is. Events are left out: they go by themselves, later.
pub async fn all(client: &Client) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let kinds = Discovery::new(client.clone()).run().await.context("no discovery")?;
    for group in kinds.groups() {
        for (kind, capabilities) in group.recommended_resources() {
            if kind.kind == "Event" || !capabilities.supports_operation(verbs::LIST) {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
            let listed = api.list(&ListParams::default()).await;
            // A kind whose CRD has just gone has no objects.
            let listed = match listed {
                Err(kube::Error::Api(status)) if status.is_not_found() => continue,
                other => other.with_context(|| format!("cannot list {}", kind.plural))?,
            };
            found.extend(listed.items.iter().map(|object| {
                let namespace = object.namespace().unwrap_or_default();
                format!("{}.{} {namespace}/{}", kind.kind, kind.group, object.name_any())
            }));
        }
    }
    Ok(found)
}
