use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_sim::cluster::Cluster;
use flashjob_sim::eventually;
use flashjob_sim::node::{End, Kubelet, Script};
use k8s_openapi::api::core::v1::{ConfigMap, ContainerState, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::timeout;

use crate::LIMIT;

/// A namespace, and a Pod in it that waits for a permit.
struct Bench {
    client: Client,
    namespace: String,
    pods: Api<Pod>,
}

impl Bench {
    async fn new() -> Result<Self> {
        let cluster = Cluster::shared().await?;
        let namespace = cluster.namespace("kubelet").await?;
        let client = cluster.client("kubelet")?;
        let pods = Api::namespaced(client.clone(), &namespace);
        Ok(Self { client, namespace, pods })
    }

    fn kubelet(&self, script: Script) -> Kubelet {
        Kubelet::start(self.client.clone(), &self.namespace, move |_| script.clone())
    }

    async fn create(&self, spec: serde_json::Value) -> Result<()> {
        let mut pod = json!({
            "metadata": { "name": "flash" },
            "spec": {
                "restartPolicy": "Never",
                "containers": [{
                    "name": "flash",
                    "image": "flasher",
                    "env": [
                        { "name": "HOST_ENDPOINT", "value": "10.0.0.1" },
                        { "name": "ATTEMPT", "value": "1" },
                    ],
                }],
            },
        });
        for (key, value) in spec.as_object().into_iter().flatten() {
            pod["spec"][key] = value.clone();
        }
        let pod = serde_json::from_value(pod)?;
        self.pods.create(&PostParams::default(), &pod).await?;
        Ok(())
    }

    async fn until(&self, what: &str, wanted: impl Fn(&Pod) -> bool) -> Result<Pod> {
        eventually(what, LIMIT, || async {
            let pod = self.pods.get("flash").await?;
            Ok(wanted(&pod).then_some(pod))
        })
        .await
    }
}

fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status.and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn state(pod: &Pod) -> ContainerState {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let state = statuses.and_then(|all| all.first()?.state.clone());
    state.unwrap_or_default()
}

fn waits_for(pod: &Pod, reason: &str) -> bool {
    state(pod).waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some(reason))
}

#[tokio::test]
async fn a_pod_waits_for_its_permit_and_then_runs_to_the_end() -> Result<()> {
    let bench = Bench::new().await?;
    let kubelet = bench.kubelet(Script::success("flashed").run_for(Duration::from_millis(200)));
    let permit = json!({ "configMapKeyRef": { "name": "ledger", "key": "permit-1" } });
    let container = json!({
        "name": "flash",
        "image": "flasher",
        "env": [
            { "name": "HOST_ENDPOINT", "value": "10.0.0.1" },
            { "name": "ATTEMPT", "value": "7" },
            { "name": "PERMIT", "valueFrom": permit },
        ],
        "envFrom": [{ "configMapRef": { "name": "flashjob-flasher", "optional": true } }],
    });
    bench.create(json!({ "containers": [container] })).await?;
    let message = |pod: &Pod| state(pod).waiting.and_then(|waiting| waiting.message);
    let pod = bench.until("no ConfigMap", |pod| message(pod).is_some()).await?;
    assert!(waits_for(&pod, "CreateContainerConfigError"));
    assert_eq!(message(&pod).as_deref(), Some("configmap \"ledger\" not found"));
    assert_eq!(phase(&pod), "Pending");

    let maps: Api<ConfigMap> = Api::namespaced(bench.client.clone(), &bench.namespace);
    let ledger =
        serde_json::from_value(json!({ "metadata": { "name": "ledger" }, "data": { "x": "y" } }))?;
    maps.create(&PostParams::default(), &ledger).await?;
    let missing = format!("couldn't find key permit-1 in ConfigMap {}/ledger", bench.namespace);
    bench.until("no key", |pod| message(pod).as_ref() == Some(&missing)).await?;
    assert_eq!(kubelet.starts(), []);

    let patch = Patch::Merge(json!({ "data": { "permit-1": "granted" } }));
    maps.patch("ledger", &PatchParams::default(), &patch).await?;
    let starts = timeout(LIMIT, kubelet.started(1)).await?;
    assert_eq!(starts[0].endpoint, "10.0.0.1");
    assert_eq!(starts[0].attempt, "7");
    assert_eq!(starts[0].env["PERMIT"], "granted");
    let pod = bench.until("the end", |pod| phase(pod) == "Succeeded").await?;
    let end = state(&pod).terminated.context("no terminated state")?;
    assert_eq!((end.exit_code, end.message.as_deref()), (0, Some("flashed")));
    assert_eq!(end.reason.as_deref(), Some("Completed"));
    assert!(end.started_at.is_some() && end.finished_at.is_some());
    assert_eq!(pod.spec.and_then(|spec| spec.node_name).as_deref(), Some("sim-node"));
    assert!(kubelet.starts()[0].ended_at.is_some());
    Ok(())
}

