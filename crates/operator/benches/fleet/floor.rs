//! The floor: what a rollout cannot cost less than.
//!
//! A bare loop over the devices, [`PARALLEL`] at a time. For each it creates a Service and a Pod and deletes the Pod and
//! the Service, as the operator's ServiceAccount, with the very bytes the operator sends, in a namespace with the same
//! kubelet and load balancer at work.
//!
//! It **is** the price of the four writes a device needs at the least, on this machine, now. It is **not** something an
//! operator could reach: it watches nothing, remembers nothing, and waits for nothing. It deletes a Pod whose container
//! has not ended, for which kubelet and load balancer have less to do, and do part of it after the loop has ended.
//!
//! That is why there is a second one, the **waiting floor**: the same loop, but a Pod is made when a watch has shown the
//! Service's address, and deleted when a watch has shown its end. It is what an operator without a memory would need.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result};
use flashjob_sim::lock;
use flashjob_sim::node::Script;
use futures::{StreamExt, TryStreamExt, pin_mut, stream};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::bed::{Bed, PARALLEL, patience, within};
use crate::template::Template;

/// Seconds for the four writes of each device.
pub async fn bare(bed: &Bed, template: &Template, devices: usize) -> Result<f64> {
    measure(bed, template, devices, false).await
}

/// The same with the waits between them.
pub async fn waiting(bed: &Bed, template: &Template, devices: usize) -> Result<f64> {
    measure(bed, template, devices, true).await
}

async fn measure(bed: &Bed, template: &Template, devices: usize, waits: bool) -> Result<f64> {
    let site = bed.site(Script::default()).await?;
    let maps: Api<ConfigMap> = Api::namespaced(site.client.clone(), &site.namespace);
    for shard in template.ledger(&site.namespace, devices) {
        maps.create(&PostParams::default(), &shard).await.context("no ledger for the floor")?;
    }
    let client = bed.cluster.client_with_token(&bed.operators.token)?;
    let floor = &Floor::new(client, &site.namespace, template, waits);
    let began = Instant::now();
    let all = stream::iter(0..devices)
        .map(|number| floor.device(number))
        .buffer_unordered(PARALLEL)
        .try_collect::<()>();
    within(patience(devices), "the floor", all).await??;
    Ok(began.elapsed().as_secs_f64())
}

struct Floor<'a> {
    template: &'a Template,
    namespace: &'a str,
    services: Api<Service>,
    pods: Api<Pod>,
    /// The watches, if they are waited for.
    watches: Option<(Watch, Watch)>,
}

impl<'a> Floor<'a> {
    fn new(client: Client, namespace: &'a str, template: &'a Template, waits: bool) -> Floor<'a> {
        let services: Api<Service> = Api::namespaced(client.clone(), namespace);
        let pods: Api<Pod> = Api::namespaced(client, namespace);
        let watches = waits.then(|| {
            (Watch::start(services.clone(), has_address), Watch::start(pods.clone(), has_ended))
        });
        Floor { template, namespace, services, pods, watches }
    }

    async fn device(&self, number: usize) -> Result<()> {
        let addresses = self.watches.as_ref().map(|(addresses, _)| addresses);
        let ends = self.watches.as_ref().map(|(_, ends)| ends);
        let service = self.template.service(self.namespace, number)?;
        let service = create(&self.services, &service, addresses).await?;
        let pod = self.template.pod(self.namespace, number)?;
        let pod = create(&self.pods, &pod, ends).await?;
        delete(&self.pods, &pod).await?;
        delete(&self.services, &service).await
    }
}

fn has_address(service: &Service) -> bool {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    balancer.is_some_and(|balancer| balancer.ingress.as_ref().is_some_and(|i| !i.is_empty()))
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Creates an object, and waits until it is as the watch looks for.
async fn create<K>(api: &Api<K>, object: &K, watch: Option<&Watch>) -> Result<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + serde::Serialize,
{
    let name = object.name_any();
    // Before the write: the watch may be faster than the answer.
    let ready = watch.map(|watch| watch.expect(&name));
    let created = api.create(&PostParams::default(), object).await;
    let created = created.with_context(|| format!("{name} was not created"))?;
    if let Some(ready) = ready {
        ready.await.context("the watch has ended")?;
    }
    Ok(created)
}

/// As the operator deletes: this very object.
async fn delete<K>(api: &Api<K>, object: &K) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let only_this = Preconditions { uid: object.uid(), resource_version: None };
    let params = DeleteParams::background().preconditions(only_this);
    let name = object.name_any();
    api.delete(&name, &params).await.with_context(|| format!("{name} was not deleted"))?;
    Ok(())
}

type Expected = Arc<Mutex<HashMap<String, oneshot::Sender<()>>>>;

/// Tells those who wait for an object that it is ready. It stops when dropped.
struct Watch {
    expected: Expected,
    task: JoinHandle<()>,
}

impl Watch {
    fn start<K>(api: Api<K>, is_ready: fn(&K) -> bool) -> Watch
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Send
            + 'static,
    {
        let expected = Expected::default();
        let waiting = expected.clone();
        let task = tokio::spawn(async move {
            let objects =
                watcher(api, watcher::Config::default()).default_backoff().applied_objects();
            pin_mut!(objects);
            while let Some(object) = objects.next().await {
                // The next list repairs what an error broke.
                let Ok(object) = object else { continue };
                if is_ready(&object)
                    && let Some(waiter) = lock(&waiting).remove(&object.name_any())
                {
                    // Whoever has given up does not wait.
                    let _ = waiter.send(());
                }
            }
        });
        Watch { expected, task }
    }

    fn expect(&self, name: &str) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        lock(&self.expected).insert(name.to_owned(), sender);
        receiver
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}
