//! `edge check` on the way from an empty cluster to one where all is well.

use anyhow::Result;
use flashjob_sim::cluster::Cluster;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::EdgeCli;
use crate::site::{Ended, PROGRAM, run};

/// Whether a thing has this mark, and whatever is not well its fix.
#[track_caller]
fn is(ended: &Ended, mark: &str, what: &str) {
    let wanted = format!("{mark:4}  {what}");
    assert!(ended.out.lines().any(|line| line.starts_with(&wanted)), "no {wanted:?}: {ended:#?}");
    let lines: Vec<&str> = ended.out.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with("FAIL") || line.starts_with('?') {
            let next = lines.get(at + 1).copied().unwrap_or_default();
            assert!(next.starts_with("      fix: "), "no fix for: {line}");
        }
    }
}

#[tokio::test]
async fn an_empty_cluster_lacks_everything_and_each_thing_is_said() -> Result<()> {
    let cluster = Cluster::start().await?;
    let kubeconfig = cluster.admin_kubeconfig("default")?;
    let edge = async |args: &[&str]| {
        let mut command = std::process::Command::new(PROGRAM);
        command.arg("edge").args(args).env("KUBECONFIG", &kubeconfig);
        tokio::task::spawn_blocking(move || run(command, "")).await
    };
    let ended = edge(&["check"]).await?;
    assert_eq!(ended.code, 3, "{ended:#?}");
    is(&ended, "ok", "API server");
    for what in [
        "Edge CRDs: not there: edgedevices",
        "operator: there is no",
        "Service",
        "device API",
        "CA",
    ] {
        is(&ended, "FAIL", what);
    }
    let sentence = "the CRD is not installed; see `kubectl flashjob edge check`";
    edge(&["devices"]).await?.badly(1, sentence);
    edge(&["approve", "edge1"]).await?.badly(1, sentence);
    edge(&["ca", "status"]).await?.badly(1, sentence);
    edge(&["ca", "rotate"]).await?.badly(1, "there is no Secret flotta-ca");
    Ok(())
}

#[tokio::test]
async fn where_all_is_well_it_says_so_and_what_is_taken_away_is_missed() -> Result<()> {
    let site = EdgeCli::new().await?;
    let _operator = site.operator().await?;
    site.reporting("edge1").await?;
    let before = site.run_at_home(&["check"]).await;
    assert_eq!(before.code, 3, "{before:#?}");
    is(&before, "FAIL", "device API: no Pod in namespace");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "edge-api", "labels": { "management.project-flotta.io/serving": "true" } },
        "spec": { "containers": [{ "name": "manager", "image": "example/manager" }] },
    });
    site.cluster.apply_yaml_in(&site.home, &pod.to_string()).await?;
    let pods: Api<Pod> = Api::namespaced(site.client.clone(), &site.home);
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    pods.patch_status("edge-api", &PatchParams::default(), &Patch::Strategic(ready)).await?;
    let well = site.run_at_home(&["check"]).await;
    assert!(well.out.lines().all(|line| line.starts_with("ok  ")), "{well:#?}");
    is(&well, "ok", "operator: at work");
    is(&well, "ok", "Service: flotta-edge-api, ClusterIP, port 8043");
    is(&well, "ok", "devices: 1 that you may see");
    well.well();

    let bindings: Api<RoleBinding> = Api::namespaced(site.client.clone(), &site.namespace);
    bindings.delete("flotta-edge-api-devices", &DeleteParams::default()).await?;
    let spoilt = json!({ "data": { "client.key": null } });
    let name = site.registration().await?;
    site.secrets().patch(&name, &PatchParams::default(), &Patch::Merge(spoilt)).await?;
    let after = site.run_at_home(&["check"]).await;
    is(&after, "FAIL", &format!("operator's rights: not in namespace {}", site.namespace));
    assert!(after.out.contains("create rolebinding flotta-edge-api-devices"), "{after:#?}");
    is(&after, "?", &format!("certificates: Secret {name} cannot be used: client.key"));
    assert_eq!(after.code, 3, "{after:#?}");
    Ok(())
}