#[tokio::test]
async fn an_instant_pod_costs_two_writes() -> Result<()> {
    let bench = Bench::new().await?;
    let _kubelet = bench.kubelet(Script::failure(1, "no such board"));
    bench.create(json!({})).await?;
    let pod = bench.until("the end", |pod| phase(pod) == "Failed").await?;
    let end = state(&pod).terminated.context("no terminated state")?;
    assert_eq!((end.exit_code, end.message.as_deref()), (1, Some("no such board")));
    let mut writes = Cluster::shared().await?.writes(&bench.namespace)?;
    writes.retain(|entry| entry.resource == "pods" && entry.user == "kubelet");
    let writes: Vec<_> =
        writes.iter().map(|entry| (entry.verb.as_str(), entry.subresource.as_deref())).collect();
    let expected = [("create", None), ("create", Some("binding")), ("patch", Some("status"))];
    assert_eq!(writes, expected);
    Ok(())
}

#[tokio::test]
async fn a_deleted_pod_is_ended_and_removed() -> Result<()> {
    let bench = Bench::new().await?;
    let kubelet = bench.kubelet(Script::ending(End::Never));
    bench.create(json!({})).await?;
    let pod = bench.until("the start", |pod| phase(pod) == "Running").await?;
    assert!(state(&pod).running.is_some());
    bench.pods.delete("flash", &Default::default()).await?;
    eventually("the Pod to go", LIMIT, || async {
        Ok(bench.pods.get_opt("flash").await?.is_none().then_some(()))
    })
    .await?;
    let ended = kubelet.starts_when(|starts| starts.iter().all(|start| start.ended_at.is_some()));
    assert_eq!(timeout(LIMIT, ended).await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_deadline_ends_a_running_pod() -> Result<()> {
    let bench = Bench::new().await?;
    let _kubelet = bench.kubelet(Script::ending(End::Never));
    bench.create(json!({ "activeDeadlineSeconds": 1 })).await?;
    let pod = bench.until("the deadline", |pod| phase(pod) == "Failed").await?;
    let end = state(&pod).terminated.context("no terminated state")?;
    assert_eq!(end.exit_code, 143);
    let status = pod.status.context("no status")?;
    assert_eq!(status.reason.as_deref(), Some("DeadlineExceeded"));
    Ok(())
}

#[tokio::test]
async fn a_pod_past_its_deadline_is_failed_while_its_container_still_ends() -> Result<()> {
    let bench = Bench::new().await?;
    let slow = Script::ending(End::Never).on_sigterm(Duration::from_secs(2), 1, "cut off");
    let kubelet = bench.kubelet(slow);
    bench.create(json!({ "activeDeadlineSeconds": 1 })).await?;
    let pod = bench.until("the deadline", |pod| phase(pod) == "Failed").await?;
    assert!(state(&pod).running.is_some(), "{:?}", pod.status);
    let reason = pod.status.as_ref().and_then(|status| status.reason.as_deref());
    assert_eq!(reason, Some("DeadlineExceeded"));
    assert_eq!(kubelet.starts()[0].ended_at, None);
    let pod = bench.until("the end", |pod| state(pod).terminated.is_some()).await?;
    let end = state(&pod).terminated.context("no terminated state")?;
    assert_eq!((end.exit_code, end.message.as_deref()), (1, Some("cut off")));
    assert_eq!(phase(&pod), "Failed");
    Ok(())
}

#[tokio::test]
async fn a_sidecar_keeps_a_pod_running() -> Result<()> {
    let bench = Bench::new().await?;
    let kubelet = bench.kubelet(Script::success("flashed").sidecars_run_on());
    let container = |name: &str| json!({ "name": name, "image": "i" });
    bench.create(json!({ "containers": [container("flash"), container("proxy")] })).await?;
    let pod = bench.until("the end", |pod| state(pod).terminated.is_some()).await?;
    assert_eq!(phase(&pod), "Running");
    let statuses = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
    let proxy = statuses.iter().find(|status| status.name == "proxy").context("no sidecar")?;
    assert!(proxy.state.as_ref().is_some_and(|state| state.running.is_some()));
    assert!(kubelet.starts()[0].ended_at.is_some(), "the first container has ended");
    bench.pods.delete("flash", &Default::default()).await?;
    eventually("the Pod to go", LIMIT, || async {
        Ok(bench.pods.get_opt("flash").await?.is_none().then_some(()))
    })
    .await
}

#[tokio::test]
async fn nothing_starts_while_held() -> Result<()> {
    let bench = Bench::new().await?;
    let kubelet = bench.kubelet(Script::default());
    kubelet.hold();
    bench.create(json!({})).await?;
    bench.until("the hold", |pod| waits_for(pod, "ContainerCreating")).await?;
    assert_eq!(kubelet.starts(), []);
    kubelet.release();
    bench.until("the end", |pod| phase(pod) == "Succeeded").await?;
    Ok(())
}

#[tokio::test]
async fn some_pods_never_start() -> Result<()> {
    for end in [End::Unschedulable, End::ImagePullBackOff] {
        let bench = Bench::new().await?;
        let kubelet = bench.kubelet(Script::ending(end.clone()));
        bench.create(json!({})).await?;
        bench
            .until("a reason", |pod| match end {
                End::ImagePullBackOff => waits_for(pod, "ImagePullBackOff"),
                _ => pod
                    .status
                    .iter()
                    .flat_map(|status| status.conditions.iter().flatten())
                    .any(|condition| condition.reason.as_deref() == Some("Unschedulable")),
            })
            .await?;
        bench.pods.delete("flash", &Default::default()).await?;
        eventually("the Pod to go", LIMIT, || async {
            Ok(bench.pods.get_opt("flash").await?.is_none().then_some(()))
        })
        .await?;
        assert_eq!(kubelet.starts(), []);
    }
    Ok(())
}
