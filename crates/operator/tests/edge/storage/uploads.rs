//! Files get into buckets: with what a device is told and nothing else, on a real S3 server that lets in who has the key of a
//! bucket, and that nobody knows who was not told its CA.

use std::sync::Arc;

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flashjob_api::edge::EdgeDeviceSet;
use flashjob_api::edge::wire::S3;
use flashjob_sim::edge::buckets::Store;
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{BucketClient, Buckets, Device, Manner, S3Server};
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use super::own::{config_map, secret};
use super::{SOON, edge_device, site};
use crate::kit::patch_device;

/// Waits until a device is told of such a bucket.
pub async fn is_told(device: &Device, what: &str, wish: impl Fn(&S3) -> bool) -> Result<S3> {
    let what = format!("{} to be told of {what}", device.id());
    eventually(&what, PATIENCE, async || {
        device.fetch_configuration().await?;
        Ok(device.bucket().filter(&wish))
    })
    .await
}

/// What is put into the bucket is there, by the server's files, and comes back.
pub async fn uploads(client: &BucketClient, server: &S3Server, bucket: &str) -> Result<()> {
    let (file, content) = ("web/logs/today.log", format!("of {bucket}"));
    assert_eq!(client.put(file, content.clone()).await?, 200);
    assert_eq!(server.objects(bucket)?[file], content.as_bytes());
    assert_eq!(client.get(file).await?, (200, content.into()));
    Ok(())
}

/// The same with what a device is told.
async fn uploads_as_told(told: &S3, server: &S3Server) -> Result<()> {
    uploads(&BucketClient::told(told)?, server, &told.bucket_name).await
}

/// The server says no.
async fn is_refused(told: &S3) -> Result<()> {
    let client = BucketClient::told(told)?;
    assert_eq!((client.put("x", "x").await?, client.get("x").await?.0), (403, 403));
    Ok(())
}

/// The device says no: it does not know the server's CA.
async fn is_not_trusted(told: &S3) -> Result<()> {
    let refused = BucketClient::told(told)?.put("x", "x").await.unwrap_err();
    assert!(format!("{refused:#}").contains("invalid peer certificate"), "{refused:#}");
    Ok(())
}

/// The flag for the CA of this server.
pub fn ca_flag(site: &EdgeSite, server: &S3Server) -> Result<String> {
    let file = format!("s3-ca-{}.pem", server.address().port());
    let file = site.cluster.scratch().join(file);
    std::fs::write(&file, server.ca_pem())?;
    Ok(format!("--edge-s3-ca={}", file.display()))
}

