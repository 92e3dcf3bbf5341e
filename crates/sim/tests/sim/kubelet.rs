//! The played kubelet. Here Pods play a script; those whose containers are processes are in the folder.

mod controllers;
mod ends;
mod processes;
mod starts;

use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_sim::cluster::Cluster;
use flashjob_sim::eventually;
use flashjob_sim::node::{Kubelet, Script, ScriptEnd};
use k8s_openapi::api::core::v1::{ConfigMap, ContainerState, ContainerStatus, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::timeout;

use crate::LIMIT;

const POD: &str = "pod";

/// A namespace, and one Pod in it.
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
            "metadata": { "name": POD, "annotations": { "index": "3" } },
            "spec": {
                "restartPolicy": "Never",
                "containers": [{ "name": "main", "image": "image" }],
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
            let pod = self.pods.get(POD).await?;
            Ok(wanted(&pod).then_some(pod))
        })
        .await
    }

    async fn delete(&self) -> Result<()> {
        self.pods.delete(POD, &Default::default()).await?;
        eventually("the Pod to go", LIMIT, || async {
            Ok(self.pods.get_opt(POD).await?.is_none().then_some(()))
        })
        .await
    }
}

fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status.and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// What is said of a container, init containers among them.
fn status(pod: &Pod, name: &str) -> ContainerStatus {
    let all = pod.status.iter().flat_map(|status| {
        let inits = status.init_container_statuses.iter().flatten();
        inits.chain(status.container_statuses.iter().flatten())
    });
    all.into_iter().find(|status| status.name == name).cloned().unwrap_or_default()
}

/// The state of the container `main`.
fn state(pod: &Pod) -> ContainerState {
    status(pod, "main").state.unwrap_or_default()
}

fn condition(pod: &Pod, type_: &str) -> (String, Option<String>) {
    let mut all = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let found = all.find(|condition| condition.type_ == type_);
    found.map(|found| (found.status.clone(), found.reason.clone())).unwrap_or_default()
}

/// Exit code and message of a container that has ended.
fn end(pod: &Pod, name: &str) -> (Option<i32>, String) {
    let ended = status(pod, name).state.and_then(|state| state.terminated);
    let code = ended.as_ref().map(|ended| ended.exit_code);
    (code, ended.and_then(|ended| ended.message).unwrap_or_default())
}

fn waits_for(pod: &Pod, reason: &str) -> bool {
    state(pod).waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some(reason))
}

#[tokio::test]
async fn a_pod_waits_for_its_permit_and_then_runs_to_the_end() -> Result<()> {
    let bench = Bench::new().await?;
    let kubelet = bench.kubelet(Script::success("done").run_for(Duration::from_millis(200)));
    let permit = json!({ "configMapKeyRef": { "name": "ledger", "key": "permit-1" } });
    let container = json!({
        "name": "main",
        "image": "image",
        "env": [{ "name": "WORD", "value": "7" }, { "name": "PERMIT", "valueFrom": permit }],
        "envFrom": [{ "configMapRef": { "name": "settings", "optional": true } }],
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
    assert_eq!((starts[0].container.as_str(), starts[0].image.as_str()), ("main", "image"));
    assert_eq!(
        (starts[0].env["WORD"].as_str(), starts[0].env["PERMIT"].as_str()),
        ("7", "granted")
    );
    let pod = bench.until("the end", |pod| phase(pod) == "Succeeded").await?;
    let end = state(&pod).terminated.context("no terminated state")?;
    assert_eq!((end.exit_code, end.message.as_deref()), (0, Some("done")));
    assert_eq!(end.reason.as_deref(), Some("Completed"));
    assert!(end.started_at.is_some() && end.finished_at.is_some());
    assert_eq!(pod.spec.and_then(|spec| spec.node_name).as_deref(), Some("sim-node"));
    assert!(kubelet.starts()[0].ended_at.is_some());
    Ok(())
}

/// Fleets of ten thousand Pods are played.
#[tokio::test]
async fn a_pod_costs_a_binding_and_a_write_for_each_change() -> Result<()> {
    let failure = Script::failure(1, "no such thing");
    for (script, changes) in
        [(failure.clone(), 1), (failure.run_for(Duration::from_millis(300)), 2)]
    {
        let bench = Bench::new().await?;
        let _kubelet = bench.kubelet(script);
        bench.create(json!({})).await?;
        let pod = bench.until("the end", |pod| phase(pod) == "Failed").await?;
        assert_eq!(end(&pod, "main"), (Some(1), "no such thing".to_owned()));
        let mut writes = Cluster::shared().await?.writes(&bench.namespace)?;
        writes.retain(|entry| entry.resource == "pods" && entry.user == "kubelet");
        let of = |subresource: Option<&str>| {
            writes.iter().filter(|entry| entry.subresource.as_deref() == subresource).count()
        };
        // The Pod itself is this test's.
        assert_eq!((of(None), of(Some("binding")), of(Some("status"))), (1, 1, changes));
    }
    Ok(())
}

#[tokio::test]
async fn a_deleted_pod_is_ended_and_removed() -> Result<()> {
    let bench = Bench::new().await?;
    let kubelet = bench.kubelet(Script::ending(ScriptEnd::Never));
    bench.create(json!({})).await?;
    let pod = bench.until("the start", |pod| phase(pod) == "Running").await?;
    assert!(state(&pod).running.is_some());
    bench.delete().await?;
    let ended = kubelet.starts_when(|starts| starts.iter().all(|start| start.ended_at.is_some()));
    assert_eq!(timeout(LIMIT, ended).await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_deadline_ends_a_running_pod() -> Result<()> {
    let bench = Bench::new().await?;
    let _kubelet = bench.kubelet(Script::ending(ScriptEnd::Never));
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
    let slow = Script::ending(ScriptEnd::Never).on_sigterm(Duration::from_secs(2), 1, "cut off");
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
    let kubelet = bench.kubelet(Script::success("done").sidecars_run_on());
    let container = |name: &str| json!({ "name": name, "image": "i" });
    bench.create(json!({ "containers": [container("main"), container("proxy")] })).await?;
    let pod = bench.until("the end", |pod| state(pod).terminated.is_some()).await?;
    assert_eq!(phase(&pod), "Running");
    assert!(status(&pod, "proxy").state.is_some_and(|state| state.running.is_some()));
    let ended: Vec<_> =
        kubelet.starts().into_iter().map(|s| (s.container, s.ended_at.is_some())).collect();
    assert_eq!(ended, [("main".to_owned(), true), ("proxy".to_owned(), false)]);
    bench.delete().await
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
    for end in [ScriptEnd::Unschedulable, ScriptEnd::ImagePullBackOff] {
        let bench = Bench::new().await?;
        let kubelet = bench.kubelet(Script::ending(end.clone()));
        bench.create(json!({})).await?;
        bench
            .until("a reason", |pod| match end {
                ScriptEnd::ImagePullBackOff => waits_for(pod, "ImagePullBackOff"),
                _ => pod
                    .status
                    .iter()
                    .flat_map(|status| status.conditions.iter().flatten())
                    .any(|condition| condition.reason.as_deref() == Some("Unschedulable")),
            })
            .await?;
        bench.delete().await?;
        assert_eq!(kubelet.starts(), []);
    }
    Ok(())
}
