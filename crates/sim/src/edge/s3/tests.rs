use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flashjob_api::edge::wire::S3;

/// What a device is told of a bucket of this server.
fn told(server: &S3Server, bucket: &str, key: [&str; 2]) -> S3 {
    let [id, secret] = key.map(|part| STANDARD.encode(part));
    S3 {
        bucket_host: server.address().ip().to_string(),
        bucket_port: server.address().port().into(),
        bucket_name: bucket.to_owned(),
        bucket_region: "ignore".to_owned(),
        aws_access_key_id: id,
        aws_secret_access_key: secret,
        aws_ca_bundle: STANDARD.encode(server.ca_pem()),
    }
}

#[tokio::test]
async fn who_has_its_key_gets_at_a_bucket_and_nobody_else() -> Result<()> {
    let server = S3Server::start().await?;
    server.make_bucket("one", "id-1", "secret-1")?;
    server.make_bucket("two", "id-2", "secret-2")?;
    let one = BucketClient::told(&told(&server, "one", ["id-1", "secret-1"]))?;
    assert_eq!(one.put("logs/today", "it is warm").await?, 200);
    assert_eq!(one.get("logs/today").await?, (200, "it is warm".into()));
    assert_eq!(one.get("logs/tomorrow").await?.0, 404);
    for (bucket, key) in [
        ("one", ["id-1", "secret-2"]),
        ("one", ["id-3", "secret-1"]),
        ("one", ["id-2", "secret-2"]),
        ("two", ["id-1", "secret-1"]),
        ("three", ["id-1", "secret-1"]),
    ] {
        let other = BucketClient::told(&told(&server, bucket, key))?;
        assert_eq!(other.put("logs/today", "x").await?, 403, "{bucket} with {key:?}");
        assert_eq!(other.get("logs/today").await?.0, 403, "{bucket} with {key:?}");
    }
    let there = BTreeMap::from([("logs/today".to_owned(), b"it is warm".to_vec())]);
    assert_eq!(server.objects("one")?, there);
    assert_eq!(server.objects("two")?, BTreeMap::new());
    assert!(server.objects("three").is_err());
    Ok(())
}

#[tokio::test]
async fn a_key_that_is_replaced_is_good_no_more() -> Result<()> {
    let server = S3Server::start().await?;
    for key in [["id-1", "secret-1"], ["id-1", "secret-2"], ["id-2", "secret-2"]] {
        server.make_bucket("one", key[0], key[1])?;
        let client = BucketClient::told(&told(&server, "one", key))?;
        assert_eq!(client.put(key[0], key[1]).await?, 200);
    }
    let before = BucketClient::told(&told(&server, "one", ["id-1", "secret-2"]))?;
    assert_eq!(before.get("id-1").await?.0, 403);
    assert_eq!(server.objects("one")?["id-1"], b"secret-2");
    Ok(())
}

#[tokio::test]
async fn without_its_ca_nobody_speaks_to_it_and_when_dropped_it_is_gone() -> Result<()> {
    let (server, other) = (S3Server::start().await?, S3Server::start().await?);
    server.make_bucket("one", "id", "secret")?;
    let right = told(&server, "one", ["id", "secret"]);
    for ca in ["", other.ca_pem()] {
        let wrong = S3 { aws_ca_bundle: STANDARD.encode(ca), ..right.clone() };
        let refused = BucketClient::told(&wrong)?.put("x", "x").await.unwrap_err();
        assert!(format!("{refused:#}").contains("invalid peer certificate"), "{refused:#}");
    }
    let client = BucketClient::told(&right)?;
    assert_eq!(client.put("x", "x").await?, 200);
    let folder = server.buckets.path().to_owned();
    drop(server);
    assert!(client.put("x", "x").await.is_err());
    assert!(!folder.exists());
    Ok(())
}
