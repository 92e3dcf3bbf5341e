//! The CRDs of workloads, which tell what was deleted from what went with its CRD, and the record of those that all labels of
//! devices were accounted for with. What it means is decided in `plan`.

use std::collections::BTreeMap;

use flashjob_plan::edge::workloads::WorkloadKind;
use flashjob_plan::edge::workloads::absent::{CONFIG_MAP, CrdFacts};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;

use super::crds::{EDGE_DEPLOYMENTS, EDGE_WORKLOADS};
use super::{config_map, slim};
use crate::engine::backoff;
use crate::engine::pool::Caller;
use crate::process::client::error_message;

/// On that ConfigMap.
const LABEL: &str = "management.project-flotta.io/crds";

/// How the CRD of a kind is now; `None` if there is none. Without an answer nobody can say so, so it takes as long as it takes.
pub async fn look(caller: &Caller, kind: WorkloadKind) -> Option<CrdFacts> {
    let needed = match kind {
        WorkloadKind::EdgeDeployment => EDGE_DEPLOYMENTS,
        WorkloadKind::EdgeWorkload => EDGE_WORKLOADS,
    };
    let api: Api<CustomResourceDefinition> = Api::all(caller.client.clone());
    let mut failures = 0;
    loop {
        match caller.call(api.get_metadata_opt(needed.crd)).await {
            Ok(found) => {
                let metadata = found?.metadata;
                return Some(CrdFacts {
                    uid: metadata.uid.unwrap_or_default(),
                    made: metadata.creation_timestamp.map_or(Timestamp::MIN, |time| time.0),
                    being_deleted: metadata.deletion_timestamp.is_some(),
                });
            }
            Err(error) => {
                let (crd, error) = (needed.crd, error_message(&error));
                tracing::warn!(crd, error, "a CRD could not be read and is tried again");
            }
        }
        tokio::time::sleep(backoff::pause(failures)).await;
        failures += 1;
    }
}

/// Reads the record. Without one nothing was accounted for.
pub async fn load(caller: &Caller, home: &str) -> kube::Result<BTreeMap<String, String>> {
    let api: Api<slim::ConfigMap> = Api::namespaced(caller.client.clone(), home);
    let found = caller.call(api.get_opt(CONFIG_MAP)).await?;
    Ok(found.and_then(|map| map.data).unwrap_or_default())
}

/// Writes the record. The error is a sentence.
pub async fn write(
    caller: Caller,
    home: String,
    record: BTreeMap<String, String>,
) -> Result<(), String> {
    config_map::put(caller, home, CONFIG_MAP, LABEL, record).await
}
