//! What users want to run: which EdgeDeployments and EdgeWorkloads can be sent to devices, and to which.
//!
//! ```text
//!   EdgeDeployment, EdgeWorkload ──▶ WorkloadFacts ──▶ accept ──▶ Accepted, or the Problem that its status names
//!                                                                    │
//!   name and labels of a device ──▶ Workloads::for_device ◀──────────┘
//! ```
//!
//! A workload is judged once, when it changes. A device asks with its name and labels, and there may be very many of them.

pub mod absent;
mod accept;
mod facts;
mod index;
mod lookup;
mod pod_spec;
mod references;
mod selector;
mod shape;
mod status;

pub use accept::{Accepted, Target, accept};
pub use facts::{WorkloadFacts, WorkloadKind, known_finalizers, podman, read_spec, released};
pub use index::{Change, Judged, Workloads};
pub use references::{references, referred, refers_to};
pub use selector::Selector;
pub use status::{Seen, Tally, WorkloadState, refused_status, state};

#[cfg(test)]
mod tests {
    //! What tests of several modules stand on.

    use std::collections::BTreeMap;
    use std::sync::Arc;

    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::{WorkloadFacts, WorkloadKind, read_spec};

    /// A pod that devices can run.
    pub fn pod() -> Value {
        json!({ "spec": { "containers": [{ "name": "web", "image": "nginx" }] } })
    }

    /// An EdgeWorkload in namespace `a` with this spec.
    pub fn workload(name: &str, spec: &Value) -> WorkloadFacts {
        WorkloadFacts {
            kind: WorkloadKind::EdgeWorkload,
            namespace: "a".into(),
            name: name.into(),
            uid: format!("uid-{name}"),
            resource_version: 1,
            generation: 1,
            created: Timestamp::UNIX_EPOCH,
            being_deleted: false,
            finalizers: Vec::new(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            spec: read_spec(spec).map(Arc::new),
        }
    }

    /// Labels from `a=b c=d`.
    pub fn labels(text: &str) -> BTreeMap<String, String> {
        let pairs = text.split_whitespace().filter_map(|pair| pair.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }
}
