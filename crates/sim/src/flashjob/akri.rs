//! Plays Akri: its agent and the discovery handler that finds boards by their address.
//!
//! An Instance appears with the name, properties and finalizer Akri gives it, and goes when the board is lost; found
//! again it has the same name and a new uid. It differs in two ways: there is no Configuration object, so an Instance
//! has no owner, and one node sees each board, so that there is one finalizer.

mod agent;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use blake2::digest::consts::U3;
use blake2::{Blake2b, Digest};
use flashjob_api::flashjob::instance::{
    APPLICATION_TYPE, DEVICE, HOST_ENDPOINT, Instance, InstanceSpec, VERSION,
};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

pub use self::agent::Agent;
use crate::cluster::Cluster;
use crate::retry::is_gone;
use crate::wait::eventually;

/// The CRD of Akri v0.13.
pub const INSTANCE_CRD: &str = include_str!("akri/instances-v0.13.yaml");

/// The CRD of Akri v0.12, which knows no capacity and requires nothing.
pub const INSTANCE_CRD_V0_12: &str = include_str!("akri/instances-v0.12.yaml");

/// The node whose agent finds everything.
pub const NODE: &str = "sim-node";

/// What a discovery handler of the HTTP kind says of every device.
const AKRI_HTTP: &str = "AKRI_HTTP";

/// The name Akri gives an Instance: of a device all nodes share, or of one that `node` alone sees.
pub fn instance_name(configuration: &str, device_id: &str, node: Option<&str>) -> String {
    format!("{configuration}-{}", digest(device_id, node))
}

fn digest(device_id: &str, node: Option<&str>) -> String {
    let mut hasher = Blake2b::<U3>::new();
    hasher.update(device_id);
    hasher.update(node.unwrap_or_default());
    let bytes = hasher.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The agent for one Configuration.
#[derive(Clone)]
pub struct Akri {
    instances: Api<Instance>,
    configuration: String,
}

impl Akri {
    /// Installs the CRD of v0.13.
    pub async fn install_crd(cluster: &Cluster) -> Result<()> {
        cluster.apply_yaml(INSTANCE_CRD).await
    }

    /// An agent that puts Instances of `configuration` into `namespace`.
    pub fn new(client: Client, namespace: &str, configuration: &str) -> Self {
        Self {
            instances: Api::namespaced(client, namespace),
            configuration: configuration.to_owned(),
        }
    }

    /// Finds a board, as the handler that uses its address as the id. A board that is there already is updated in
    /// place and keeps its uid.
    pub async fn discover(
        &self,
        endpoint: &str,
        device: &str,
        application: &str,
        version: &str,
    ) -> Result<Instance> {
        let name = instance_name(&self.configuration, endpoint, None);
        self.discover_named(&name, endpoint, device, application, version).await
    }

    /// Finds a board whose Instance has a name of the test's choosing.
    pub async fn discover_named(
        &self,
        name: &str,
        endpoint: &str,
        device: &str,
        application: &str,
        version: &str,
    ) -> Result<Instance> {
        let properties = [
            (AKRI_HTTP, "http"),
            (APPLICATION_TYPE, application),
            (DEVICE, device),
            (HOST_ENDPOINT, endpoint),
            (VERSION, version),
        ];
        let properties = properties.map(|(key, value)| (key.to_owned(), value.to_owned()));
        self.discover_with(name, BTreeMap::from(properties)).await
    }

    /// Finds a board that reports exactly these properties.
    pub async fn discover_with(
        &self,
        name: &str,
        properties: BTreeMap<String, String>,
    ) -> Result<Instance> {
        let id = properties.get(HOST_ENDPOINT).map_or(name, String::as_str);
        let mut instance = Instance::new(
            name,
            InstanceSpec {
                configuration_name: self.configuration.clone(),
                cdi_name: Some(format!("akri.sh/{}={}", self.configuration, digest(id, None))),
                capacity: Some(1),
                broker_properties: properties.clone(),
                shared: true,
                nodes: vec![NODE.to_owned()],
                // A broker uses the device. (It does while it is flashed, too: nothing stops it.)
                device_usage: BTreeMap::from([(format!("{name}-0"), NODE.to_owned())]),
            },
        );
        instance.metadata.finalizers = Some(vec![NODE.to_owned()]);
        let created = self.instances.create(&PostParams::default(), &instance).await;
        match created {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let patch = json!({ "spec": { "brokerProperties": properties } });
                self.instances.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await
            }
            other => other,
        }
        .with_context(|| format!("cannot write the Instance {name}"))
    }

    /// Loses a board, and waits until its Instance is gone.
    pub async fn lose(&self, instance: &Instance) -> Result<()> {
        self.lose_agent_down(instance).await?;
        self.agent_back(instance).await
    }

    /// Loses a board while the agent is down: the Instance lingers with its deletionTimestamp.
    pub async fn lose_agent_down(&self, instance: &Instance) -> Result<()> {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: instance.uid(), resource_version: None }),
            ..DeleteParams::default()
        };
        let name = instance.name_any();
        let deleted = self.instances.delete(&name, &params).await;
        gone_or(deleted).with_context(|| format!("cannot delete the Instance {name}"))
    }

    /// The agent lets a lost Instance go.
    async fn let_go(&self, instance: &Instance) -> Result<()> {
        let name = instance.name_any();
        let patch = json!({ "metadata": { "uid": instance.uid(), "finalizers": null } });
        let params = PatchParams::default();
        let patched = self.instances.patch(&name, &params, &Patch::Merge(&patch)).await;
        gone_or(patched).with_context(|| format!("cannot release the Instance {name}"))
    }

    /// The agent is back and lets a lost Instance go; waits until it is gone.
    pub async fn agent_back(&self, instance: &Instance) -> Result<()> {
        self.let_go(instance).await?;
        let name = instance.name_any();
        let what = format!("the Instance {name} to go");
        eventually(&what, Duration::from_secs(30), || async {
            let found = self.instances.get_opt(&name).await?;
            Ok(found.is_none_or(|found| found.uid() != instance.uid()).then_some(()))
        })
        .await
    }
}

/// An Instance that is gone, or whose name is another's by now, is what a loss is about.
fn gone_or<T>(result: kube::Result<T>) -> kube::Result<()> {
    match result {
        Err(kube::Error::Api(status)) if is_gone(&status) => Ok(()),
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_akri() {
        let shared = [
            ("192.168.11.140", "21ab05"),
            ("192.168.11.131", "75dbd4"),
            ("192.168.11.60", "9ab6dd"),
            ("my_shared_device", "4294ea"),
        ];
        for (id, hash) in shared {
            assert_eq!(instance_name("http-disc-mine", id, None), format!("http-disc-mine-{hash}"));
        }
        for (node, hash) in [("my_node", "e77db4"), ("my_other_node", "099763")] {
            assert_eq!(instance_name("c", "my_local_device", Some(node)), format!("c-{hash}"));
        }
    }
}
