//! What the node writes about itself and about one Pod. `None` means that the Pod is gone, or its name another Pod's by now.

use std::sync::Arc;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::{NODE, Shared};
use crate::retry::retry;

/// The API, narrowed to one Pod. Every call carries its uid, so that a Pod of the same name that came after it is
/// left alone.
pub(super) struct PodApi {
    shared: Arc<Shared>,
    pods: Api<Pod>,
    name: String,
    uid: Option<String>,
}

impl PodApi {
    pub(super) fn new(shared: Arc<Shared>, pod: &Pod) -> Self {
        let namespace = pod.namespace().unwrap_or_default();
        Self {
            pods: Api::namespaced(shared.client.clone(), &namespace),
            shared,
            name: pod.name_any(),
            uid: pod.uid(),
        }
    }

    /// What the scheduler does.
    pub(super) async fn bind(&self) -> Option<()> {
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": { "name": self.name, "uid": self.uid },
            "target": { "apiVersion": "v1", "kind": "Node", "name": NODE },
        });
        let params = PostParams::default();
        let bound: Option<Value> = retry("bind a Pod", || async {
            let _turn = self.shared.calls.acquire().await;
            let binding = self.pods.create_subresource("binding", &self.name, &params, &binding);
            binding.await
        })
        .await;
        bound.map(drop)
    }

    pub(super) async fn report(&self, status: &PodStatus) -> Option<()> {
        // Strategic, as a kubelet's: conditions are merged by type.
        let patch = Patch::Strategic(json!({
            "metadata": { "uid": self.uid },
            "status": status,
        }));
        let params = PatchParams::default();
        let written = retry("write a Pod's status", || async {
            let _turn = self.shared.calls.acquire().await;
            self.pods.patch_status(&self.name, &params, &patch).await
        });
        written.await.map(drop)
    }

    /// The last act of a deletion.
    pub(super) async fn remove(&self) -> Option<()> {
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions { uid: self.uid.clone(), resource_version: None }),
            ..DeleteParams::default()
        };
        let removed = retry("remove a Pod", || async {
            let _turn = self.shared.calls.acquire().await;
            self.pods.delete(&self.name, &params).await
        });
        removed.await.map(drop)
    }
}

/// Makes the Node, so that the API server knows where logs are to be had.
pub(super) async fn register(client: &Client, port: u16) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let metadata = ObjectMeta { name: Some(NODE.to_owned()), ..ObjectMeta::default() };
    let node = Node { metadata, ..Node::default() };
    match nodes.create(&PostParams::default(), &node).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => {}
        created => drop(created.context("cannot make the Node")?),
    }
    let status = Patch::Merge(json!({ "status": {
        "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
        "daemonEndpoints": { "kubeletEndpoint": { "Port": port } },
        "conditions": [{ "type": "Ready", "status": "True", "reason": "KubeletReady" }],
    } }));
    let written = nodes.patch_status(NODE, &PatchParams::default(), &status).await;
    written.context("cannot write the Node's status").map(drop)
}
