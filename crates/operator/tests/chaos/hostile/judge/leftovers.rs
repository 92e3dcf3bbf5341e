//! What is left when jobs are finished, and when they are deleted: nothing.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::Result;
use flashjob_sim::eventually;
use flashjob_sim::flashjob::Site;
use flashjob_sim::flashjob::field::Field;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::super::world::World;

/// Everything the operator makes has it.
const OURS: &str = "application.flashjob.nbfc.io/job-uid";
const PATIENCE: Duration = Duration::from_secs(90);

async fn ours<K>(site: &Site<Field>) -> Result<Vec<String>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let all: Api<K> = Api::all(site.client.clone());
    let list = all.list_metadata(&ListParams::default().labels(OURS)).await?;
    let kind = K::kind(&());
    Ok(list.items.iter().map(|object| format!("{kind} {}", object.name_any())).collect())
}

/// Pods and Services go with the end of their attempts.
async fn at_work(site: &Site<Field>) -> Result<Vec<String>> {
    Ok([ours::<Pod>(site).await?, ours::<Service>(site).await?].concat())
}

/// Waits until nothing is there; what is, if that is in vain.
async fn until_gone(
    what: &str,
    list: impl AsyncFn() -> Result<Vec<String>>,
) -> Result<Option<String>> {
    let gone = eventually(what, PATIENCE, async || Ok(list().await?.is_empty().then_some(())));
    match gone.await {
        Ok(()) => Ok(None),
        Err(_) => Ok(Some(format!("left behind, {what}: {}", list().await?.join(", ")))),
    }
}

/// Deletes the jobs; what is left before or after.
pub async fn after(site: &Site<Field>, world: &World) -> Result<Vec<String>> {
    let mut left = Vec::new();
    left.extend(until_gone("by finished jobs", async || at_work(site).await).await?);
    for job in &world.jobs {
        site.jobs_in(job.namespace).delete(job.name, &DeleteParams::default()).await?;
    }
    let there = async || {
        let mut there = Vec::new();
        for job in &world.jobs {
            there.extend(
                site.jobs_in(job.namespace).get_opt(job.name).await?.map(|job| job.name_any()),
            );
        }
        Ok(there)
    };
    left.extend(until_gone("jobs that were deleted", there).await?);
    left.extend(at_work(site).await?);
    // The ledgers go by ownership: the real garbage collector has to see it so.
    if let Some(_collector) = site.cluster.controller_manager(&["garbagecollector"]).await? {
        left.extend(until_gone("by deleted jobs", async || ours::<ConfigMap>(site).await).await?);
    }
    Ok(left)
}
