//! The node that runs flash Pods as processes behaves as a kubelet does.

use std::time::Duration;

use anyhow::Result;
use flashjob_sim::eventually;
use flashjob_sim::flashjob::field::Field;
use flashjob_sim::flashjob::site::{Account, Outcome};
use flashjob_sim::flashjob::{Board, Fault, Site, Times};
use k8s_openapi::api::core::v1::{ConfigMap, ContainerStatus, Pod};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, LogParams, PostParams};
use serde_json::json;

use crate::{NEW, site};

const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until the one flash Pod is as wanted.
async fn pod(
    site: &Site<Field>,
    what: &str,
    wanted: impl Fn(&ContainerStatus) -> bool,
) -> Result<Pod> {
    let pods = site.api::<Pod>();
    eventually(what, PATIENCE, async || {
        let all = pods.list(&ListParams::default()).await?.items;
        Ok(all.into_iter().find(|pod| {
            let status = pod.status.as_ref().and_then(|s| s.container_statuses.as_ref()?.first());
            status.is_some_and(&wanted)
        }))
    })
    .await
}

fn runs(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_the_flashers_and_a_reboot_gives_a_new_uid() -> Result<()> {
    let (site, _operator) = site(1, &["esp32s2"]).await?;
    let before = site.instances().await?[0].uid();
    site.field.boards[0].inject(Fault::RejectsImage, Times::First(1));
    site.field.boards[0].inject(Fault::RebootsSlowly(Duration::from_secs(60)), Times::Always);
    site.flash("job", NEW, json!({ "retry": { "limit": 1, "backoffSeconds": 3 } })).await?;
    let running = pod(&site, "a flash Pod to run", runs).await?;
    let pods = site.api::<Pod>();
    // As `kubectl logs` asks: the API server asks the node.
    eventually("words in its log", PATIENCE, async || {
        let log = pods.logs(&running.name_any(), &LogParams::default()).await?;
        Ok(log.contains("the device is").then_some(()))
    })
    .await?;
    let status = site.finished("job", PATIENCE).await?;
    let account = Account::take(&site, &status, NEW);
    assert_eq!(account.disagreements(), Vec::<String>::new());
    assert_eq!(
        (&account.entries[0].outcome, account.entries[0].attempts),
        (&Outcome::Succeeded, 2)
    );
    eventually("Akri to find it again, under a new uid", PATIENCE, async || {
        let all = site.instances().await?;
        Ok(all.first().filter(|instance| instance.uid() != before).map(drop))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_without_its_permit_waits_and_a_deadline_ends_a_process() -> Result<()> {
    let (site, _operator) = site(1, &["esp32s2"]).await?;
    let pods = site.api::<Pod>();
    let params = PostParams::default();
    pods.create(&params, &flash_pod(&site.field.boards[0], "early", 600)?).await?;
    let waits = |s: &ContainerStatus| {
        let waiting = s.state.as_ref().and_then(|state| state.waiting.as_ref());
        waiting.and_then(|w| w.reason.as_deref()) == Some("CreateContainerConfigError")
    };
    pod(&site, "a Pod to wait for its permit", waits).await?;
    pods.delete("early", &DeleteParams::default()).await?;

    // With the permit it runs. The registry it is to pull from is not there, and it tries until its deadline.
    let permits = site.api::<ConfigMap>();
    let permit = json!({ "metadata": { "name": "permits" }, "data": { "p": "" } });
    permits.create(&params, &serde_json::from_value(permit)?).await?;
    pods.create(&params, &flash_pod(&site.field.boards[0], "late", 2)?).await?;
    let ended = |s: &ContainerStatus| s.state.as_ref().is_some_and(|s| s.terminated.is_some());
    let status = pod(&site, "a Pod to end", ended).await?.status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Failed"));
    assert_eq!(status.reason.as_deref(), Some("DeadlineExceeded"));
    let board = &site.field.boards[0];
    assert_eq!((board.ledger().updates.len(), board.version().as_str()), (0, "0.1.0"));
    Ok(())
}

/// A flash Pod as the operator makes it, with a permit of its own and a registry where none is.
fn flash_pod(board: &Board, name: &str, deadline: u32) -> Result<Pod> {
    let pod = json!({
        "metadata": { "name": name },
        "spec": {
            "restartPolicy": "Never", "activeDeadlineSeconds": deadline,
            "containers": [{
                "name": "flash-container", "image": "flasher",
                "env": [
                    { "name": "PERMIT", "valueFrom": { "configMapKeyRef": { "name": "permits", "key": "p" } } },
                    { "name": "FIRMWARE", "value": "127.0.0.1:1/none:1" },
                    { "name": "DEVICE", "value": "esp32s2" },
                    { "name": "VERSION", "value": NEW },
                    { "name": "HOST_ENDPOINT", "value": board.endpoint() },
                    { "name": "EXTERNAL_IP", "value": "127.250.1.1" },
                ],
                "envFrom": [{ "configMapRef": { "name": "flashjob-flasher", "optional": true } }],
                "volumeMounts": [{ "name": "tls", "mountPath": "/var/run/flashjob/tls" }],
            }],
            "volumes": [{ "name": "tls", "secret": { "secretName": "flashjob-server-tls" } }],
        },
    });
    Ok(serde_json::from_value(pod)?)
}
