//! Somebody with the rights of `edit` in one namespace and no others: a ServiceAccount with its own token, so that the API
//! server itself draws the line.
//!
//! `edit` is an aggregate that a controller fills in. None runs here, so the account is bound to what `edit` is made of:
//! Kubernetes' own two parts, and the role that this project ships to join it.

use std::cell::Cell;

use anyhow::{Context, Result, bail, ensure};
use flashjob_api::flashjob::FlashJob;
use flashjob_api::flashjob::instance::Instance;
use flashjob_sim::cluster::Cluster;
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const PARTS_OF_EDIT: [&str; 3] =
    ["system:aggregate-to-edit", "system:aggregate-to-view", "operator-flashjob-editor-role"];

pub struct Attacker {
    client: Client,
    pub namespace: String,
    /// Writes that were tried, and those the API server refused.
    pub tried: Cell<usize>,
    pub refused: Cell<usize>,
}

impl Attacker {
    /// Gives the namespace's default account the rights, and takes its place.
    pub async fn new(cluster: &Cluster, namespace: &str) -> Result<Self> {
        let bindings: Api<RoleBinding> = Api::namespaced(cluster.client("admin")?, namespace);
        for role in PARTS_OF_EDIT {
            let binding = serde_json::from_value(json!({
                "metadata": { "name": role.replace(':', "-") },
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role,
                },
                "subjects": [{ "kind": "ServiceAccount", "name": "default", "namespace": namespace }],
            }))?;
            bindings.create(&PostParams::default(), &binding).await.context("no RoleBinding")?;
        }
        let token = cluster.service_account_token(namespace, "default").await?;
        let client = cluster.client_with_token(&token)?;
        let (tried, refused) = (Cell::new(0), Cell::new(0));
        let attacker = Self { client, namespace: namespace.to_owned(), tried, refused };
        eventually("the rights to hold", PATIENCE, async || {
            let both = attacker.api::<ConfigMap>().list(&Default::default()).await.is_ok()
                && attacker.api::<FlashJob>().list(&Default::default()).await.is_ok();
            Ok(both.then_some(()))
        })
        .await?;
        Ok(attacker)
    }

    /// Makes sure that the line is where it should be: nothing in the victim's namespace, no Instances, no status.
    pub async fn is_held_back(&self, victim: &str) -> Result<()> {
        let there = |api: Api<ConfigMap>| async move {
            let map = ConfigMap { metadata: named("forged"), ..ConfigMap::default() };
            api.create(&PostParams::default(), &map).await.map(drop)
        };
        forbidden(there(Api::namespaced(self.client.clone(), victim)).await)?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), victim);
        forbidden(pods.list(&Default::default()).await.map(drop))?;
        let jobs: Api<FlashJob> = Api::namespaced(self.client.clone(), victim);
        forbidden(jobs.get("rollout").await.map(drop))?;
        let instance = Instance::new("forged", Default::default());
        forbidden(
            self.api::<Instance>().create(&PostParams::default(), &instance).await.map(drop),
        )?;
        let status = Patch::Merge(json!({ "status": { "phase": "Completed" } }));
        let jobs = self.api::<FlashJob>();
        forbidden(jobs.patch_status("any", &PatchParams::default(), &status).await.map(drop))
    }

    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates something. `None`: the API server does not take it, which is an answer.
    pub async fn create<K>(&self, object: Value) -> Result<Option<K>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let object: K = serde_json::from_value(object)?;
        self.answered(self.api::<K>().create(&PostParams::default(), &object).await)
    }

    /// Changes something.
    pub async fn change<K>(&self, name: &str, change: Value) -> Result<Option<K>>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        let params = PatchParams::default();
        self.answered(self.api::<K>().patch(name, &params, &Patch::Merge(change)).await)
    }

    /// Deletes something.
    pub async fn delete<K>(&self, name: &str) -> Result<()>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + DeserializeOwned,
    {
        let deleted = self.api::<K>().delete(name, &DeleteParams::default()).await;
        self.answered(deleted).map(drop)
    }

    fn answered<T>(&self, answer: kube::Result<T>) -> Result<Option<T>> {
        self.tried.set(self.tried.get() + 1);
        match answer {
            Ok(done) => Ok(Some(done)),
            Err(kube::Error::Api(_)) => {
                self.refused.set(self.refused.get() + 1);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn named(name: &str) -> kube::api::ObjectMeta {
    kube::api::ObjectMeta { name: Some(name.to_owned()), ..kube::api::ObjectMeta::default() }
}

fn forbidden(answer: kube::Result<()>) -> Result<()> {
    match answer {
        Err(kube::Error::Api(status)) => {
            ensure!(status.code == 403, "the attacker is told {status:?}");
            Ok(())
        }
        Err(error) => Err(error.into()),
        Ok(()) => bail!("the attacker has more rights than `edit`"),
    }
}