async fn change_secret(site: &EdgeSite, name: &str, key: &str, value: &str) -> Result<()> {
    let secrets: Api<Secret> = site.api();
    let patch = Patch::Merge(json!({ "stringData": { key: value } }));
    secrets.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn files_get_into_the_bucket_that_was_claimed_at_the_address_its_config_map_has() -> Result<()>
{
    let site = site().await?;
    let server = Arc::new(S3Server::start().await?);
    let _buckets = Buckets::start(site.client.clone(), &site.namespace, SOON, Store::on(&server));
    let operator = site.operator().await?;
    let pump = site.registered("pump-7", Manner::Flotta).await?;
    let port = i32::from(server.address().port());
    // Edge knows no CA, and so the device does not.
    let told = is_told(&pump, "its bucket", |told| told.bucket_port == port).await?;
    is_not_trusted(&told).await?;
    drop(operator);

    let _operator = site.operator_with(&[&ca_flag(&site, &server)?], None).await?;
    let told = is_told(&pump, "the CA", |told| !told.aws_ca_bundle.is_empty()).await?;
    uploads_as_told(&told, &server).await?;
    let tank = site.registered("tank-3", Manner::Ours).await?;
    let tanks = is_told(&tank, "its bucket", |told| told.bucket_port == port).await?;
    uploads_as_told(&tanks, &server).await?;
    // Each has the key of its own bucket.
    is_refused(&S3 { bucket_name: tanks.bucket_name.clone(), ..told.clone() }).await?;
    assert_eq!(server.objects("tank-3-bucket")?.len(), 1);

    // Whoever provides buckets gives it another key.
    server.make_bucket(&told.bucket_name, "another-id", "another-key")?;
    is_refused(&told).await?;
    change_secret(&site, "pump-7", "AWS_ACCESS_KEY_ID", "another-id").await?;
    change_secret(&site, "pump-7", "AWS_SECRET_ACCESS_KEY", "another-key").await?;
    let another = STANDARD.encode("another-key");
    let told = is_told(&pump, "the key", |told| told.aws_secret_access_key == another).await?;
    uploads_as_told(&told, &server).await
}

#[tokio::test(flavor = "multi_thread")]
async fn files_get_into_the_bucket_that_was_claimed_at_the_address_edge_was_given() -> Result<()> {
    let site = site().await?;
    let server = Arc::new(S3Server::start().await?);
    // Where no device gets to.
    let store = Store::inside(&server);
    let _buckets = Buckets::start(site.client.clone(), &site.namespace, SOON, store);
    let address = format!("--edge-s3-address=localhost:{}", server.address().port());
    let _operator = site.operator_with(&[&address, &ca_flag(&site, &server)?], None).await?;
    let pump = site.registered("pump-7", Manner::Ours).await?;
    let told = is_told(&pump, "its bucket", |_| true).await?;
    assert_eq!(told.bucket_host, "localhost");
    uploads_as_told(&told, &server).await
}

#[tokio::test(flavor = "multi_thread")]
async fn files_get_into_a_bucket_of_ones_own_by_the_device_or_its_set() -> Result<()> {
    let site = site().await?;
    let (server, other) = (S3Server::start().await?, S3Server::start().await?);
    let port = server.address().port().to_string();
    for (bucket, key) in [("mine", "hunter2"), ("ours", "hunter3")] {
        server.make_bucket(bucket, bucket, key)?;
        let place = [
            ("BUCKET_NAME", bucket),
            ("BUCKET_HOST", "127.0.0.1"),
            ("BUCKET_PORT", &*port),
            ("BUCKET_REGION", "eu"),
        ];
        config_map(&site, bucket, &place).await?;
        let key = [
            ("AWS_ACCESS_KEY_ID", bucket),
            ("AWS_SECRET_ACCESS_KEY", key),
            ("tls.crt", server.ca_pem()),
        ];
        secret(&site, bucket, &key).await?;
    }
    let own = |name: &str| json!({ "secretName": name, "configMapName": name });
    let _operator = site.operator().await?;
    edge_device(&site, "pump-7", own("mine")).await?;
    let pump = site.registered("pump-7", Manner::Flotta).await?;
    let told = is_told(&pump, "its bucket", |told| told.bucket_name == "mine").await?;
    uploads_as_told(&told, &server).await?;

    let sets: Api<EdgeDeviceSet> = site.api();
    let set = json!({
        "apiVersion": "management.project-flotta.io/v1alpha1", "kind": "EdgeDeviceSet",
        "metadata": { "name": "floor-2" }, "spec": { "storage": { "s3": own("ours") } },
    });
    sets.create(&PostParams::default(), &serde_json::from_value(set)?).await?;
    let label = json!({ "metadata": { "labels": { "flotta/member-of": "floor-2" } } });
    patch_device(&site, "pump-7", label).await?;
    let told = is_told(&pump, "the set's", |told| told.bucket_name == "ours").await?;
    uploads_as_told(&told, &server).await?;

    // The key of another bucket, and the CA of another server.
    let (wrong, right) = (STANDARD.encode("hunter2"), told.aws_secret_access_key.clone());
    change_secret(&site, "ours", "AWS_SECRET_ACCESS_KEY", "hunter2").await?;
    let told = is_told(&pump, "that key", |told| told.aws_secret_access_key == wrong).await?;
    is_refused(&told).await?;
    change_secret(&site, "ours", "AWS_SECRET_ACCESS_KEY", "hunter3").await?;
    change_secret(&site, "ours", "tls.crt", other.ca_pem()).await?;
    let ca = STANDARD.encode(other.ca_pem());
    let told = is_told(&pump, "that CA", |told| {
        told.aws_ca_bundle == ca && told.aws_secret_access_key == right
    })
    .await?;
    is_not_trusted(&told).await?;
    assert_eq!(server.objects("ours")?.len(), 1, "nothing got there that was refused");
    Ok(())
}
