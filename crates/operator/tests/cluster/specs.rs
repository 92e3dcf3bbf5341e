//! Specs that make no sense: each is refused by the schema or told as `InvalidSpec`, with the field and a sentence, and
//! nothing is made for it.

use anyhow::{Context, Result};
use flashjob_api::flashjob::{FlashJobStatus, Phase};
use flashjob_sim::flashjob::{Site, uids};
use flashjob_sim::node::Script;
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::ListParams;
use serde_json::{Value, json};

const JOBS: &str = "/apis/application.flashjob.nbfc.io/v1alpha1/namespaces";

/// What is written into a good spec, the field that is to blame, and the words that say why, if the schema does not.
type Row = (Value, &'static str, &'static str);

fn in_lists() -> Vec<Row> {
    vec![
        (json!({ "uuid": [] }), "spec.uuid", "names no device"),
        (json!({ "uuid": null }), "spec.uuid", "names no device"),
        (json!({ "uuid": [""] }), "spec.uuid[0]", "is empty"),
        (json!({ "uuid": ["a", "  "] }), "spec.uuid[1]", "is empty"),
        (json!({ "uuid": ["a", "b\u{7}"] }), "spec.uuid[1]", "control characters"),
        (json!({ "uuid": ["two words"] }), "spec.uuid[0]", "no blanks"),
        (json!({ "uuid": "a" }), "spec.uuid", ""),
        (json!({ "uuid": [7] }), "spec.uuid", ""),
        (json!({ "uuid": ["x".repeat(318)] }), "spec.uuid", ""),
        (json!({ "deviceSelector": {} }), "spec.deviceSelector", "say what to choose"),
        (
            json!({ "deviceSelector": { "version": "new" } }),
            "spec.deviceSelector.version",
            "semver",
        ),
        (
            json!({ "deviceSelector": { "matchLabels": { "site": "a b" } } }),
            "spec.deviceSelector.matchLabels",
            "cannot be the value",
        ),
    ]
}

fn in_words() -> Vec<Row> {
    vec![
        (json!({ "firmware": "" }), "spec.firmware", "is empty"),
        (json!({ "firmware": "  " }), "spec.firmware", "is empty"),
        (json!({ "firmware": null }), "spec.firmware", ""),
        (json!({ "firmware": 7 }), "spec.firmware", ""),
        (json!({ "firmware": "x".repeat(1025) }), "spec.firmware", ""),
        (json!({ "firmware": "registry.example/esp32 :1" }), "spec.firmware", "no blanks"),
        (json!({ "firmware": "registry.example/\nesp32" }), "spec.firmware", "no blanks"),
        (json!({ "version": "" }), "spec.version", "is empty"),
        (json!({ "version": "\t" }), "spec.version", "is empty"),
        (json!({ "version": null }), "spec.version", ""),
        (json!({ "version": 0.2 }), "spec.version", ""),
        (json!({ "version": "0.2\u{1b}[31m.0" }), "spec.version", "control characters"),
        (json!({ "flashjobPodImage": " " }), "spec.flashjobPodImage", "--flashjob-image"),
        (json!({ "flashjobPodImage": "a b" }), "spec.flashjobPodImage", "no blanks"),
        (json!({ "hostEndpoint": "10.0.0.1 10.0.0.2" }), "spec.hostEndpoint", "no blanks"),
        (json!({ "externalIP": "10.0.0.1,\n10.0.0.2" }), "spec.externalIP", "no blanks"),
        (json!({ "device": "esp\u{0}32" }), "spec.device", "control characters"),
        (json!({ "verify": "Maybe" }), "spec.verify", ""),
        (json!({ "versionPolicy": "Never" }), "spec.versionPolicy", ""),
        (json!({ "suspend": "yes" }), "spec.suspend", ""),
        (json!({ "podTemplate": "x" }), "spec.podTemplate", ""),
        (json!({ "service": { "type": "ClusterIP" } }), "spec.service.type", ""),
        (
            json!({ "service": { "annotations": { "metallb.io/allow-shared-ip": "all" } } }),
            "spec.service.annotations[metallb.io/allow-shared-ip]",
            "--service-annotations=default,metallb.io/allow-shared-ip",
        ),
    ]
}

