use anyhow::{Context, Result};
use flashjob_sim::cluster::Cluster;
use flashjob_sim::eventually;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, Client};
use serde_json::json;

use crate::LIMIT;

fn config_map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    }
}

fn refused<T>(result: kube::Result<T>) -> bool {
    matches!(result, Err(kube::Error::Api(status)) if status.is_forbidden())
}

#[tokio::test]
async fn admin_may_do_everything_and_nobody_nothing() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let namespace = cluster.namespace("users").await?;
    let params = PostParams::default();
    let admin: Api<ConfigMap> = Api::namespaced(cluster.client("admin")?, &namespace);
    admin.create(&params, &config_map("a")).await?;
    let nobody: Api<ConfigMap> = Api::namespaced(cluster.client("nobody")?, &namespace);
    assert!(refused(nobody.create(&params, &config_map("b")).await));
    assert!(refused(nobody.get("a").await));
    let stranger: Api<ConfigMap> = Api::namespaced(cluster.client("stranger")?, &namespace);
    assert!(stranger.get("a").await.is_err());
    Ok(())
}

#[tokio::test]
async fn the_audit_log_counts_writes() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let namespace = cluster.namespace("audit").await?;
    let before = cluster.writes(&namespace)?.len();
    let admin: Api<ConfigMap> = Api::namespaced(cluster.client("admin")?, &namespace);
    admin.create(&PostParams::default(), &config_map("a")).await?;
    let patch = Patch::Merge(json!({ "data": { "key": "value" } }));
    admin.patch("a", &PatchParams::default(), &patch).await?;
    admin.get("a").await?;
    let nobody: Api<ConfigMap> = Api::namespaced(cluster.client("nobody")?, &namespace);
    assert!(refused(nobody.delete("a", &Default::default()).await));

    let writes = eventually("three more writes in the audit log", LIMIT, || async {
        let writes = cluster.writes(&namespace)?;
        Ok((writes.len() >= before + 3).then(|| writes[before..].to_vec()))
    })
    .await?;
    let seen: Vec<_> = writes
        .iter()
        .map(|entry| {
            (entry.user.as_str(), entry.verb.as_str(), entry.resource.as_str(), entry.code)
        })
        .collect();
    let expected = [
        ("admin", "create", "configmaps", 201),
        ("admin", "patch", "configmaps", 200),
        ("nobody", "delete", "configmaps", 403),
    ];
    assert_eq!(seen, expected);
    assert_eq!(writes[1].name.as_deref(), Some("a"));
    assert!(!writes[0].user_agent.contains("nobody"));
    Ok(())
}

#[tokio::test]
async fn a_service_account_has_the_rights_its_role_gives() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let namespace = cluster.namespace("account").await?;
    let manifest = "
apiVersion: v1
kind: ServiceAccount
metadata: { name: operator }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: { name: operator }
rules:
- { apiGroups: [\"\"], resources: [configmaps], verbs: [create] }
---
# An empty document, and a comment.
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: operator }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: operator }
subjects:
- { kind: ServiceAccount, name: operator }
";
    cluster.apply_yaml_in(&namespace, manifest).await?;
    let token = cluster.service_account_token(&namespace, "operator").await?;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client_with_token(&token)?, &namespace);
    eventually("the role to be in force", LIMIT, || async {
        Ok(maps.create(&PostParams::default(), &config_map("a")).await.ok())
    })
    .await?;
    assert!(refused(maps.get("a").await));

    let path = cluster.kubeconfig(&token, &namespace, None)?;
    let kubeconfig = kube::config::Kubeconfig::read_from(path)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
    let client = Client::try_from(config)?;
    assert_eq!(client.default_namespace(), namespace);
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    maps.create(&PostParams::default(), &config_map("b")).await?;
    Ok(())
}

#[tokio::test]
async fn a_new_kind_can_be_used_in_the_same_manifest() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let manifest = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: boards.example.org }
spec:
  group: example.org
  scope: Cluster
  names: { kind: Board, plural: boards, singular: board }
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true }
---
apiVersion: example.org/v1
kind: Board
metadata: { name: one }
";
    cluster.apply_yaml(manifest).await?;
    let rule = "{apiVersion: monitoring.coreos.com/v1, kind: PrometheusRule, metadata: {name: a}}";
    let error = cluster.apply_yaml(rule).await.err().context("an unknown kind was applied")?;
    assert!(error.to_string().contains("PrometheusRule"), "{error:#}");
    Ok(())
}

#[tokio::test]
async fn a_paused_server_answers_when_it_goes_on() -> Result<()> {
    // Its own cluster: the pause would stop every other test.
    let cluster = Cluster::start().await?;
    let client = cluster.client("admin")?;
    cluster.pause_api_server().await?;
    let version = client.apiserver_version();
    let short = std::time::Duration::from_millis(300);
    assert!(tokio::time::timeout(short, version).await.is_err());
    cluster.resume_api_server().await?;
    client.apiserver_version().await?;
    cluster.stop().await;
    assert!(client.apiserver_version().await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_namespace_takes_well_under_a_second() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let started = std::time::Instant::now();
    for _ in 0..5 {
        cluster.namespace("quick").await?;
    }
    let each = started.elapsed() / 5;
    assert!(each < std::time::Duration::from_millis(900), "{each:?}");
    Ok(())
}
