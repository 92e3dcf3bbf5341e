//! The roll on its way to and from its ConfigMaps, in our own namespace: when devices were heard of last. What it means is decided
//! in `plan`.

use std::collections::BTreeMap;

use flashjob_plan::edge::heartbeat::roll::{self, LABEL};
use kube::{Api, ResourceExt};

use super::{config_map, slim};
use crate::engine::pool::Caller;
use crate::engine::read;

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
    config_map::put(caller, home, &roll::config_map(shard), LABEL, data).await
}
