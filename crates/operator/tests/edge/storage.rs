//! Buckets of devices: claims of a provisioner that sim plays, (`own`) buckets of somebody's own, (`uploads`) files that get
//! into either, and (`route`) their address on OpenShift. ObjectBucketClaims are a kind of the whole cluster, so these tests
//! have clusters of their own.

mod own;
mod route;
mod uploads;

use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flashjob_api::edge::{EdgeDevice, EdgeDeviceSet};
use flashjob_sim::cluster::Cluster;
use flashjob_sim::edge::buckets::{Answer, Store};
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{Buckets, Device, Manner};
use flashjob_sim::http::{answers, free_address, get};
use flashjob_sim::{PATIENCE, eventually, programs};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::kit::{delete, patch_device};
use super::workload_kit::{condition, device, is_told, make, nginx, objects};

pub const SOON: Answer = Answer::Bound(Duration::from_millis(200));

/// A site of the cluster that has ObjectBucketClaims, which these tests share. One after the other: each applies the CRDs.
pub async fn site() -> Result<EdgeSite> {
    static CLUSTER: Mutex<Option<Cluster>> = Mutex::const_new(None);
    let mut cluster = CLUSTER.lock().await;
    if let Some(cluster) = &*cluster {
        return site_on(cluster).await;
    }
    let started = cluster.insert(Cluster::start().await?);
    Buckets::install(started).await?;
    site_on(started).await
}

async fn site_on(cluster: &Cluster) -> Result<EdgeSite> {
    EdgeSite::on(cluster, programs::built("flashjob-operator").await?).await
}

pub fn claims(site: &EdgeSite) -> Api<DynamicObject> {
    Buckets::claims(site.client.clone(), &site.namespace)
}

pub fn buckets(site: &EdgeSite, answer: Answer) -> Buckets {
    Buckets::start(site.client.clone(), &site.namespace, answer, Store::default())
}

/// An EdgeDevice that a person makes. `s3`: its storage.
async fn edge_device(site: &EdgeSite, name: &str, s3: Value) -> Result<EdgeDevice> {
    let made = json!({
        "apiVersion": "management.project-flotta.io/v1alpha1", "kind": "EdgeDevice",
        "metadata": { "name": name, "labels": { "edgedeviceSignedRequest": "true" } },
        "spec": { "storage": { "s3": s3 } },
    });
    Ok(site.devices().create(&PostParams::default(), &serde_json::from_value(made)?).await?)
}

async fn claim(site: &EdgeSite, name: &str) -> Result<Value> {
    let claims = claims(site);
    let what = format!("the claim of {name}");
    let found = eventually(&what, PATIENCE, async || Ok(claims.get_opt(name).await?)).await?;
    Ok(serde_json::to_value(found)?)
}

pub async fn names_of_claims(site: &EdgeSite) -> Result<Vec<String>> {
    let all = claims(site).list(&ListParams::default()).await?;
    Ok(all.iter().map(ResourceExt::name_any).collect())
}

/// Waits until StorageReady has this reason and says that.
async fn storage_says(site: &EdgeSite, name: &str, reason: &str, words: &str) -> Result<()> {
    let says = |found: &Value| {
        let said = condition(found, "StorageReady");
        assert!(!said["message"].as_str().unwrap_or_default().contains("hunter2"), "{said}");
        let is_true = said["status"] == "True";
        assert_eq!(is_true, said["reason"] == "Available", "{said}");
        said["reason"] == reason
            && said["message"].as_str().is_some_and(|said| said.contains(words))
    };
    let found = device(site, name, says).await.with_context(|| format!("{reason}: {words}"))?;
    // A bucket is no reason to keep anything else from the device.
    assert_eq!(condition(&found, "Configured")["status"], "True", "{found:#}");
    Ok(())
}

pub async fn has_its_bucket(site: &EdgeSite, name: &str) -> Result<()> {
    storage_says(site, name, "Available", "").await
}

/// The bucket that a device is told of; null if it is told of none.
async fn bucket(device: &Device) -> Result<Value> {
    // Who asks as often as these tests do is told to wait now and then.
    let asked = async || {
        let answer = device.fetch_configuration().await?;
        Ok((answer.code() == 200).then_some(answer.body))
    };
    let body = eventually("a configuration", PATIENCE, asked).await?;
    let message: Value = serde_json::from_slice(&body)?;
    Ok(message["content"]["configuration"]["storage"]["s3"].clone())
}

async fn is_told_of(device: &Device, wanted: &Value) -> Result<()> {
    let what = format!("{} to be told of {wanted}", device.id());
    let told = async || Ok((bucket(device).await? == *wanted).then_some(()));
    eventually(&what, PATIENCE, told).await
}

