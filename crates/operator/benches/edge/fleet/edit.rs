//! An edit of a workload that all devices run, while each of them waits for news of its configuration.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use flashjob_sim::edge::{Client, Protocol};
use futures::{StreamExt, TryStreamExt, stream};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::load::Record;
use super::member::{Kind, Member};
use super::{Fleet, PARALLEL};
use crate::bed::quantile;

const NAME: &str = "load";
/// For all to have it.
const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Edit {
    pub devices: usize,
    /// From the edit until a device has the new configuration.
    pub median_seconds: f64,
    pub p99_seconds: f64,
    pub worst_seconds: f64,
    /// Until all is written that devices say of it.
    pub written_seconds: f64,
    pub writes_each: f64,
    /// By verb and resource, and what they were answered.
    pub writes: BTreeMap<String, usize>,
    pub cpu_ms_each: f64,
}

pub async fn measure(fleet: &Fleet) -> Result<Edit> {
    let kind = GroupVersionKind::gvk("management.project-flotta.io", "v1alpha1", "EdgeDeployment");
    let resource = ApiResource::from_gvk_with_plural(&kind, "edgedeployments");
    let api: Api<DynamicObject> =
        Api::namespaced_with(fleet.site.client.clone(), &fleet.site.namespace, &resource);
    let crowd = Crowd::wait(fleet).await?;
    let made = json!({
        "apiVersion": "management.project-flotta.io/v1alpha1", "kind": "EdgeDeployment",
        "metadata": { "name": NAME },
        "spec": { "type": "pod", "deviceSelector": {}, "pod": pod("registry.example/load:1") },
    });
    api.create(&PostParams::default(), &serde_json::from_value(made)?).await?;
    crowd.all_have_it().await?;
    fleet.rest().await?;

    let (at, began, before) = (flashjob_sim::clock::now(), Instant::now(), fleet.target().usage()?);
    crowd.edited(began);
    let edit = json!({ "spec": { "pod": pod("registry.example/load:2") } });
    api.patch(NAME, &PatchParams::default(), &Patch::Merge(edit)).await?;
    let seconds: Vec<f64> =
        crowd.all_have_it().await?.iter().map(|millis| millis / 1000.0).collect();
    fleet.rest().await?;
    let writes = fleet.writes_since(at).await?;
    let last = writes.iter().map(|entry| entry.at).max().unwrap_or(at);
    let mut kinds = BTreeMap::new();
    for entry in &writes {
        *kinds.entry(format!("{} {}", entry.kind(), entry.code)).or_default() += 1;
    }
    let cpu = fleet.target().usage()?.cpu_seconds - before.cpu_seconds;
    let count = fleet.members.len();
    Ok(Edit {
        devices: count,
        median_seconds: quantile(&seconds, 0.5),
        p99_seconds: quantile(&seconds, 0.99),
        worst_seconds: quantile(&seconds, 1.0),
        written_seconds: at.duration_until(last).as_secs_f64(),
        writes_each: writes.len() as f64 / count as f64,
        writes: kinds,
        cpu_ms_each: cpu * 1000.0 / count as f64,
    })
}

fn pod(image: &str) -> serde_json::Value {
    json!({ "spec": { "containers": [{ "name": "load", "image": image }] } })
}

/// All members, each with a question that is held. They stop asking when this is dropped.
struct Crowd {
    count: usize,
    have: Arc<AtomicUsize>,
    edited: tokio::sync::watch::Sender<Instant>,
    record: Record,
    _tasks: JoinSet<()>,
}

impl Crowd {
    async fn wait(fleet: &Fleet) -> Result<Crowd> {
        let address = fleet.operator.address;
        let open = async |member: &Member| {
            let client = member.client(address, Protocol::H1)?;
            member.open(&client).await?;
            anyhow::Ok(client)
        };
        let clients = stream::iter(&fleet.members).map(|member| open(member)).buffered(PARALLEL);
        let clients: Vec<Client> = clients.try_collect().await?;
        let (have, record, mut tasks) =
            (Arc::new(AtomicUsize::new(0)), Record::default(), JoinSet::new());
        let (edited, since) = tokio::sync::watch::channel(Instant::now());
        for (member, client) in fleet.members.iter().cloned().zip(clients) {
            let (have, record, since) = (have.clone(), record.clone(), since.clone());
            tasks.spawn(async move {
                loop {
                    let told = async {
                        let Some(answer) = member.news(&client).await? else { return Ok(()) };
                        record.take(*since.borrow(), Ok(()));
                        have.fetch_add(1, Relaxed);
                        member.take(&answer)?;
                        member.ask(&client, Kind::Heartbeat).await.map(drop)
                    };
                    if let Err(error) = told.await {
                        println!("  {}: {error:#}", member.id);
                        sleep(Duration::from_secs(1)).await;
                    }
                }
            });
        }
        sleep(Duration::from_secs(2)).await;
        Ok(Crowd { count: fleet.members.len(), have, edited, record, _tasks: tasks })
    }

    /// What comes from now on is because of this.
    fn edited(&self, at: Instant) {
        self.have.store(0, Relaxed);
        self.record.millis();
        self.edited.send_replace(at);
    }

    /// Waits until all have been told once. When each was, in milliseconds.
    async fn all_have_it(&self) -> Result<Vec<f64>> {
        let all = async {
            while self.have.load(Relaxed) < self.count {
                sleep(Duration::from_millis(50)).await;
            }
        };
        let waited = timeout(PATIENCE, all).await;
        let (have, count) = (self.have.load(Relaxed), self.count);
        waited.with_context(|| format!("{have} of {count} have the configuration"))?;
        ensure!(have == count, "{have} were told, and there are {count}");
        Ok(self.record.millis())
    }
}
