//! What every operator has said and how it ended, also in Pods that are gone.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flashjob_sim::lock;
use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::{ListParams, LogParams};
use kube::{Api, Client, ResourceExt};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use crate::site::SYSTEM;

/// How an operator ends that is asked to, and one that has lost its lease.
const ORDERLY: [i32; 2] = [0, 1];
/// Stands before the end of one that did neither.
const CRASHED: &str = "crashed: ";

/// Follows all operators. It stops when dropped.
pub struct OperatorLog {
    lines: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl OperatorLog {
    pub fn follow(client: Client) -> Self {
        let lines = Arc::default();
        let task = tokio::spawn(follow(client, Arc::clone(&lines)));
        Self { lines, task }
    }

    /// Everything so far, each line behind the name of its Pod.
    pub fn lines(&self) -> Vec<String> {
        lock(&self.lines).clone()
    }

    /// What no operator should ever say or do.
    pub fn alarms(&self) -> Vec<String> {
        let mut lines = self.lines();
        lines.retain(|line| line.contains("panicked at") || line.starts_with(CRASHED));
        lines
    }
}

impl Drop for OperatorLog {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(client: Client, lines: Arc<Mutex<Vec<String>>>) {
    let pods: Api<Pod> = Api::namespaced(client, SYSTEM);
    let mut known = HashSet::new();
    let mut followers = JoinSet::new();
    loop {
        // An API server that does not answer is asked again.
        let found = pods.list(&ListParams::default()).await.map(|list| list.items);
        for pod in found.unwrap_or_default() {
            let name = pod.name_any();
            let Some(status) = container(&pod) else { continue };
            // Of a Pod that is being deleted a kubelet may know no end any more, and then it makes one up.
            let ends = [&status.state, &status.last_state];
            for state in ends.into_iter().filter(|_| pod.metadata.deletion_timestamp.is_none()) {
                let ended = state.as_ref().and_then(|state| state.terminated.as_ref());
                let Some(ended) = ended.filter(|end| !ORDERLY.contains(&end.exit_code)) else {
                    continue;
                };
                if known.insert(format!("{:?}", ended.container_id)) {
                    lock(&lines).push(format!("{CRASHED}{name}: {ended:?}"));
                }
            }
            let runs = status.state.as_ref().is_some_and(|state| state.running.is_some());
            let Some(id) = status.container_id.filter(|_| runs) else { continue };
            if known.insert(id.clone()) {
                followers.spawn(read(pods.clone(), name, id, Arc::clone(&lines)));
            }
        }
        sleep(Duration::from_millis(300)).await;
    }
}

fn container(pod: &Pod) -> Option<ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first().cloned()
}

/// Reads until another container has taken its place. The kubelet that hands lines on may be stopped: then it is asked again.
async fn read(pods: Api<Pod>, name: String, id: String, lines: Arc<Mutex<Vec<String>>>) {
    let params = LogParams { follow: true, ..LogParams::default() };
    let mut told = 0;
    loop {
        let mut heard = 0;
        if let Ok(stream) = pods.log_stream(&name, &params).await {
            let mut all = stream.lines();
            while let Ok(Some(line)) = all.try_next().await {
                heard += 1;
                if heard > told {
                    lock(&lines).push(format!("{name}: {line}"));
                    told = heard;
                }
            }
        }
        sleep(Duration::from_secs(1)).await;
        let now = pods.get_opt(&name).await;
        let gone = |pod: &Pod| container(pod).and_then(|c| c.container_id).as_ref() != Some(&id);
        if now.is_ok_and(|pod| pod.as_ref().is_none_or(gone)) {
            return;
        }
    }
}
