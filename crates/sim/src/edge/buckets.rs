//! Plays NooBaa, as far as claims go: an ObjectBucketClaim becomes Bound, and a ConfigMap and a Secret of its name say where its
//! bucket is. With a [`Store`] that has a server the bucket is there, too, with a key of its own.
//!
//! The CRD is like the one of objectbucket.io. It differs from the real one in that nothing of it has a finalizer: what it makes
//! goes with the claim, and buckets stay until their server ends.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use flashjob_api::edge::ObjectBucketClaim as Claim;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;
use tracing::warn;

use super::s3::S3Server;
use crate::cluster::Cluster;
use crate::observe::{Change, observe};
use crate::retry::retry;

/// Where buckets are.
#[derive(Debug, Clone)]
pub struct Store {
    /// They are made there; without it they are only spoken of.
    pub server: Option<Arc<S3Server>>,
    /// What ConfigMaps say of its address.
    pub host: String,
    pub port: u16,
}

/// As NooBaa has it: an address that only Pods can reach.
impl Default for Store {
    fn default() -> Self {
        Self { server: None, host: "s3.openshift-storage.svc".to_owned(), port: 443 }
    }
}

impl Store {
    /// On this server, at the address that it has.
    pub fn on(server: &Arc<S3Server>) -> Self {
        let (host, port) = (server.address().ip().to_string(), server.address().port());
        Self { host, port, ..Self::inside(server) }
    }

    /// On this server, at an address that only Pods can reach.
    pub fn inside(server: &Arc<S3Server>) -> Self {
        Self { server: Some(server.clone()), ..Self::default() }
    }
}

/// What a claim is answered.
#[derive(Debug, Clone, Copy)]
pub enum Answer {
    /// It has its bucket so much later.
    Bound(Duration),
    Failed,
}

/// A running provisioner. It stops when dropped; without one no claim is ever answered.
#[derive(Debug)]
pub struct Buckets(JoinHandle<()>);

impl Drop for Buckets {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Buckets {
    /// Lets the cluster know ObjectBucketClaims.
    pub async fn install(cluster: &Cluster) -> Result<()> {
        cluster.apply_yaml(&crd().to_string()).await
    }

    /// Answers the claims of a namespace, on the current runtime.
    pub fn start(client: Client, namespace: &str, answer: Answer, store: Store) -> Self {
        Self(tokio::spawn(run(client, namespace.to_owned(), answer, store)))
    }

    /// The claims of a namespace.
    pub fn claims(client: Client, namespace: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("objectbucket.io", "v1alpha1", "ObjectBucketClaim");
        let resource = ApiResource::from_gvk_with_plural(&kind, "objectbucketclaims");
        Api::namespaced_with(client, namespace, &resource)
    }
}

async fn run(client: Client, namespace: String, answer: Answer, store: Store) {
    let claims = Buckets::claims(client.clone(), &namespace);
    let changes = observe::<Claim>(Api::namespaced(client.clone(), &namespace));
    let (mut changes, mut answers) = (std::pin::pin!(changes), JoinSet::new());
    let mut answered = HashSet::new();
    let provisioner = Arc::new((client, claims, store));
    while let Some(change) = changes.next().await {
        match change {
            Change::Here(claim) if answered.insert(claim.uid().unwrap_or_default()) => {
                let provisioner = provisioner.clone();
                answers.spawn(async move {
                    let (client, claims, store) = &*provisioner;
                    match answer {
                        Answer::Bound(after) => {
                            sleep(after).await;
                            bind(client, claims, store, &claim).await;
                        }
                        Answer::Failed => say(claims, &claim, "Failed").await,
                    }
                });
            }
            Change::Here(_) => {}
            Change::Gone(uid) => drop(answered.remove(&uid)),
        }
    }
}

/// Its ConfigMap and its Secret come first, as with the real one.
async fn bind(client: &Client, claims: &Api<DynamicObject>, store: &Store, claim: &Claim) {
    let (name, namespace) = (claim.name_any(), claim.namespace().unwrap_or_default());
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        owner_references: claim.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    };
    let [bucket, id, key] =
        [format!("{name}-bucket"), format!("id-of-{name}"), format!("key-of-{name}")];
    let made = store.server.as_ref().map(|server| server.make_bucket(&bucket, &id, &key));
    if let Some(Err(error)) = made {
        return warn!("{error:#}");
    }
    let data = [
        ("BUCKET_HOST", store.host.clone()),
        ("BUCKET_NAME", bucket),
        ("BUCKET_PORT", store.port.to_string()),
        ("BUCKET_REGION", String::new()),
        ("BUCKET_SUBREGION", String::new()),
    ];
    let data = data.map(|(key, value)| (key.to_owned(), value));
    let map =
        ConfigMap { metadata: metadata.clone(), data: Some(data.into()), ..ConfigMap::default() };
    let keys = [("AWS_ACCESS_KEY_ID", id), ("AWS_SECRET_ACCESS_KEY", key)];
    let keys = keys.map(|(key, value)| (key.to_owned(), value));
    let secret = Secret { metadata, string_data: Some(keys.into()), ..Secret::default() };
    let (maps, secrets) =
        (Api::namespaced(client.clone(), &namespace), Api::namespaced(client.clone(), &namespace));
    let params = PostParams::default();
    retry("make the ConfigMap of a claim", || maps.create(&params, &map)).await;
    retry("make the Secret of a claim", || secrets.create(&params, &secret)).await;
    say(claims, claim, "Bound").await;
}

async fn say(claims: &Api<DynamicObject>, claim: &Claim, phase: &str) {
    let change = json!({ "metadata": { "uid": claim.uid() }, "status": { "phase": phase } });
    let (name, params, patch) = (claim.name_any(), PatchParams::default(), Patch::Merge(change));
    retry("answer a claim", || claims.patch_status(&name, &params, &patch)).await;
}

fn crd() -> Value {
    let text = || json!({ "type": "string" });
    let anything = || json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let spec = json!({
        "type": "object",
        "properties": {
            "additionalConfig": anything(), "bucketName": text(), "generateBucketName": text(),
            "objectBucketName": text(), "storageClassName": text(),
        },
    });
    let schema = json!({
        "type": "object", "properties": { "spec": spec, "status": anything() },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "objectbucketclaims.objectbucket.io" },
        "spec": {
            "group": "objectbucket.io", "scope": "Namespaced",
            "names": {
                "kind": "ObjectBucketClaim", "listKind": "ObjectBucketClaimList",
                "plural": "objectbucketclaims", "singular": "objectbucketclaim",
                "shortNames": ["obc", "obcs"],
            },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema }, "subresources": { "status": {} },
            }],
        },
    })
}
