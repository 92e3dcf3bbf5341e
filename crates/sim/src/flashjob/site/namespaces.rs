//! More namespaces than the one of the boards: jobs in them flash the same boards, and share the addresses.

use anyhow::{Context, Result};
use flashjob_api::flashjob::{FlashJob, flash_pod};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::PostParams;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{NAMESPACE, Stage};
use crate::flashjob::akri::instance_name;
use crate::flashjob::board::Board;

impl Stage {
    /// Makes a namespace in which flashers find what they need.
    pub async fn furnish(&self, namespace: &str) -> Result<()> {
        self.cluster.make_namespace(namespace).await?;
        self.copy::<Secret>(flash_pod::TLS_SECRET, namespace).await?;
        self.copy::<ConfigMap>(flash_pod::SETTINGS, namespace).await
    }

    async fn copy<K>(&self, name: &str, namespace: &str) -> Result<()>
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let mut copied: K = Api::namespaced(self.client.clone(), NAMESPACE).get(name).await?;
        *copied.meta_mut() = kube::api::ObjectMeta {
            name: Some(name.to_owned()),
            ..kube::api::ObjectMeta::default()
        };
        let there: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let made = there.create(&PostParams::default(), &copied).await;
        made.map(drop).with_context(|| format!("no {name} in {namespace}"))
    }

    /// Creates a FlashJob.
    pub async fn create_job(&self, namespace: &str, name: &str, spec: Value) -> Result<()> {
        let job = FlashJob::new(name, serde_json::from_value(spec)?);
        let jobs: Api<FlashJob> = Api::namespaced(self.client.clone(), namespace);
        jobs.create(&PostParams::default(), &job).await.context("no FlashJob").map(drop)
    }

    /// A board as a FlashJob names it: `namespace/name` of its Instance, which stays when the Instance goes and comes.
    pub fn device_name(&self, board: &Board) -> String {
        format!("{NAMESPACE}/{}", instance_name(super::CONFIGURATION, &board.endpoint(), None))
    }
}
