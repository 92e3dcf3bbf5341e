//! ConfigMaps of our own namespace that nobody else writes to.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::engine::pool::Caller;
use crate::process::client::error_message;

/// Writes this into a ConfigMap with this label, and makes it if it is not there. The error is a sentence.
pub async fn put(
    caller: Caller,
    home: String,
    name: &str,
    label: &str,
    data: BTreeMap<String, String>,
) -> Result<(), String> {
    let api: Api<ConfigMap> = Api::namespaced(caller.client.clone(), &home);
    let mut map = json!({ "metadata": { "labels": { (label): "true" } }, "data": data });
    let (params, patch) = (PatchParams::default(), Patch::Merge(&map));
    match caller.call(api.patch_metadata(name, &params, &patch)).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => {}
        patched => return patched.map(drop).map_err(|error| error_message(&error)),
    }
    map["metadata"]["name"] = json!(name);
    let map: ConfigMap = serde_json::from_value(map).map_err(|error| error.to_string())?;
    let created = caller.call(api.create(&PostParams::default(), &map)).await;
    created.map(drop).map_err(|error| error_message(&error))
}
