use flashjob_api::edge::wire::DeviceConfiguration;
use serde_json::{Value, json};

use super::super::material::tests::Namespace;
use super::super::settings;
use super::*;

fn namespace() -> Namespace {
    Namespace::default()
        .secret("keys", &[("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "hunter2")])
        .config_map(
            "bucket",
            &[
                ("BUCKET_NAME", "b"),
                ("BUCKET_HOST", "s3.example.com"),
                ("BUCKET_PORT", "9000"),
                ("BUCKET_REGION", "eu"),
            ],
        )
}

fn own() -> Value {
    json!({ "secretName": "keys", "configMapName": "bucket" })
}

fn claimed_bucket() -> Bucket {
    Bucket {
        host: "route".into(),
        port: 443,
        name: "claimed".into(),
        region: "ignore".into(),
        access_key: b"id".to_vec(),
        secret_key: b"hunter2".to_vec(),
        ca: b"PEM".to_vec(),
    }
}

/// The bucket that is sent, and the problems.
fn sent(
    s3: Value,
    bucket: Option<&Bucket>,
    namespace: &Namespace,
) -> (Value, Vec<(EdgeReason, String)>) {
    let settings = serde_json::from_value(json!({ "storage": { "s3": s3 } })).unwrap();
    let rendered = settings::render("default", &settings, bucket, namespace);
    let DeviceConfiguration { storage, .. } = rendered.configuration;
    let problems = rendered.problems.into_iter();
    let problems = problems.map(|problem| (problem.reason, problem.message)).collect();
    (serde_json::to_value(storage).unwrap()["s3"].clone(), problems)
}

#[test]
fn a_bucket_of_somebodys_own_is_sent_with_its_keys_in_base64() {
    let (s3, problems) = sent(own(), None, &namespace());
    let wanted = json!({
        "bucket_host": "s3.example.com", "bucket_port": 9000, "bucket_name": "b",
        "bucket_region": "eu", "aws_access_key_id": "aWQ=", "aws_secret_access_key": "aHVudGVyMg=="
    });
    assert_eq!(s3, wanted);
    assert!(problems.is_empty());
    // With the CA of its server, if the Secret has one.
    let keys = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "k"), ("tls.crt", "PEM")];
    assert_eq!(sent(own(), None, &namespace().secret("keys", &keys)).0["aws_ca_bundle"], "UEVN");
}

#[test]
fn a_claimed_bucket_comes_before_somebodys_own() {
    for said in [json!(null), json!({ "createOBC": true }), own()] {
        let (s3, problems) = sent(said, Some(&claimed_bucket()), &Namespace::default());
        let wanted = json!({
            "bucket_host": "route", "bucket_port": 443, "bucket_name": "claimed",
            "bucket_region": "ignore", "aws_access_key_id": "aWQ=",
            "aws_secret_access_key": "aHVudGVyMg==", "aws_ca_bundle": "UEVN"
        });
        assert_eq!((s3, problems.len()), (wanted, 0));
    }
    assert_eq!(
        sent(json!({ "createOBC": true }), None, &Namespace::default()),
        (json!(null), vec![])
    );
}

#[test]
fn a_claim_and_a_bucket_of_ones_own_are_not_for_the_same_device() {
    for name in ["secretName", "configMapName"] {
        let said = json!({ "createOBC": true, name: "x" });
        for bucket in [None, Some(&claimed_bucket())] {
            let (s3, problems) = sent(said.clone(), bucket, &namespace());
            assert_eq!((s3, problems.len()), (json!(null), 1));
            assert_eq!(problems[0].0, EdgeReason::InvalidSpec);
        }
        let half = sent(json!({ name: "x" }), None, &namespace());
        assert_eq!((half.0, half.1[0].0), (json!(null), EdgeReason::InvalidSpec));
    }
}

#[test]
fn all_that_is_wrong_is_said_at_once_and_all_else_is_served() {
    let namespace = Namespace::default().secret("keys", &[("AWS_ACCESS_KEY_ID", "id")]).config_map(
        "bucket",
        &[("BUCKET_NAME", "b"), ("BUCKET_HOST", "h"), ("BUCKET_PORT", "https")],
    );
    let (s3, problems) = sent(own(), None, &namespace);
    assert_eq!(s3, json!(null));
    let said = [
        (
            EdgeReason::SecretKeyMissing,
            "the Secret default/keys has no key AWS_SECRET_ACCESS_KEY; \
             storage.s3.secretName needs it",
        ),
        (
            EdgeReason::ConfigMapKeyMissing,
            "BUCKET_PORT of the ConfigMap default/bucket is no port; \
             storage.s3.configMapName needs it",
        ),
        (
            EdgeReason::ConfigMapKeyMissing,
            "the ConfigMap default/bucket has no key BUCKET_REGION; \
             storage.s3.configMapName needs it",
        ),
    ];
    assert_eq!(problems, said.map(|(reason, message)| (reason, message.to_owned())));
}

#[test]
fn a_port_is_a_number_that_a_port_can_have() {
    for (text, port) in
        [("1", Some(1)), ("65535", Some(65535)), ("0", None), ("65536", None), ("-1", None)]
    {
        let mut namespace = namespace();
        let bucket = namespace.config_maps.get_mut("bucket").unwrap();
        bucket.data.insert("BUCKET_PORT".into(), text.into());
        assert_eq!(sent(own(), None, &namespace).0["bucket_port"].as_i64(), port, "{text}");
    }
}

#[test]
fn the_keys_of_a_bucket_are_in_no_log() {
    let shown = format!("{:?}", claimed_bucket());
    assert!(shown.contains("claimed") && !shown.contains("104"), "{shown}");
}
