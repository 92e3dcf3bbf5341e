//! The roll on its way to and from its ConfigMaps, in our own namespace: when devices were heard of last. What it means is decided
//! in `plan`.

use std::collections::BTreeMap;

use flashjob_plan::edge::heartbeat::roll::{self, LABEL};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::slim;
use crate::engine::pool::Caller;
use crate::engine::read;
use crate::process::client::error_message;

/// A ConfigMap of the roll has up to two thirds of a mebibyte.
const PAGE: u32 = 5;

/// What was read at the start, by shard.
pub struct RollLoaded(pub BTreeMap<u16, BTreeMap<String, String>>);

/// Reads all of it.
pub async fn load(caller: &Caller, home: &str) -> kube::Result<RollLoaded> {
    let api: Api<slim::ConfigMap> = Api::namespaced(caller.client.clone(), home);
    let shard = |map: slim::ConfigMap| {
        let shard = roll::shard_of(&map.name_any())?;
        Some((shard, map.data.unwrap_or_default()))
    };
    let maps = read::list(caller, &api, &format!("{LABEL}=true"), PAGE, shard).await?;
    Ok(RollLoaded(maps.into_iter().collect()))
}

/// Writes one shard. The error is a sentence.
pub async fn write(
    caller: Caller,
    home: String,
    shard: u16,
    data: BTreeMap<String, String>,
) -> Result<(), String> {
    let name = roll::config_map(shard);
    let api: Api<ConfigMap> = Api::namespaced(caller.client.clone(), &home);
    let mut map = json!({ "metadata": { "labels": { (LABEL): "true" } }, "data": data });
    let (params, patch) = (PatchParams::default(), Patch::Merge(&map));
    match caller.call(api.patch_metadata(&name, &params, &patch)).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => {}
        patched => return patched.map(drop).map_err(|error| error_message(&error)),
    }
    map["metadata"]["name"] = json!(name);
    let map: ConfigMap = serde_json::from_value(map).map_err(|error| error.to_string())?;
    let created = caller.call(api.create(&PostParams::default(), &map)).await;
    created.map(drop).map_err(|error| error_message(&error))
}
