use anyhow::{Context, Result};
use flashjob_sim::cluster::Cluster;
use flashjob_sim::eventually;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use kube::{Api, Resource};

use crate::LIMIT;

#[tokio::test]
async fn what_is_owned_goes_with_its_owner() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let Some(_manager) = cluster.controller_manager(&["garbagecollector"]).await? else {
        return Ok(());
    };
    let namespace = cluster.namespace("owned").await?;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client("admin")?, &namespace);
    let map = |name: &str| ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    let owner = maps.create(&PostParams::default(), &map("owner")).await?;
    let mut owned = map("owned");
    let reference = owner.controller_owner_ref(&()).context("no reference")?;
    owned.metadata.owner_references = Some(vec![reference]);
    maps.create(&PostParams::default(), &owned).await?;
    maps.delete("owner", &Default::default()).await?;
    eventually("the owned object to go", LIMIT, || async {
        Ok(maps.get_opt("owned").await?.is_none().then_some(()))
    })
    .await
}
