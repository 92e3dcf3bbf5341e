//! Reads from the cluster: in pages, and as much of it as the user may see.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Result, anyhow, bail};
use flashjob_api::flashjob::{FlashJob, FlashJobStatus, instance};
use flashjob_plan::flashjob::instances::Instance;
use flashjob_plan::flashjob::ledger::Ledger;
use flashjob_plan::flashjob::names;
use futures::{Stream, StreamExt};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::connect::failed;

/// How many objects are asked for at once, as kubectl does.
const PAGE: u32 = 500;

/// Where to look.
#[derive(Clone, Copy)]
pub enum Scope<'a> {
    /// In all namespaces; where that is forbidden, in this one.
    All(&'a str),
    Only(&'a str),
}

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
    api(client, namespace, &ApiResource::erase::<FlashJob>(&()))
}

/// Akri's Instances, likewise.
pub fn instances(client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
    api(client, namespace, &ApiResource::erase::<instance::Instance>(&()))
}

fn api(client: &Client, namespace: Option<&str>, what: &ApiResource) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, what),
        None => Api::all_with(client.clone(), what),
    }
}

pub async fn job(client: &Client, namespace: &str, name: &str) -> Result<JobObject> {
    match jobs(client, Some(namespace)).get_opt(name).await {
        Ok(Some(object)) => Ok(JobObject::of(object)),
        Ok(None) => bail!(
            "there is no FlashJob {name} in namespace {namespace}; `kubectl get fj -A` lists them all"
        ),
        Err(kube::Error::Api(status)) if status.code == 404 => Err(not_served("FlashJobs")),
        Err(error) => Err(failed(format!("cannot read FlashJob {name}"), &error)),
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
    let found = in_scope("FlashJobs", scope, notes, list).await;
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
    for object in in_scope("Akri's Instances", scope, notes, list).await? {
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

fn changes_of<K>(client: &Client, namespace: Option<&str>) -> impl Stream<Item = ()> + Unpin
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let api: Api<PartialObjectMeta<K>> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    // From the end of the first list on; what came before may have been missed by who looked earlier. That the cluster does
    // not answer is seen by who looks.
    let is_change = |event: watcher::Result<watcher::Event<_>>| match event {
        Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_) | watcher::Event::InitDone) => {
            Some(())
        }
        _ => None,
    };
    let events = watcher(api, watcher::Config::default()).default_backoff();
    events.filter_map(move |event| std::future::ready(is_change(event))).boxed_local()
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
    match in_scope("the jobs' ledgers", scope, &mut more, list).await {
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

/// Lists everything, a page at a time.
pub async fn pages<K>(api: &Api<K>, selector: &str) -> kube::Result<Vec<K>>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut params = ListParams::default().labels(selector).limit(PAGE);
    let mut all = Vec::new();
    loop {
        let list = api.list(&params).await?;
        all.extend(list.items);
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

/// Lists in all namespaces, or where that is forbidden in one, and notes that.
async fn in_scope<K, L, F>(
    what: &str,
    scope: Scope<'_>,
    notes: &mut Vec<String>,
    list: L,
) -> Result<Vec<K>>
where
    L: Fn(Option<String>) -> F,
    F: Future<Output = kube::Result<Vec<K>>>,
{
    let (first, own) = match scope {
        Scope::All(own) => (None, own),
        Scope::Only(own) => (Some(own.to_owned()), own),
    };
    let everywhere = first.is_none();
    let found = match list(first).await {
        Err(kube::Error::Api(status)) if status.is_forbidden() && everywhere => {
            let found = list(Some(own.to_owned())).await;
            if found.is_ok() {
                notes.push(format!("you may see {what} of namespace {own} only"));
            }
            found
        }
        found => found,
    };
    found.map_err(|error| match &error {
        // By its code: where a group is not served, the answer is no Status, and has no reason.
        kube::Error::Api(status) if status.code == 404 => not_served(what),
        error => failed(format!("cannot list {what}"), error),
    })
}

fn not_served(what: &str) -> anyhow::Error {
    anyhow!(
        "the cluster does not know {what}: the CRD is not installed; see `kubectl flashjob check`"
    )
}
