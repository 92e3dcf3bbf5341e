//! Secrets and ConfigMaps that workloads name: changed, missing, deleted while devices run what is made from them, and back.
//! Nobody's pod is ever told to go because of one.

use std::time::{Duration, Instant};

use anyhow::Result;
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{Device, Manner};
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use super::workload_kit::{
    condition, content, device, entry, is_sent, is_told, keeps, make, never_told_to_run_less,
    nginx, objects, patch, told, version, workload,
};

/// Nobody is to wait until the lease of a dead process has run out.
pub const FLAGS: [&str; 1] = ["--leader-elect=false"];
pub const KIND: (&str, &str) = ("EdgeDeployment", "edgedeployments");

pub fn deployments(site: &EdgeSite) -> Api<DynamicObject> {
    objects(site, KIND.0, KIND.1)
}

/// Makes a Secret, or changes it.
pub async fn secret(site: &EdgeSite, namespace: &str, name: &str, data: Value) -> Result<()> {
    let made = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": data,
    });
    let secrets: Api<Secret> = Api::namespaced(site.client.clone(), namespace);
    secrets.patch(name, &PatchParams::apply("user"), &Patch::Apply(made)).await?;
    Ok(())
}

async fn config_map(site: &EdgeSite, name: &str, data: Value) -> Result<()> {
    let made = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data,
    });
    let maps: Api<ConfigMap> = site.api();
    maps.patch(name, &PatchParams::apply("user"), &Patch::Apply(made)).await?;
    Ok(())
}

pub async fn delete_secret(site: &EdgeSite, name: &str) -> Result<()> {
    site.api::<Secret>().delete(name, &DeleteParams::default()).await?;
    Ok(())
}

/// A pod with more of a container than its image, for every device.
pub fn app(container: Value, more: Value) -> Value {
    let mut spec = nginx("app:1", json!({ "deviceSelector": {} }));
    for (key, value) in container.as_object().into_iter().flatten() {
        spec["pod"]["spec"]["containers"][0][key] = value.clone();
    }
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}

/// A password from the Secret of this name.
pub fn password(secret: &str) -> Value {
    let from = json!({ "secretKeyRef": { "name": secret, "key": "password" } });
    json!({ "env": [{ "name": "PASSWORD", "valueFrom": from }] })
}

/// What is in a message, as text, with what is in base64 there.
fn says(text: &str) -> impl Fn(&str) -> bool {
    let coded = json!(ByteString(text.as_bytes().to_vec()));
    let coded = coded.as_str().unwrap_or_default().to_owned();
    let text = text.replace('"', "\\\"");
    move |body| body.contains(&text) || body.contains(&coded)
}

