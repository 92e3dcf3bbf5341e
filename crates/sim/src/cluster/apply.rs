//! `kubectl apply` for tests: whole manifests as they stand in the repository, by server-side apply.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiCapabilities, Scope, pinned_kind};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use crate::wait::eventually;

const MANAGER: &str = "sim";

/// Applies every document in order. `namespace` wins over what a namespaced document says.
pub(crate) async fn apply(client: &Client, namespace: Option<&str>, yaml: &str) -> Result<()> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(yaml).context("cannot read the manifest")?;
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        apply_one(client, namespace, document).await?;
    }
    Ok(())
}

async fn apply_one(client: &Client, namespace: Option<&str>, document: Value) -> Result<()> {
    let mut object: DynamicObject =
        serde_json::from_value(document).context("a document of the manifest is no object")?;
    let types =
        object.types.as_ref().context("a document of the manifest has no apiVersion and kind")?;
    let gvk = GroupVersionKind::try_from(types)?;
    let (resource, capabilities): (_, ApiCapabilities) =
        pinned_kind(client, &gvk).await.with_context(|| {
            format!("the API server knows no kind {} in {}", gvk.kind, gvk.api_version())
        })?;
    let api: Api<DynamicObject> = if capabilities.scope == Scope::Namespaced {
        let namespace = namespace
            .map(str::to_owned)
            .or_else(|| object.namespace())
            .unwrap_or_else(|| "default".to_owned());
        object.metadata.namespace = Some(namespace.clone());
        Api::namespaced_with(client.clone(), &namespace, &resource)
    } else {
        Api::all_with(client.clone(), &resource)
    };
    let name = object
        .metadata
        .name
        .clone()
        .with_context(|| format!("a {} of the manifest has no name", gvk.kind))?;
    let failed = || format!("cannot apply {} {name}", gvk.kind);
    if gvk.kind == "CustomResourceDefinition" {
        define(&api, &name, object).await.with_context(failed)?;
        return established(client, &api, &name).await;
    }
    let params = PatchParams::apply(MANAGER).force();
    api.patch(&name, &params, &Patch::Apply(&object)).await.with_context(failed)?;
    Ok(())
}

/// Creates or replaces a CRD. Server-side apply would not do: servers before 1.23 refuse to apply a CRD with rules they do
/// not know, but create one and drop the rules.
async fn define(api: &Api<DynamicObject>, name: &str, mut object: DynamicObject) -> Result<()> {
    if let Some(old) = api.get_opt(name).await? {
        object.metadata.resource_version = old.metadata.resource_version;
        api.replace(name, &PostParams::default(), &object).await?;
    } else {
        api.create(&PostParams::default(), &object).await?;
    }
    Ok(())
}

/// A new kind can be used a little after its definition is stored: when it is Established, and found by discovery.
async fn established(client: &Client, definitions: &Api<DynamicObject>, name: &str) -> Result<()> {
    let what = format!("the CRD {name} to be established");
    eventually(&what, Duration::from_secs(30), || async {
        let definition = definitions.get(name).await?;
        let conditions = definition.data["status"]["conditions"].as_array();
        let established = conditions
            .into_iter()
            .flatten()
            .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
        if !established {
            return Ok(None);
        }
        for version in served_versions(&definition)? {
            if pinned_kind(client, &version).await.is_err() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })
    .await
}

fn served_versions(definition: &DynamicObject) -> Result<Vec<GroupVersionKind>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let spec = &definition.data["spec"];
    let of = |version: &Value| {
        Some(GroupVersionKind::gvk(
            &text(&spec["group"])?,
            &text(&version["name"])?,
            &text(&spec["names"]["kind"])?,
        ))
    };
    let versions = spec["versions"].as_array().into_iter().flatten();
    versions
        .filter(|version| version["served"] == true)
        .map(|version| of(version).ok_or_else(|| anyhow!("a CRD without group, version or kind")))
        .collect()
}
