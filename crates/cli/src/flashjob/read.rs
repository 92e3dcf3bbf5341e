//! Reads jobs, devices and ledgers.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Result, bail};
use flashjob_api::flashjob::{FlashJob, FlashJobStatus, instance};
use flashjob_plan::flashjob::instances::Instance;
use flashjob_plan::flashjob::ledger::Ledger;
use flashjob_plan::flashjob::names;
use futures::Stream;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use crate::flashjob::SYSTEM;
use crate::read::{Scope, changes_of, dynamic, in_scope, pages};

/// A FlashJob as far as it can be read, whatever its spec is.
#[derive(Clone, Debug)]
pub struct JobObject {
    pub metadata: ObjectMeta,
    pub spec: Value,
    pub status: FlashJobStatus,
}

impl JobObject {
    fn of(object: DynamicObject) -> JobObject {
        let DynamicObject { metadata, mut data, .. } = object;
        let status = serde_json::from_value(data["status"].take()).unwrap_or_default();
        JobObject { metadata, spec: data["spec"].take(), status }
    }

    /// `namespace/name`.
    pub fn path(&self) -> String {
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        format!("{namespace}/{}", self.name())
    }

    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The status speaks of the spec as it is now.
    pub fn is_current(&self) -> bool {
        self.status.observed_generation == self.metadata.generation
    }
}

impl From<FlashJob> for JobObject {
    fn from(job: FlashJob) -> JobObject {
        let spec = serde_json::to_value(&job.spec).unwrap_or_default();
        JobObject { metadata: job.metadata, spec, status: job.status.unwrap_or_default() }
    }
}

/// FlashJobs, read so that none can spoil a list.
pub fn jobs(client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
    dynamic::<FlashJob>(client, namespace)
}

/// Akri's Instances, likewise.
pub fn instances(client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
    dynamic::<instance::Instance>(client, namespace)
}

pub async fn job(client: &Client, namespace: &str, name: &str) -> Result<JobObject> {
    match jobs(client, Some(namespace)).get_opt(name).await {
        Ok(Some(object)) => Ok(JobObject::of(object)),
        Ok(None) => bail!(
            "there is no FlashJob {name} in namespace {namespace}; `kubectl get fj -A` lists them all"
        ),
        Err(kube::Error::Api(status)) if status.code == 404 => Err(SYSTEM.not_served("FlashJobs")),
        Err(error) => Err(SYSTEM.failed(format!("cannot read FlashJob {name}"), &error)),
    }
}

/// All jobs in scope. What could not be seen is put into `notes`.
pub async fn all_jobs(
    client: &Client,
    scope: Scope<'_>,
    notes: &mut Vec<String>,
) -> Result<Vec<JobObject>> {
    let list = |namespace: Option<String>| {
        let api = jobs(client, namespace.as_deref());
        async move { pages(&api, "").await }
    };
    let found = in_scope(&SYSTEM, "FlashJobs", scope, notes, list).await;
    Ok(found?.into_iter().map(JobObject::of).collect())
}

/// All devices in scope, in the order of namespace and name.
pub async fn all_instances(
    client: &Client,
    scope: Scope<'_>,
    selector: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<Instance>> {
    let list = |namespace: Option<String>| {
        let api = instances(client, namespace.as_deref());
        async move { pages(&api, selector).await }
    };
    let mut all = Vec::new();
    for object in in_scope(&SYSTEM, "Akri's Instances", scope, notes, list).await? {
        let path = format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any());
        match read_instance(object) {
            Ok(instance) => all.push(instance),
            Err(error) => notes.push(format!("the Instance {path} cannot be read: {error}")),
        }
    }
    all.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(all)
}

/// One Instance as the operator reads it.
pub fn read_instance(object: DynamicObject) -> Result<Instance, serde_json::Error> {
    let DynamicObject { metadata, mut data, .. } = object;
    Instance::read(metadata, data["spec"].take())
}

/// Something each time a device or a job has changed.
pub fn changes(client: &Client, namespace: Option<&str>) -> impl Stream<Item = ()> + Unpin {
    let devices = changes_of::<instance::Instance>(client, namespace);
    futures::stream::select(devices, changes_of::<FlashJob>(client, namespace))
}

/// The ledgers of jobs, by the job's uid. `None`: they may not be read.
pub async fn ledgers(
    client: &Client,
    scope: Scope<'_>,
    notes: &mut Vec<String>,
) -> Result<Option<HashMap<String, Ledger>>> {
    let list = |namespace: Option<String>| {
        let api: Api<ConfigMap> = match namespace {
            Some(namespace) => Api::namespaced(client.clone(), &namespace),
            None => Api::all(client.clone()),
        };
        async move { pages(&api, names::SHARD).await }
    };
    let mut more = Vec::new();
    match in_scope(&SYSTEM, "the jobs' ledgers", scope, &mut more, list).await {
        Ok(maps) => {
            notes.append(&mut more);
            Ok(Some(put_together(maps)))
        }
        Err(_) => {
            notes.push(
                "ConfigMaps may not be read, and with them not what jobs remember: results of devices that Akri has found \
                 again since may be missing"
                    .to_owned(),
            );
            Ok(None)
        }
    }
}

/// The ledger of one job, if it has one and it can be read.
pub async fn ledger(client: &Client, job: &JobObject) -> kube::Result<Option<Ledger>> {
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let selector = format!("{},{}={}", names::SHARD, names::JOB_UID, job.uid());
    let maps = pages(&maps, &selector).await?;
    Ok(put_together(maps).remove(job.uid()))
}

fn put_together(maps: Vec<ConfigMap>) -> HashMap<String, Ledger> {
    let mut shards: HashMap<String, BTreeMap<usize, BTreeMap<String, String>>> = HashMap::new();
    for map in maps {
        let label = |name: &str| map.labels().get(name).cloned().unwrap_or_default();
        let (job, shard) = (label(names::JOB_UID), label(names::SHARD));
        if let Ok(shard) = shard.parse() {
            shards.entry(job).or_default().insert(shard, map.data.unwrap_or_default());
        }
    }
    // One that is being made, or broken, is none.
    let read = shards.into_iter().filter_map(|(job, shards)| {
        let ledger = Ledger::read(&job.as_str().into(), shards.values()).ok()?;
        Some((job, ledger))
    });
    read.collect()
}
