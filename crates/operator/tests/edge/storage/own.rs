//! Buckets of somebody's own: in every way they can be given, and without each thing they need.

use std::collections::BTreeMap;

use anyhow::Result;
use flashjob_api::edge::EdgeDeviceSet;
use flashjob_sim::edge::Manner;
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::{
    bucket, edge_device, has_its_bucket, is_told_of, names_of_claims, runs_a_workload, site,
    storage_says,
};
use crate::kit::patch_device;

const ACCESS: (&str, &str) = ("AWS_ACCESS_KEY_ID", "id");
const SECRET: (&str, &str) = ("AWS_SECRET_ACCESS_KEY", "hunter2");
const PLACE: [(&str, &str); 4] = [
    ("BUCKET_NAME", "mine"),
    ("BUCKET_HOST", "s3.example.com"),
    ("BUCKET_PORT", "9000"),
    ("BUCKET_REGION", "eu"),
];

pub async fn secret(site: &EdgeSite, name: &str, data: &[(&str, &str)]) -> Result<()> {
    let data: BTreeMap<_, _> = data.iter().copied().collect();
    let made = json!({ "metadata": { "name": name }, "stringData": data });
    let secrets: Api<Secret> = site.api();
    secrets.create(&PostParams::default(), &serde_json::from_value(made)?).await?;
    Ok(())
}

pub async fn config_map(site: &EdgeSite, name: &str, data: &[(&str, &str)]) -> Result<()> {
    let data: BTreeMap<_, _> = data.iter().copied().collect();
    let made = json!({ "metadata": { "name": name }, "data": data });
    let maps: Api<ConfigMap> = site.api();
    maps.create(&PostParams::default(), &serde_json::from_value(made)?).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_of_ones_own_is_taken_instead_of_a_claim() -> Result<()> {
    let site = site().await?;
    let _operator = site.operator().await?;
    secret(&site, "keys", &[ACCESS, SECRET]).await?;
    secret(&site, "keys-with-ca", &[ACCESS, SECRET, ("tls.crt", "PEM")]).await?;
    config_map(&site, "place", &PLACE).await?;
    let own = |secret: &str| json!({ "secretName": secret, "configMapName": "place" });
    edge_device(&site, "pump-7", own("keys")).await?;
    let pump = site.registered("pump-7", Manner::Flotta).await?;
    let mut wanted = json!({
        "bucket_host": "s3.example.com", "bucket_port": 9000, "bucket_name": "mine",
        "bucket_region": "eu", "aws_access_key_id": "aWQ=", "aws_secret_access_key": "aHVudGVyMg==",
    });
    is_told_of(&pump, &wanted).await?;
    has_its_bucket(&site, "pump-7").await?;
    // By its set, which comes first.
    let sets: Api<EdgeDeviceSet> = site.api();
    let set = json!({
        "apiVersion": "management.project-flotta.io/v1alpha1", "kind": "EdgeDeviceSet",
        "metadata": { "name": "floor-2" }, "spec": { "storage": { "s3": own("keys-with-ca") } },
    });
    sets.create(&PostParams::default(), &serde_json::from_value(set)?).await?;
    let label = json!({ "metadata": { "labels": { "flotta/member-of": "floor-2" } } });
    patch_device(&site, "pump-7", label).await?;
    wanted["aws_ca_bundle"] = json!("UEVN");
    is_told_of(&pump, &wanted).await?;
    assert_eq!(names_of_claims(&site).await?, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_thing_that_a_bucket_of_ones_own_lacks_is_named() -> Result<()> {
    let site = site().await?;
    let _operator = site.operator().await?;
    secret(&site, "keys", &[ACCESS, SECRET]).await?;
    secret(&site, "no-id", &[SECRET]).await?;
    secret(&site, "no-key", &[ACCESS]).await?;
    config_map(&site, "place", &PLACE).await?;
    for (i, (key, _)) in PLACE.iter().enumerate() {
        let rest: Vec<_> = PLACE.into_iter().filter(|(other, _)| other != key).collect();
        config_map(&site, &format!("place-{i}"), &rest).await?;
    }
    config_map(&site, "port", &[PLACE[0], PLACE[1], ("BUCKET_PORT", "https"), PLACE[3]]).await?;
    let cases = [
        (json!(["gone", "place", null]), "SecretMissing", "gone"),
        (json!(["keys", "gone", null]), "ConfigMapMissing", "gone"),
        (json!(["no-id", "place", null]), "SecretKeyMissing", "AWS_ACCESS_KEY_ID"),
        (json!(["no-key", "place", null]), "SecretKeyMissing", "AWS_SECRET_ACCESS_KEY"),
        (json!(["keys", "place-0", null]), "ConfigMapKeyMissing", "BUCKET_NAME"),
        (json!(["keys", "place-1", null]), "ConfigMapKeyMissing", "BUCKET_HOST"),
        (json!(["keys", "place-2", null]), "ConfigMapKeyMissing", "BUCKET_PORT"),
        (json!(["keys", "place-3", null]), "ConfigMapKeyMissing", "BUCKET_REGION"),
        (json!(["keys", "port", null]), "ConfigMapKeyMissing", "is no port"),
        (json!(["keys", null, null]), "InvalidSpec", "only one of"),
        (json!([null, "place", null]), "InvalidSpec", "only one of"),
        (json!(["keys", null, true]), "InvalidSpec", "createOBC"),
        (json!(["keys", "place", true]), "InvalidSpec", "createOBC"),
    ];
    for (i, (s3, _, _)) in cases.iter().enumerate() {
        let s3 = json!({ "secretName": s3[0], "configMapName": s3[1], "createOBC": s3[2] });
        edge_device(&site, &format!("pump-{i}"), s3).await?;
    }
    for (i, (_, reason, word)) in cases.iter().enumerate() {
        let name = format!("pump-{i}");
        storage_says(&site, &name, reason, word).await?;
    }
    assert_eq!(names_of_claims(&site).await?, Vec::<String>::new());

    // What was missing comes, and the device has it.
    let pump = site.registered("pump-0", Manner::Flotta).await?;
    runs_a_workload(&site, &pump).await?;
    assert_eq!(bucket(&pump).await?, json!(null));
    secret(&site, "gone", &[ACCESS, SECRET]).await?;
    let told = async || Ok((bucket(&pump).await?["bucket_name"] == "mine").then_some(()));
    eventually("its bucket", PATIENCE, told).await?;
    has_its_bucket(&site, "pump-0").await?;
    Ok(())
}