fn in_numbers() -> Vec<Row> {
    let rollout = |key: &str, value: Value| json!({ "rollout": { key: value } });
    let size = "spec.rollout.batchSize";
    let failures = "spec.rollout.maxFailures";
    vec![
        (rollout("batchSize", json!(0)), size, "1 or more"),
        (rollout("batchSize", json!(-1)), size, "1 or more"),
        (rollout("batchSize", json!(99_999_999_999_i64)), size, "cannot be read"),
        (rollout("batchSize", json!("0%")), size, "percentage"),
        (rollout("batchSize", json!("101%")), size, ""),
        (rollout("batchSize", json!("many")), size, ""),
        (rollout("maxFailures", json!(-1)), failures, "0 or more"),
        (rollout("maxFailures", json!("5")), failures, ""),
        (rollout("maxParallel", json!(-1)), "spec.rollout.maxParallel", ""),
        (rollout("maxParallel", json!(501)), "spec.rollout.maxParallel", ""),
        (rollout("delaySeconds", json!(-1)), "spec.rollout.delaySeconds", ""),
        (json!({ "retry": { "limit": -1 } }), "spec.retry.limit", ""),
        (json!({ "retry": { "limit": 101 } }), "spec.retry.limit", ""),
        (json!({ "retry": { "backoffSeconds": 301 } }), "spec.retry.backoffSeconds", ""),
        (json!({ "timeouts": { "deviceSeconds": 0 } }), "spec.timeouts.deviceSeconds", ""),
        (json!({ "timeouts": { "addressSeconds": 86_401 } }), "spec.timeouts.addressSeconds", ""),
        (json!({ "timeouts": { "offlineSeconds": -1 } }), "spec.timeouts.offlineSeconds", ""),
        (json!({ "ttlSecondsAfterFinished": -1 }), "spec.ttlSecondsAfterFinished", ""),
    ]
}

/// Creates a job as it is written. `Err` has the server's words.
async fn write(
    site: &Site,
    name: &str,
    good: &Value,
    change: &Value,
) -> Result<Result<(), String>> {
    let mut job = json!({
        "apiVersion": "application.flashjob.nbfc.io/v1alpha1",
        "kind": "FlashJob",
        "metadata": { "name": name },
        "spec": good,
    });
    for (key, value) in change.as_object().context("a change")? {
        job["spec"][key] = value.clone();
    }
    let request = http::Request::post(format!("{JOBS}/{}/flashjobs", site.namespace))
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&job)?)?;
    match site.client.request::<Value>(request).await {
        Ok(_) => Ok(Ok(())),
        Err(kube::Error::Api(status)) if status.code == 422 => Ok(Err(status.message)),
        Err(other) => Err(other.into()),
    }
}

/// Waits for the operator's word on a job that typed clients cannot read.
async fn verdict(site: &Site, name: &str) -> Result<FlashJobStatus> {
    let path = format!("{JOBS}/{}/flashjobs/{name}", site.namespace);
    eventually(&format!("a verdict on {name}"), PATIENCE, async || {
        let request = http::Request::get(&path).body(Vec::new())?;
        let job: Value = site.client.request(request).await?;
        let status: FlashJobStatus =
            serde_json::from_value(job.get("status").cloned().unwrap_or_else(|| json!({})))?;
        Ok(status.phase.is_some().then_some(status))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spec_that_makes_no_sense_is_told_by_its_field_and_nothing_is_made_for_it() -> Result<()>
{
    let site = Site::new(|_| Script::default()).await?;
    let good = json!({
        "uuid": uids(&site.boards(1).await?),
        "firmware": "registry.example/esp32:0.2.0",
        "version": "0.2.0",
        "flashjobPodImage": "registry.example/flasher:1",
    });
    let _operator = site.operator()?;
    let rows = [in_lists(), in_words(), in_numbers()].concat();
    let mut taken = Vec::new();
    for (n, (change, field, words)) in rows.iter().enumerate() {
        let name = format!("bad-{n}");
        match write(&site, &name, &good, change).await.with_context(|| change.to_string())? {
            Ok(()) => taken.push((name, change, field, words)),
            Err(refusal) => assert!(refusal.contains(field), "{change}: {refusal}"),
        }
    }
    assert!(taken.len() < rows.len(), "the schema refuses most of them");
    for (name, change, field, words) in taken {
        let verdict = verdict(&site, &name).await?;
        let message = verdict.message.unwrap_or_default();
        assert_eq!(verdict.phase, Some(Phase::Failed), "{change}: {message}");
        assert_eq!(verdict.conditions[1].reason, "InvalidSpec", "{change}: {message}");
        assert!(message.starts_with(field), "{change}: {message}");
        assert!(!words.is_empty() && message.contains(words), "{change}: {message}");
    }
    let all = ListParams::default();
    let pods = site.api::<Pod>();
    let services = site.api::<Service>();
    assert_eq!(pods.list(&all).await?.items, []);
    assert_eq!(services.list(&all).await?.items, []);
    assert_eq!(site.ledgers().await?, []);

    // The same without the mistake.
    write(&site, "good", &good, &json!({})).await?.map_err(anyhow::Error::msg)?;
    site.phase("good", Phase::Completed).await?;
    Ok(())
}
