//! The address of claimed buckets by OpenShift's Route: by flag, Route, or ConfigMap, in this order. Routes are a kind of the
//! whole cluster, and this one has a fixed name, so the test has a cluster of its own.

use std::sync::Arc;

use anyhow::Result;
use flashjob_api::edge::wire::S3;
use flashjob_sim::cluster::{AuditEntry, Cluster};
use flashjob_sim::edge::buckets::Store;
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{BucketClient, Buckets, Device, Manner, S3Server};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::uploads::{ca_flag, is_told, uploads};
use super::{SOON, site_on, storage_says};

/// The name that the certificate of a server has beside its address.
const HOST: &str = S3Server::OUTSIDE;
/// What NooBaa's ConfigMaps say.
const INSIDE: &str = "s3.openshift-storage.svc";

/// As OpenShift has it, as far as it is read.
fn crd() -> Value {
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let schema = json!({ "type": "object", "properties": { "spec": anything } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "routes.route.openshift.io" },
        "spec": {
            "group": "route.openshift.io", "scope": "Namespaced",
            "names": { "kind": "Route", "plural": "routes", "singular": "route" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

/// What whoever administrates OpenShift's storage is asked for in docs/data-upload.md.
fn binding(site: &EdgeSite) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": "flotta-edge-api-route", "namespace": "openshift-storage" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "flotta-edge-api-route",
        },
        "subjects": [{ "kind": "ServiceAccount", "name": "flotta-edge-api", "namespace": site.home }],
    })
}

/// Makes the Route, or changes it.
async fn leads_to(site: &EdgeSite, host: Option<&str>) -> Result<()> {
    let kind = GroupVersionKind::gvk("route.openshift.io", "v1", "Route");
    let kind = ApiResource::from_gvk_with_plural(&kind, "routes");
    let routes: Api<DynamicObject> =
        Api::namespaced_with(site.client.clone(), "openshift-storage", &kind);
    let route = json!({
        "apiVersion": "route.openshift.io/v1", "kind": "Route", "metadata": { "name": "s3" },
        "spec": { "host": host, "to": { "kind": "Service", "name": "s3" } },
    });
    routes.patch("s3", &PatchParams::apply("test").force(), &Patch::Apply(route)).await?;
    Ok(())
}

/// What the operator has asked of Routes.
fn asked(site: &EdgeSite) -> Result<Vec<AuditEntry>> {
    let ours = format!("system:serviceaccount:{}:", site.home);
    let mut asked = site.cluster.audit()?;
    asked.retain(|call| call.group == "route.openshift.io" && call.user.starts_with(&ours));
    Ok(asked)
}

async fn is_told_of(device: &Device, host: &str) -> Result<S3> {
    is_told(device, &format!("a bucket at {host}"), |told| told.bucket_host == host).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_of_claimed_buckets_is_by_flag_or_route_or_config_map() -> Result<()> {
    let cluster = Cluster::start().await?;
    Buckets::install(&cluster).await?;
    let site = site_on(&cluster).await?;
    let server = Arc::new(S3Server::start().await?);
    let store = Store::inside(&server);
    let _buckets = Buckets::start(site.client.clone(), &site.namespace, SOON, store);
    let ca = ca_flag(&site, &server)?;

    // A cluster without Routes is not asked for one.
    let operator = site.operator_with(&[&ca], None).await?;
    let pump = site.registered("pump-7", Manner::Flotta).await?;
    is_told_of(&pump, INSIDE).await?;
    assert_eq!(asked(&site)?, []);

    // They come, and who may not read this one does without.
    cluster.apply_yaml(&crd().to_string()).await?;
    cluster.make_namespace("openshift-storage").await?;
    leads_to(&site, Some(HOST)).await?;
    operator.operator.says("routes.route.openshift.io \"s3\" is forbidden").await?;
    drop(operator);
    let operator = site.operator_with(&[&ca], None).await?;
    let tank = site.registered("tank-3", Manner::Ours).await?;
    is_told_of(&tank, INSIDE).await?;

    // Who lets it be read while Edge is at work has devices sent there.
    cluster.apply_yaml(&binding(&site).to_string()).await?;
    let told = is_told_of(&pump, HOST).await?;
    assert_eq!((told.bucket_port, told.bucket_name.as_str()), (443, "pump-7-bucket"));
    let client = BucketClient::through(&told, server.address())?;
    uploads(&client, &server, &told.bucket_name).await?;
    storage_says(&site, "pump-7", "Available", "").await?;
    drop(operator);

    // An address that Edge was given counts more, and then nobody is asked.
    let before = asked(&site)?.len();
    let address = format!("--edge-s3-address={}", server.address());
    let operator = site.operator_with(&[&ca, &address], None).await?;
    let told = is_told_of(&pump, "127.0.0.1").await?;
    uploads(&BucketClient::told(&told)?, &server, &told.bucket_name).await?;
    drop(operator);
    assert_eq!(asked(&site)?.len(), before);

    // One that leads nowhere is named, and no other address taken for it.
    leads_to(&site, None).await?;
    let _operator = site.operator_with(&[&ca], None).await?;
    storage_says(&site, "pump-7", "BucketPending", "Route openshift-storage/s3 has no host")
        .await?;

    // It is this one Route that was read, and nothing else.
    let calls = asked(&site)?;
    assert!(calls.len() > before, "{calls:?}");
    for call in &calls {
        let object = (call.namespace.as_deref(), call.name.as_deref());
        assert_eq!((call.verb.as_str(), object), ("get", (Some("openshift-storage"), Some("s3"))));
    }
    Ok(())
}
