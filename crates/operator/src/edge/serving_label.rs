//! The label by which the Service finds the Pod that serves.
//!
//! Only the holder of the lease listens, and a Service would else send devices to all Pods. The holder puts the label on its
//! own Pod; every process takes it off at its start, so that one that has lost the lease and was restarted is not found.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use serde_json::json;

use crate::engine::backoff;
use crate::process::client::{error_message, in_time};

const LABEL: &str = "management.project-flotta.io/serving";
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// The Pod that this process is in; `None` outside of a cluster, where there is nothing to label.
#[derive(Clone, Debug)]
pub struct ServingLabel(pub Option<String>);

impl ServingLabel {
    /// Puts it on or takes it off, for as long as it takes.
    pub async fn set(&self, client: &Client, on: bool) {
        let Some(pod) = &self.0 else { return };
        let mut failures = 0;
        while let Err(error) = patch(client, pod, on).await {
            let error = error_message(&error);
            tracing::warn!(pod, error, "the label {LABEL} could not be set; it is tried again");
            tokio::time::sleep(backoff::pause(failures)).await;
            failures += 1;
        }
    }
}

async fn patch(client: &Client, pod: &str, on: bool) -> kube::Result<()> {
    let value = if on { json!("true") } else { json!(null) };
    let change = json!({ "metadata": { "labels": { (LABEL): value } } });
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let (params, patch) = (PatchParams::default(), Patch::Merge(&change));
    let patched: kube::Result<PartialObjectMeta<Pod>> =
        in_time(CALL_TIMEOUT, pods.patch_metadata(pod, &params, &patch)).await;
    match patched {
        Ok(_) => Ok(()),
        // It is gone, and its label with it.
        Err(kube::Error::Api(status)) if status.is_not_found() && !on => Ok(()),
        Err(error) => Err(error),
    }
}