/// "id-of-pump-7" and "key-of-pump-7" in base64.
fn claimed(host: &str, port: u16) -> Value {
    json!({
        "bucket_host": host, "bucket_port": port, "bucket_name": "pump-7-bucket",
        "bucket_region": "ignore", "aws_access_key_id": "aWQtb2YtcHVtcC03",
        "aws_secret_access_key": "a2V5LW9mLXB1bXAtNw==",
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_is_claimed_for_a_device_and_the_device_is_told_of_it() -> Result<()> {
    let site = site().await?;
    let _buckets = buckets(&site, SOON);
    let metrics = free_address().await?;
    let flag = format!("--metrics-bind-address={metrics}");
    let mut operator = site.operator_with(&[&flag], None).await?;
    let pump = site.registered("pump-7", Manner::Flotta).await?;
    let made = claim(&site, "pump-7").await?;
    let uid = site.devices().get("pump-7").await?.uid();
    let owner = json!([{
        "apiVersion": "management.project-flotta.io/v1alpha1", "kind": "EdgeDevice",
        "name": "pump-7", "uid": uid, "controller": true,
    }]);
    assert_eq!(made["metadata"]["ownerReferences"], owner);
    let spec = json!({
        "generateBucketName": "pump-7", "storageClassName": "openshift-storage.noobaa.io"
    });
    assert_eq!(made["spec"], spec);
    is_told_of(&pump, &claimed("s3.openshift-storage.svc", 443)).await?;
    has_its_bucket(&site, "pump-7").await?;
    let there = device(&site, "pump-7", |found| found["status"]["dataObc"] == "pump-7").await?;
    assert_eq!(condition(&there, "Configured")["status"], "True", "{there:#}");
    let (_, text) = get(metrics, "/metrics").await?;
    assert!(text.contains("edge_claims_total{result=\"made\"} 1\n"), "{text}");
    let keys = ["id-of-pump-7", "key-of-pump-7", "aWQtb2YtcHVtcC03", "a2V5LW9mLXB1bXAtNw"];
    assert!(!keys.iter().any(|key| operator.log().contains(key)), "{}", operator.log());
    operator.operator.stop().await?;

    // With an address that devices can reach, and another class for what is claimed from now on.
    let ca = site.cluster.scratch().join("s3-ca.pem");
    std::fs::write(&ca, site.cluster.ca_pem())?;
    let ca = format!("--edge-s3-ca={}", ca.display());
    let flags = ["--edge-s3-address=s3.example.com:9000", &ca, "--edge-obc-storage-class=fast"];
    let _operator = site.operator_with(&flags, None).await?;
    let mut outside = claimed("s3.example.com", 9000);
    outside["aws_ca_bundle"] = json!(STANDARD.encode(site.cluster.ca_pem()));
    is_told_of(&pump, &outside).await?;
    edge_device(&site, "pump-8", json!(null)).await?;
    assert_eq!(claim(&site, "pump-8").await?["spec"]["storageClassName"], "fast");
    assert_eq!(claim(&site, "pump-7").await?["spec"], spec);

    // Keys that are changed get there, and what goes is said.
    let secrets: Api<Secret> = site.api();
    secrets.delete("pump-7", &Default::default()).await?;
    is_told_of(&pump, &json!(null)).await?;
    storage_says(&site, "pump-7", "BucketPending", "there is no Secret").await?;
    Ok(())
}

/// Workloads reach a device, whatever its bucket does.
async fn runs_a_workload(site: &EdgeSite, device: &Device) -> Result<()> {
    let api = objects(site, "EdgeDeployment", "edgedeployments");
    make(&api, "EdgeDeployment", "web", nginx("nginx:1", json!({ "device": device.id() }))).await?;
    is_told(device, &["web"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn while_nobody_answers_a_claim_all_else_is_served() -> Result<()> {
    let site = site().await?;
    let operator = site.operator().await?;
    let pump = site.registered("pump-7", Manner::Flotta).await?;
    claim(&site, "pump-7").await?;
    runs_a_workload(&site, &pump).await?;
    assert_eq!(bucket(&pump).await?, json!(null));
    storage_says(&site, "pump-7", "BucketPending", "waits for its provisioner").await?;
    let there = device(&site, "pump-7", |found| found["status"]["dataObc"] == "pump-7").await?;
    assert_eq!(condition(&there, "Configured")["status"], "True", "{there:#}");

    // The next process finds it, and makes no other.
    drop(operator);
    let uid = claims(&site).get("pump-7").await?.uid();
    let _operator = site.operator().await?;
    let _buckets = buckets(&site, SOON);
    is_told_of(&pump, &claimed("s3.openshift-storage.svc", 443)).await?;
    assert_eq!(claims(&site).get("pump-7").await?.uid(), uid);
    assert_eq!(
        site.operators
            .writes(&site.namespace)?
            .iter()
            .filter(|write| write.resource == "objectbucketclaims")
            .count(),
        1
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_refused_is_said_in_the_clusters_words_and_made_when_it_may_be()
-> Result<()> {
    let site = site().await?;
    let kind = "count/objectbucketclaims.objectbucket.io";
    site.cluster.allow(&site.namespace, kind, 0).await?;
    let _buckets = buckets(&site, SOON);
    let _operator = site.operator().await?;
    let pump = site.registered("pump-7", Manner::Flotta).await?;
    runs_a_workload(&site, &pump).await?;
    storage_says(&site, "pump-7", "BucketRefused", "exceeded quota: tight").await?;
    // A key is renewed as ever: nothing waits for a claim.
    assert_eq!(pump.renew().await?.code(), 200);
    site.cluster.allow(&site.namespace, kind, 9).await?;
    is_told_of(&pump, &claimed("s3.openshift-storage.svc", 443)).await?;
    has_its_bucket(&site, "pump-7").await?;

    // One whose provisioner gives up.
    let other = self::site().await?;
    let _failing = buckets(&other, Answer::Failed);
    let _operator = other.operator().await?;
    edge_device(&other, "pump-9", json!(null)).await?;
    storage_says(&other, "pump-9", "BucketRefused", "says Failed").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_that_are_there_are_used_only_where_nobody_else_owns_them() -> Result<()> {
    let site = site().await?;
    let _buckets = buckets(&site, SOON);
    let maps: Api<ConfigMap> = site.api();
    let map = json!({ "metadata": { "name": "somebody" } });
    let somebody = maps.create(&PostParams::default(), &serde_json::from_value(map)?).await?;
    let put = async |name: &str, owners: Value| {
        let made = json!({
            "apiVersion": "objectbucket.io/v1alpha1", "kind": "ObjectBucketClaim",
            "metadata": { "name": name, "ownerReferences": owners },
            "spec": { "generateBucketName": "theirs", "storageClassName": "theirs" },
        });
        claims(&site).create(&PostParams::default(), &serde_json::from_value(made)?).await?;
        anyhow::Ok(())
    };
    let owner = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "somebody", "uid": somebody.uid(),
    });
    put("pump-1", json!([owner])).await?;
    // As the original made them.
    put("pump-7", json!(null)).await?;
    // Of an EdgeDevice of the same name that is gone.
    let earlier = json!({
        "apiVersion": "management.project-flotta.io/v1alpha1", "kind": "EdgeDevice",
        "name": "pump-3", "uid": "6f1f8d56-0f0c-4c0e-8f0c-8f5d0c0e6f1f", "controller": true,
    });
    put("pump-3", json!([earlier])).await?;
    let _operator = site.operator().await?;
    let pump = site.registered("pump-7", Manner::Flotta).await?;
    for name in ["pump-1", "pump-3"] {
        edge_device(&site, name, json!(null)).await?;
    }
    storage_says(&site, "pump-1", "BucketRefused", "belongs to somebody else").await?;
    is_told_of(&pump, &claimed("s3.openshift-storage.svc", 443)).await?;
    has_its_bucket(&site, "pump-7").await?;
    device(&site, "pump-7", |found| found["status"]["dataObc"] == "pump-7").await?;
    for name in ["pump-1", "pump-7"] {
        let claim = claims(&site).get(name).await?;
        assert_eq!(claim.data["spec"]["generateBucketName"], "theirs");
        let owners = claim.metadata.owner_references.unwrap_or_default();
        assert!(owners.iter().all(|owner| owner.kind == "ConfigMap"), "{owners:?}");
    }
    assert_eq!(site.devices().get("pump-1").await?.status.and_then(|status| status.data_obc), None);

    storage_says(&site, "pump-3", "BucketPending", "earlier EdgeDevice").await?;
    // What the garbage collector does.
    let secrets: Api<Secret> = site.api();
    maps.delete("pump-3", &Default::default()).await?;
    secrets.delete("pump-3", &Default::default()).await?;
    claims(&site).delete("pump-3", &Default::default()).await?;
    has_its_bucket(&site, "pump-3").await?;
    assert_eq!(claim(&site, "pump-3").await?["spec"]["generateBucketName"], "pump-3");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn with_claims_switched_off_only_who_asks_has_one() -> Result<()> {
    let mut site = site().await?;
    site.operators = site.operators.clone().with_env("OBC_AUTO_CREATE", "false");
    let _buckets = buckets(&site, SOON);
    let sets: Api<EdgeDeviceSet> = site.api();
    let set = json!({
        "apiVersion": "management.project-flotta.io/v1alpha1", "kind": "EdgeDeviceSet",
        "metadata": { "name": "floor-2" }, "spec": { "storage": { "s3": { "createOBC": true } } },
    });
    sets.create(&PostParams::default(), &serde_json::from_value(set)?).await?;
    let _operator = site.operator().await?;
    edge_device(&site, "silent", json!(null)).await?;
    edge_device(&site, "asks", json!({ "createOBC": true })).await?;
    edge_device(&site, "member", json!(null)).await?;
    let label = json!({ "metadata": { "labels": { "flotta/member-of": "floor-2" } } });
    patch_device(&site, "member", label).await?;
    for name in ["asks", "member"] {
        has_its_bucket(&site, name).await?;
    }
    let silent = device(&site, "silent", |found| found["status"].is_object()).await?;
    assert_eq!(condition(&silent, "StorageReady"), &Value::Null);
    assert_eq!(names_of_claims(&site).await?, ["asks", "member"]);
    // Who takes it back keeps the claim that is there, and its data.
    patch_device(&site, "asks", json!({ "spec": { "storage": null } })).await?;
    patch_device(
        &site,
        "silent",
        json!({ "spec": { "storage": { "s3": { "createOBC": true } } } }),
    )
    .await?;
    has_its_bucket(&site, "silent").await?;
    assert_eq!(
        site.devices().get("asks").await?.status.and_then(|s| s.data_obc).as_deref(),
        Some("asks")
    );
    Ok(())
}

/// Whoever provides buckets may come later than Edge; what was claimed goes with its device, by the real garbage collector.
#[tokio::test(flavor = "multi_thread")]
async fn claims_may_come_later_and_go_with_their_devices() -> Result<()> {
    let cluster = Cluster::start().await?;
    let site = site_on(&cluster).await?;
    let health = free_address().await?;
    let flag = format!("--health-probe-bind-address={health}");
    let _operator = site.operator_with(&[&flag], None).await?;
    answers(health, "/readyz", 200, "ok").await?;
    let pump = site.registered("pump-7", Manner::Flotta).await?;
    edge_device(&site, "asks", json!({ "createOBC": true })).await?;
    runs_a_workload(&site, &pump).await?;
    storage_says(&site, "asks", "BucketPending", "no such kind").await?;
    let found = device(&site, "pump-7", |found| found["status"]["conditions"].is_array()).await?;
    assert_eq!(condition(&found, "StorageReady"), &Value::Null, "nobody asked for it");

    Buckets::install(&cluster).await?;
    let _buckets = buckets(&site, SOON);
    is_told_of(&pump, &claimed("s3.openshift-storage.svc", 443)).await?;
    for name in ["asks", "pump-7"] {
        has_its_bucket(&site, name).await?;
    }

    let Some(_collector) = cluster.controller_manager(&["garbagecollector"]).await? else {
        println!(
            "the assets have no kube-controller-manager: the end of the claim was not checked"
        );
        return Ok(());
    };
    delete(&site, "pump-7").await?;
    let (secrets, maps): (Api<Secret>, Api<ConfigMap>) = (site.api(), site.api());
    eventually("the end of the claim and all that is its", PATIENCE, async || {
        let left = claims(&site).get_opt("pump-7").await?.is_some()
            || secrets.get_opt("pump-7").await?.is_some()
            || maps.get_opt("pump-7").await?.is_some();
        Ok((!left).then_some(()))
    })
    .await?;
    assert_eq!(names_of_claims(&site).await?, ["asks"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ca_file_without_certificates_is_no_ca() -> Result<()> {
    let site = site().await?;
    let file = site.cluster.scratch().join("no-ca.pem");
    std::fs::write(&file, "no certificate")?;
    for (flag, words) in [
        (format!("--edge-s3-ca={}", file.display()), "has no certificates"),
        ("--edge-s3-ca=/nowhere".to_owned(), "/nowhere"),
        ("--edge-s3-address=https://s3".to_owned(), "expected HOST"),
    ] {
        let mut operator = site.operators.start(&[&flag], None)?;
        let (code, _) = operator.ended().await?;
        assert_ne!(code, 0, "{flag}");
        assert!(operator.log().contains(words), "{}", operator.log());
    }
    Ok(())
}