/// Waits until a device is sent something with this in it, and nothing but what it had before that. Says how long it took. Ours
/// asks once, and is answered when there is something new.
async fn has_it_soon(device: &Device, text: &str) -> Result<Duration> {
    let (began, says) = (Instant::now(), says(text));
    let before = device.ledger().configurations.len();
    loop {
        let answer = match device.options().manner {
            Manner::Ours => device.await_configuration().await?,
            Manner::Flotta => device.fetch_configuration().await?,
        };
        let once = device.options().manner == Manner::Flotta || answer.code() == 200;
        assert!(once, "it waited in vain: {answer:?}");
        if answer.code() == 200 && says(&String::from_utf8_lossy(&answer.body)) {
            break;
        }
        assert_eq!(device.ledger().configurations.len(), before, "{} without {text}", device.id());
        assert!(began.elapsed() < PATIENCE, "{} never got {text}", device.id());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(device.ledger().configurations.len(), before + 1);
    Ok(began.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_workload_is_made_of_is_sent_anew_as_soon_as_it_changes() -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator_with(&FLAGS, None).await?;
    let (here, elsewhere) = (site.namespace.clone(), site.home.clone());
    for namespace in [&here, &elsewhere] {
        secret(&site, namespace, "db", json!({ "password": "one" })).await?;
    }
    secret(&site, &here, "env", json!({ "TOKEN": "one" })).await?;
    secret(&site, &here, "login", json!({ ".dockerconfigjson": "{\"auths\":{}}" })).await?;
    config_map(&site, "files", json!({ "motd": "one" })).await?;
    let api = deployments(&site);
    let mut spec = app(
        json!({
            "env": password("db")["env"], "envFrom": [{ "secretRef": { "name": "env" } }],
            "volumeMounts": [{ "name": "files", "mountPath": "/etc/files" }],
        }),
        json!({ "imageRegistries": { "secretRef": { "name": "login" } } }),
    );
    spec["pod"]["spec"]["volumes"] = json!([{ "name": "files", "configMap": { "name": "files" } }]);
    make(&api, KIND.0, "app", spec).await?;
    make(&api, KIND.0, "plain", nginx("plain:1", json!({ "device": "other" }))).await?;
    let ours = site.registered("ours", Manner::Ours).await?;
    let flotta = site.registered("flotta", Manner::Flotta).await?;
    let other = site.registered("other", Manner::Ours).await?;
    for device in [&ours, &flotta] {
        is_told(device, &["app"]).await?;
    }
    is_told(&other, &["app", "plain"]).await?;
    patch(
        &api,
        "app",
        json!({ "spec": { "deviceSelector": {
        "matchExpressions": [{ "key": "plain", "operator": "DoesNotExist" }],
    } } }),
    )
    .await?;
    super::kit::patch_device(&site, "other", json!({ "metadata": { "labels": { "plain": "" } } }))
        .await?;
    is_told(&other, &["plain"]).await?;
    let untouched = version(&other);

    let mut took = Vec::new();
    for (what, value) in [
        ("password", "correct horse"),
        ("password", "battery staple"),
        ("token", "s3cr3t"),
        ("login", "{\"auths\":{\"quay.io\":{}}}"),
        ("file", "hello world"),
    ] {
        match what {
            "password" => secret(&site, &here, "db", json!({ "password": value })).await?,
            "token" => secret(&site, &here, "env", json!({ "TOKEN": value })).await?,
            "login" => secret(&site, &here, "login", json!({ ".dockerconfigjson": value })).await?,
            _ => config_map(&site, "files", json!({ "motd": value })).await?,
        }
        let (one, two) = tokio::try_join!(has_it_soon(&ours, value), has_it_soon(&flotta, value))?;
        took.push((what, one.max(two)));
    }
    println!("both devices had it after {took:?}");

    // One of that name in another namespace is another, and who has none of it is not concerned.
    let before = [&ours, &flotta].map(version);
    secret(&site, &elsewhere, "db", json!({ "password": "not yours" })).await?;
    Api::<Secret>::namespaced(site.client.clone(), &elsewhere)
        .delete("db", &DeleteParams::default())
        .await?;
    secret(&site, &here, "unrelated", json!({ "password": "of nobody" })).await?;
    // What comes after it is seen after it.
    make(&api, KIND.0, "last", nginx("last:1", json!({ "device": "other" }))).await?;
    is_told(&other, &["last", "plain"]).await?;
    assert_eq!(ours.fetch_configuration().await?.code(), 304);
    content(&flotta).await?;
    assert_eq!([&ours, &flotta].map(version), before);
    let versions = other.ledger().configurations;
    let since = versions.iter().skip_while(|told| Some(&told.version) != untouched.as_ref());
    assert_eq!(since.count(), 2, "{versions:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_from_the_start_keeps_nothing_else_from_a_device() -> Result<()> {
    let site = EdgeSite::new().await?;
    let _operator = site.operator_with(&FLAGS, None).await?;
    let (here, api) = (site.namespace.clone(), deployments(&site));
    secret(&site, &site.home, "late", json!({ "password": "of somebody else" })).await?;
    secret(&site, &here, "keyless", json!({ "user": "me" })).await?;
    let from = |name: &str, optional: bool| {
        json!({ "envFrom": [
            { "secretRef": { "name": name, "optional": optional } },
            { "configMapRef": { "name": name, "optional": true } },
        ] })
    };
    make(&api, KIND.0, "plain", app(json!({}), json!({}))).await?;
    make(&api, KIND.0, "needs", app(password("late"), json!({}))).await?;
    make(&api, KIND.0, "keyless", app(password("keyless"), json!({}))).await?;
    make(&api, KIND.0, "maybe", app(from("late-too", true), json!({}))).await?;
    let one = site.registered("one", Manner::Ours).await?;
    is_told(&one, &["maybe", "plain"]).await?;
    one.heartbeat().await?;

    let named = format!("{here}/late");
    let found = device(&site, "one", |found| {
        let message = entry(found, "needs")["message"].as_str().unwrap_or_default();
        message.starts_with("SecretMissing: ") && message.contains(&named)
    })
    .await?;
    let keyless = entry(&found, "keyless")["message"].as_str().unwrap_or_default();
    assert!(keyless.starts_with("SecretKeyMissing: ") && keyless.contains("keyless"), "{found:#}");
    assert_eq!(condition(&found, "Configured")["status"], "False", "{found:#}");
    workload(&api, "needs", |found| {
        let complete = condition(found, "Complete");
        let message = complete["message"].as_str().unwrap_or_default();
        complete["reason"] == "SecretMissing" && message.contains(&named)
    })
    .await?;

    // Put there later, it is sent.
    secret(&site, &here, "late", json!({ "password": "at last" })).await?;
    is_told(&one, &["maybe", "needs", "plain"]).await?;
    secret(&site, &here, "keyless", json!({ "password": "and this" })).await?;
    is_told(&one, &["keyless", "maybe", "needs", "plain"]).await?;
    one.heartbeat().await?;
    device(&site, "one", |found| {
        let running = |name: &&str| entry(found, name)["phase"] == "Running";
        let all = ["keyless", "maybe", "needs", "plain"].iter().all(running);
        all && condition(found, "Configured")["status"] == "True"
    })
    .await?;
    workload(&api, "needs", |found| condition(found, "Complete")["status"] == "True").await?;
    never_told_to_run_less(&one, &["maybe", "plain"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_deleted_takes_nobodys_pod_away() -> Result<()> {
    let site = EdgeSite::new().await?;
    let mut operator = site.operator_with(&FLAGS, None).await?;
    let (here, api) = (site.namespace.clone(), deployments(&site));
    secret(&site, &here, "db", json!({ "password": "one" })).await?;
    make(&api, KIND.0, "app", app(password("db"), json!({}))).await?;
    make(&api, KIND.0, "plain", nginx("plain:1", json!({ "deviceSelector": {} }))).await?;
    let ours = site.registered("ours", Manner::Ours).await?;
    let flotta = site.registered("flotta", Manner::Flotta).await?;
    // It was sent it, and has not said so.
    let silent = site.registered("silent", Manner::Flotta).await?;
    let all = [&ours, &flotta, &silent];
    for device in all {
        is_told(device, &["app", "plain"]).await?;
    }
    for running in [&ours, &flotta] {
        running.heartbeat().await?;
        device(&site, running.id(), |found| entry(found, "app")["phase"] == "Running").await?;
    }

    delete_secret(&site, "db").await?;
    let named = format!("{here}/db");
    for held in all {
        device(&site, held.id(), |found| {
            let message = entry(found, "app")["message"].as_str().unwrap_or_default();
            message.starts_with("SecretMissing: ") && message.contains(&named)
        })
        .await?;
    }
    let found = site.devices().get("ours").await?;
    let found = serde_json::to_value(found)?;
    assert_eq!(condition(&found, "Synced")["reason"], "SecretMissing", "{found:#}");
    let configured = condition(&found, "Configured")["message"].as_str().unwrap_or_default();
    assert!(configured.starts_with("the device keeps the configuration it has"), "{found:#}");
    assert_eq!(entry(&found, "app")["phase"], "Running", "{found:#}");
    workload(&api, "app", |found| {
        let complete = condition(found, "Complete");
        complete["reason"] == "SecretMissing" && found["status"]["running"] == "2/3"
    })
    .await?;
    let before = all.map(version);

    // An edit of another workload waits, too: whatever is sent names all that the device is to run.
    let newer = nginx("plain:2", json!({ "deviceSelector": {} }));
    patch(&api, "plain", json!({ "spec": newer })).await?;
    let fresh = site.registered("fresh", Manner::Flotta).await?;
    is_told(&fresh, &["plain"]).await?;
    for device in all {
        told(device).await?;
    }
    for device in [&ours, &flotta] {
        device.heartbeat().await?;
    }
    assert_eq!(all.map(version), before);

    // Nor does the next operator know better.
    for _ in 0..2 {
        operator.kill();
        operator = site.operator_with(&FLAGS, None).await?;
        for device in all {
            keeps(device).await?;
        }
        for device in [&ours, &flotta] {
            device.heartbeat().await?;
            keeps(device).await?;
        }
        is_told(&fresh, &["plain"]).await?;
        fresh.heartbeat().await?;
        device(&site, "fresh", |found| entry(found, "plain")["phase"] == "Running").await?;
        assert_eq!(all.map(version), before);
    }

    // Back again, it goes on.
    secret(&site, &here, "db", json!({ "password": "two" })).await?;
    for device in [&flotta, &silent, &fresh] {
        is_sent(device, "the new password and the new image", |sent| {
            let sent = serde_json::to_string(sent).unwrap_or_default();
            sent.contains("plain:2") && sent.contains("dHdv")
        })
        .await?;
    }
    is_told(&ours, &["app", "plain"]).await?;
    eventually("another version", PATIENCE, async || {
        told(&ours).await?;
        Ok((version(&ours) != before[0]).then_some(()))
    })
    .await?;
    for device in [&ours, &flotta, &silent, &fresh] {
        device.heartbeat().await?;
    }
    workload(&api, "app", |found| condition(found, "Complete")["status"] == "True").await?;
    for device in all {
        never_told_to_run_less(device, &["app", "plain"]);
    }
    never_told_to_run_less(&fresh, &["plain"]);
    drop(operator);
    Ok(())
}
