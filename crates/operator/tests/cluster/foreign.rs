//! What a stranger makes in another namespace, with our labels, the job's uid and whatever else there is to copy, is not
//! the job's: it completes nothing, gives no address, is no ledger, and is neither adopted nor deleted.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use flashjob_api::flashjob::{FlashJob, FlashJobStatus, Phase};
use flashjob_plan::flashjob::ids::Target;
use flashjob_plan::flashjob::names;
use flashjob_sim::cluster::Cluster;
use flashjob_sim::flashjob::Site;
use flashjob_sim::node::{Script, ScriptEnd};
use flashjob_sim::{Operator, PATIENCE, eventually};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use flashjob_sim::http::{answers, free_address};

/// Comes after the victim's namespace in every list, so that what is here would be what counts.
const STRANGER: &str = "villain";
const VICTIM: &str = "victim";

/// A cluster with two tenants, a victim's site, and an operator for all namespaces.
struct Tenants {
    site: Site,
    metrics: SocketAddr,
    operator: Operator,
}

impl Tenants {
    async fn new() -> Result<Tenants> {
        let cluster = Cluster::start().await?;
        cluster.install().await?;
        cluster.make_namespace(STRANGER).await?;
        let site = Site::on(&cluster).namespace(VICTIM);
        let site = site.start(|_| Script::ending(ScriptEnd::Never)).await?;
        let metrics = free_address().await?;
        let operator = start(&cluster, metrics).await?;
        Ok(Tenants { site, metrics, operator })
    }

    async fn operator_comes_back(&mut self) -> Result<()> {
        self.operator = start(&self.site.cluster, self.metrics).await?;
        Ok(())
    }

    /// The stranger makes a copy of an object in its own namespace, with this status.
    async fn forge<K>(&self, original: &K, status: Value) -> Result<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.site.client.clone(), STRANGER);
        let mut copy = original.clone();
        copy.meta_mut().resource_version = None;
        copy.meta_mut().uid = None;
        copy.meta_mut().namespace = Some(STRANGER.into());
        let made = api.create(&PostParams::default(), &copy).await?;
        let status = Patch::Merge(json!({ "status": status }));
        match K::kind(&()).as_ref() {
            "ConfigMap" => Ok(made),
            _ => Ok(api.patch_status(&made.name_any(), &PatchParams::default(), &status).await?),
        }
    }

    /// Waits until the operator has told the job's owner of a foreign object of this kind, once.
    async fn told(&self, job: &FlashJob, kind: &str) -> Result<()> {
        let counted = format!("flashjob_foreign_objects_total{{kind=\"{kind}\"}}");
        if let Err(error) = answers(self.metrics, "/metrics", 200, &counted).await {
            let status = self.site.jobs().get_status(&job.name_any()).await?.status;
            return Err(error.context(format!("the job says {status:#?}")));
        }
        let events = self.site.api::<Event>();
        let told = eventually("the foreign object to be told", PATIENCE, async || {
            let events = events.list(&ListParams::default()).await?.items;
            let told = |e: &Event| e.reason.as_deref() == Some("ForeignObject");
            let told: Vec<Event> = events.into_iter().filter(told).collect();
            Ok((!told.is_empty()).then_some(told))
        });
        let told = told.await?;
        assert_eq!(told.len(), 1, "{told:#?}");
        assert_eq!(told[0].type_.as_deref(), Some("Warning"));
        assert_eq!(told[0].regarding.as_ref().and_then(|r| r.uid.clone()), job.uid());
        let note = told[0].note.clone().unwrap_or_default();
        assert!(note.contains(&format!("{kind} {STRANGER}/")) && note.contains(VICTIM), "{note}");
        Ok(())
    }

    /// The stranger's object is as the stranger made it.
    async fn untouched<K>(&self, forged: &K) -> Result<()>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.site.client.clone(), STRANGER);
        let now = api.get_opt(&forged.name_any()).await?.context("it was deleted")?;
        assert_eq!(now.resource_version(), forged.resource_version());
        Ok(())
    }
}

async fn start(cluster: &Cluster, metrics: SocketAddr) -> Result<Operator> {
    let flag = format!("--metrics-bind-address={metrics}");
    Operator::start(cluster, &["--leader-elect=false", &flag]).await
}

