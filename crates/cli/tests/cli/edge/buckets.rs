//! A bucket that is claimed for a device, as `edge render` shows it. ObjectBucketClaims are a kind of the whole cluster, so this
//! one is alone on its own.

use std::time::Duration;

use anyhow::Result;
use flashjob_plan::edge::configuration::masked;
use flashjob_sim::cluster::Cluster;
use flashjob_sim::edge::buckets::{Answer, Store};
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{Buckets, Manner};
use flashjob_sim::{PATIENCE, eventually, programs};
use serde_json::{Value, json};

use super::EdgeCli;
use super::roles::account;
use super::workloads::is_told_what;

/// The operator's Deployment, as far as its flags go.
fn deployment(args: &[&str]) -> Value {
    let labels = json!({ "app": "edge" });
    let container = json!({ "name": "manager", "image": "example/manager", "args": args });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "flotta-edge-api" },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
        },
    })
}

/// The viewer may look at claims, too.
async fn see_claims(site: &EdgeCli, viewer: &str) -> Result<()> {
    let rule = json!({ "apiGroups": ["objectbucket.io"], "resources": ["objectbucketclaims"], "verbs": ["get"] });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "name": "claims" }, "rules": [rule],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "claims" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "claims" },
        "subjects": [{ "kind": "ServiceAccount", "name": viewer, "namespace": site.namespace }],
    });
    for object in [role, binding] {
        site.cluster.apply_yaml_in(&site.namespace, &object.to_string()).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_claimed_bucket_is_shown_as_the_device_is_told_of_it() -> Result<()> {
    let cluster = Cluster::start().await?;
    Buckets::install(&cluster).await?;
    let site = EdgeSite::on(&cluster, programs::built("flashjob-operator").await?).await?;
    let site = EdgeCli::on(site)?;
    let address = "--edge-s3-address=s3.example.com:9000";
    let _operator = site.operator_with(&[address], None).await?;
    let one = site.registered("one", Manner::Flotta).await?;
    // Nobody has answered the claim so far.
    let render = ["render", "one", "-o", "json"];
    let pending = format!("note: BucketPending: the ObjectBucketClaim {}/one ", site.namespace);
    let waits = eventually("the claim", PATIENCE, async || {
        let ended = site.run_at_home(&render).await;
        Ok(ended.err.contains(&pending).then_some(ended))
    })
    .await?;
    let waits: Value = serde_json::from_str(&waits.well())?;
    assert!(waits["configuration"]["storage"].is_null(), "{waits:#}");

    let soon = Answer::Bound(Duration::ZERO);
    let _buckets = Buckets::start(site.client.clone(), &site.namespace, soon, Store::default());
    let has_one = |told: &flashjob_api::edge::wire::DeviceConfigurationMessage| {
        told.configuration.as_ref().is_some_and(|of| of.storage.is_some())
    };
    let told = is_told_what(&one, "its bucket", has_one).await?;
    let wanted = serde_json::to_value(masked(&told))?;
    let s3 = &wanted["configuration"]["storage"]["s3"];
    assert_eq!(
        (&s3["bucket_host"], &s3["bucket_name"]),
        (&json!("s3.example.com"), &json!("one-bucket"))
    );
    assert_eq!(s3["aws_secret_access_key"], "***", "{wanted:#}");

    // The flags of the operator are not to be seen.
    let blind = site.run_at_home(&render).await;
    assert!(blind.err.contains("the flags of the operator you cannot see"), "{blind:#?}");
    let blind: Value = serde_json::from_str(&blind.well())?;
    assert_eq!(blind["configuration"]["storage"]["s3"]["bucket_host"], "s3.openshift-storage.svc");
    assert_eq!(blind["version"], "<not readable>");

    let home = deployment(&["--controllers=edge", address]);
    site.cluster.apply_yaml_in(&site.home, &home.to_string()).await?;
    let seen = site.run_at_home(&render).await;
    assert!(!seen.err.contains("note:"), "{seen:#?}");
    assert_eq!(serde_json::from_str::<Value>(&seen.well())?, wanted);

    let viewer = account(&site, "flotta-edge-viewer-role").await?;
    let claim = format!("the ObjectBucketClaim {}/one you may not read", site.namespace);
    let ended = site.run_as(&viewer, &render).await;
    assert!(ended.err.contains(&claim), "{ended:#?}");
    let shown: Value = serde_json::from_str(&ended.well())?;
    assert!(shown["configuration"]["storage"].is_null() && shown["version"] == "<not readable>");

    see_claims(&site, "flotta-edge-viewer-role").await?;
    let ended = site.run_as(&viewer, &render).await;
    for kind in ["Secret", "ConfigMap"] {
        let what = format!("{kind} {}/one you may not read", site.namespace);
        assert!(ended.err.contains(&what), "{ended:#?}");
    }
    let shown: Value = serde_json::from_str(&ended.well())?;
    let s3 = &shown["configuration"]["storage"]["s3"];
    let words =
        ["bucket_name", "aws_access_key_id"].map(|key| s3[key].as_str().unwrap_or_default());
    assert_eq!(words, ["<not readable>", "***"], "{shown:#}");
    Ok(())
}
