//! The pod template's allow-list on a real server: what is on it reaches the Pod, what is not makes the job invalid.

mod table;

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use flashjob_sim::cluster::Cluster;
use flashjob_sim::flashjob::{Site, uids};
use flashjob_sim::node::{AddressPool, Script};
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use self::table::{Refused, Row, allowed, flash, refused, spec, volume};

/// A namespace with addresses for everyone, where Pods are made and none starts.
async fn for_templates() -> Result<Site> {
    let site = Site::on(Cluster::shared_installed().await?).pool(AddressPool::of(100));
    let site = site.start(|_| Script::default()).await?;
    site.kubelet.hold();
    Ok(site)
}

/// A job for each row, with a board of its own.
async fn flash_all(site: &Site, rows: &[Row]) -> Result<()> {
    let boards = site.boards(rows.len()).await?;
    for (n, ((template, ..), board)) in rows.iter().zip(boards).enumerate() {
        let more = json!({ "uuid": uids(&[board]), "podTemplate": template });
        site.flash_with(&format!("allowed-{n}"), more).await?;
    }
    Ok(())
}

/// A job for each template that is refused.
async fn refuse_all(site: &Site, rows: &[Refused]) -> Result<()> {
    let board = site.board("192.0.2.254").await?;
    for (n, (template, _)) in rows.iter().enumerate() {
        let more = json!({ "uuid": [board.uid()], "podTemplate": template });
        site.flash_with(&format!("refused-{n}"), more).await?;
    }
    Ok(())
}

/// Waits for the Pod of each row, and looks whether it has what the row says.
async fn all_have_pods(site: &Site, rows: &[Row]) -> Result<()> {
    let pods = site.api::<Pod>();
    let mut made = BTreeMap::new();
    let all = eventually("a Pod for each job", PATIENCE, async || {
        let list = pods.list(&ListParams::default()).await?.items;
        made = list.into_iter().map(|pod| (pod.labels()["app"].clone(), pod)).collect();
        Ok((made.len() == rows.len()).then_some(()))
    });
    all.await.with_context(|| format!("there are {:?}", made.keys()))?;
    for (n, (template, at, expected)) in rows.iter().enumerate() {
        let pod = serde_json::to_value(&made[&format!("allowed-{n}")])?;
        let found = pod.pointer(at).unwrap_or(&Value::Null);
        let entries = found.as_array().into_iter().flatten();
        let there = has(found, expected) || entries.clone().any(|entry| has(entry, expected));
        assert!(there, "{template}: {at} is {found}");
    }
    Ok(())
}

/// Waits until each of them is invalid, and its message begins with the path.
async fn all_are_invalid(site: &Site, rows: &[Refused]) -> Result<()> {
    for (n, (template, path)) in rows.iter().enumerate() {
        let name = format!("refused-{n}");
        let verdict = site.status(&name, "a verdict", |s| s.phase.is_some()).await?;
        let (reason, words) = (&verdict.conditions[1].reason, verdict.message.unwrap_or_default());
        assert_eq!(reason, "InvalidSpec", "{template}: {words}");
        let path = format!("spec.podTemplate.{path} ");
        assert!(words.starts_with(&path), "{template}: {words}");
        assert!(words.len() > path.len() + 20, "{words}");
    }
    // What there is belongs to others.
    let services = site.api::<Service>();
    let services = services.list(&ListParams::default()).await?.items.into_iter();
    let ledgers = site.ledgers().await?.into_iter();
    let metas = services.map(|s| s.metadata).chain(ledgers.map(|l| l.metadata));
    for owner in metas.flat_map(|meta| meta.owner_references.unwrap_or_default()) {
        assert!(owner.name.starts_with("allowed-"), "{owner:?}");
    }
    Ok(())
}

/// Whether all that is expected is there; the server may have added more.
fn has(found: &Value, expected: &Value) -> bool {
    match expected {
        Value::Object(map) => map.iter().all(|(key, value)| has(&found[key], value)),
        expected => found == expected,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_template_may_say_is_in_the_pod_and_what_it_may_not_is_named_by_its_path()
-> Result<()> {
    let site = for_templates().await?;
    let class = site.namespace.as_str();
    let runtime: RuntimeClass =
        serde_json::from_value(json!({ "metadata": { "name": class }, "handler": "kata" }))?;
    Api::all(site.client.clone()).create(&PostParams::default(), &runtime).await?;
    let priority: PriorityClass =
        serde_json::from_value(json!({ "metadata": { "name": class }, "value": 7 }))?;
    Api::all(site.client.clone()).create(&PostParams::default(), &priority).await?;

    let rows = allowed(class);
    let (too_much, ours) = refused();
    let refused = [too_much, ours].concat();
    let _operator = site.operator()?;
    flash_all(&site, &rows).await?;
    refuse_all(&site, &refused).await?;
    all_have_pods(&site, &rows).await?;
    all_are_invalid(&site, &refused).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_trusts_templates_lets_them_do_what_a_pod_may_and_keeps_what_is_its_own()
-> Result<()> {
    let site = for_templates().await?;
    let own = |key: &str, value: Value| flash(json!({ key: value }));
    let pod = |key: &str, value: Value| spec(json!({ key: value }));
    let device = json!({ "name": "dev", "hostPath": { "path": "/dev" } });
    let certs = json!([{ "name": "x", "mountPath": "/ota/certs" }]);
    let certs = json!({ "volumes": [{ "name": "x", "emptyDir": {} }], "containers": [{ "volumeMounts": certs }] });
    let first = json!([{ "name": "first", "image": "i" }]);
    let rows = [
        (pod("hostPID", json!(true)), "/spec/hostPID", json!(true)),
        (pod("hostNetwork", json!(true)), "/spec/hostNetwork", json!(true)),
        (pod("serviceAccountName", json!("default")), "/spec/serviceAccountName", json!("default")),
        (pod("initContainers", first.clone()), "/spec/initContainers/0", first[0].clone()),
        (
            pod("terminationGracePeriodSeconds", json!(5)),
            "/spec/terminationGracePeriodSeconds",
            json!(5),
        ),
        (volume(device.clone()), "/spec/volumes", device),
        (spec(certs), "/spec/containers/0/volumeMounts", json!({ "mountPath": "/ota/certs" })),
        (own("command", json!(["debug"])), "/spec/containers/0/command/0", json!("debug")),
        (
            own("securityContext", json!({ "privileged": true, "allowPrivilegeEscalation": true })),
            "/spec/containers/0/securityContext",
            json!({ "privileged": true }),
        ),
        (
            spec(json!({ "containers": [{ "name": "sidecar", "image": "s" }] })),
            "/spec/containers/1/name",
            json!("sidecar"),
        ),
    ];
    // Two entries for the flash container, and what cannot be read, are refused either way.
    let (_, ours) = refused();
    let _operator = site.operator_with(&["--unsafe-pod-templates"], None)?;
    flash_all(&site, &rows).await?;
    refuse_all(&site, &ours).await?;
    all_have_pods(&site, &rows).await?;
    all_are_invalid(&site, &ours).await
}