/// As a container that ended well.
fn ended_well() -> Value {
    let ended =
        json!({ "exitCode": 0, "reason": "Completed", "finishedAt": "2030-01-01T00:00:00Z" });
    json!({ "phase": "Succeeded", "containerStatuses": [{
        "name": "flash-container", "image": "x", "imageID": "x", "ready": false, "restartCount": 0,
        "state": { "terminated": ended },
    }] })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_another_namespace_completes_nothing() -> Result<()> {
    let mut tenants = Tenants::new().await?;
    let boards = tenants.site.boards(1).await?;
    let job = tenants.site.flash("flashjob", &boards).await?;
    let start = tenants.site.kubelet.started(1).await.remove(0);
    let pods = tenants.site.api::<Pod>();
    let pod = pods.get(&start.pod).await?;
    let forged = tenants.forge(&pod, ended_well()).await?;
    tenants.told(&job, "Pod").await?;

    // A process that finds it there knows as much. The event is told once by each, and counted in one.
    tenants.operator.kill();
    tenants.operator_comes_back().await?;
    answers(tenants.metrics, "/metrics", 200, "flashjob_foreign_objects_total{kind=\"Pod\"} 1\n")
        .await?;
    let at_work = |s: &FlashJobStatus| s.counts.is_some_and(|c| c.flashing == 1);
    tenants.site.status("flashjob", "the true Pod to be at work", at_work).await?;
    let status = tenants.site.jobs().get("flashjob").await?.status.context("no status")?;
    assert_eq!(status.phase, Some(Phase::InProgress), "{status:#?}");
    assert_eq!(status.counts.map(|c| c.succeeded), Some(0));
    assert!(pods.get(&start.pod).await?.metadata.deletion_timestamp.is_none());
    tenants.untouched(&forged).await
}

/// Such a Pod could be left by a job that is gone. It may keep the jobs of its own namespace waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_no_job_holds_no_board_of_another_namespace() -> Result<()> {
    let tenants = Tenants::new().await?;
    let boards = tenants.site.boards(1).await?;
    let uid = "4c0f3b8a-0000-4000-8000-000000000000";
    let target = Target::read("0123456789ab").context("no target")?;
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": names::pod("gone", target, 1),
            "labels": { names::JOB_UID: uid, names::TARGET: target.as_str(), names::ATTEMPT: "1" },
            "ownerReferences": [{
                "apiVersion": "application.flashjob.nbfc.io/v1alpha1", "kind": "FlashJob",
                "name": "gone", "uid": uid, "controller": true,
            }],
        },
        "spec": { "containers": [{
            "name": "flash-container", "image": "x",
            "env": [{ "name": "HOST_ENDPOINT", "value": "192.0.2.11" }],
        }] },
    }))?;
    let running = json!({ "phase": "Running", "containerStatuses": [{
        "name": "flash-container", "image": "x", "imageID": "x", "ready": true, "restartCount": 0,
        "state": { "running": { "startedAt": "2026-11-15T09:36:31Z" } },
    }] });
    let forged = tenants.forge(&pod, running).await?;
    tenants.site.flash("flashjob", &boards).await?;
    let at_work = |s: &FlashJobStatus| s.counts.is_some_and(|c| c.flashing == 1);
    tenants.site.status("flashjob", "the board to be flashed", at_work).await?;
    tenants.untouched(&forged).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_of_another_namespace_gives_no_address() -> Result<()> {
    let tenants = Tenants::new().await?;
    tenants.site.balancer.withhold(None);
    let boards = tenants.site.boards(1).await?;
    let job = tenants.site.flash("flashjob", &boards).await?;
    let services = tenants.site.api::<Service>();
    let service = eventually("a Service", PATIENCE, async || {
        Ok(services.list(&ListParams::default()).await?.items.pop())
    });
    let mut service = service.await?;
    if let Some(spec) = &mut service.spec {
        (spec.cluster_ip, spec.cluster_ips) = (None, None);
        spec.ports.iter_mut().flatten().for_each(|port| port.node_port = None);
    }
    let address = json!({ "loadBalancer": { "ingress": [{ "ip": "203.0.113.66" }] } });
    let forged = tenants.forge(&service, address).await?;
    tenants.told(&job, "Service").await?;
    let pods = tenants.site.api::<Pod>();
    assert!(pods.list(&ListParams::default()).await?.items.is_empty(), "an address was taken");
    tenants.untouched(&forged).await?;

    // The true one gets its address, and the board is told that one.
    tenants.site.balancer.resume();
    let start = tenants.site.kubelet.started(1).await.remove(0);
    let pod = serde_json::to_string(&pods.get(&start.pod).await?)?;
    assert!(!pod.contains("203.0.113.66"), "{pod}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_of_another_namespace_is_not_the_jobs() -> Result<()> {
    let mut tenants = Tenants::new().await?;
    let boards = tenants.site.boards(1).await?;
    let job = tenants.site.flash("flashjob", &boards).await?;
    tenants.site.kubelet.started(1).await;
    // As if the device were done, and then some more of a ledger that is none.
    let mut shard = tenants.site.ledgers().await?.remove(0);
    let data = shard.data.get_or_insert_default();
    let mut device: Value = serde_json::from_str(&data["device-00000"])?;
    device["open"] = json!(false);
    device["outcome"] = json!("Succeeded");
    device["ended"] = json!("2026-11-15T09:36:31Z");
    data.retain(|key, _| !key.starts_with("permit-"));
    data.insert("device-00000".into(), device.to_string());
    let mut more = shard.clone();
    more.metadata.name = Some(names::ledger("flashjob", &job.uid().unwrap().into(), 1));
    more.labels_mut().insert(names::SHARD.into(), "1".into());
    more.data = Some([("device-00001".to_owned(), "nonsense".to_owned())].into());
    tenants.operator.kill();
    let forged =
        [tenants.forge(&shard, Value::Null).await?, tenants.forge(&more, Value::Null).await?];
    tenants.operator_comes_back().await?;

    tenants.operator.has_listed("pods", PATIENCE).await?;
    tenants.site.edit("flashjob", json!({ "timeouts": { "deviceSeconds": 900 } })).await?;
    let current = |s: &FlashJobStatus| s.observed_generation == Some(2);
    let status = tenants.site.status("flashjob", "the edit to be seen", current).await?;
    assert_eq!(status.phase, Some(Phase::InProgress), "{status:#?}");
    assert_eq!(status.counts.map(|c| (c.succeeded, c.flashing)), Some((0, 1)), "{status:#?}");
    for forged in &forged {
        tenants.untouched(forged).await?;
    }
    Ok(())
}
