//! `check` against a real API server.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use flashjob_sim::cluster::Cluster;
use flashjob_sim::eventually;
use flashjob_sim::flashjob::{Akri, KeyKind, ServerCert};
use flashjob_sim::node::{AddressPool, LoadBalancer};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

const PROGRAM: &str = env!("CARGO_BIN_EXE_kubectl-flashjob");

/// The lines of a check and its exit code.
async fn check(kubeconfig: &Path) -> Result<(String, Option<i32>)> {
    let mut command = tokio::process::Command::new(PROGRAM);
    command.arg("check").arg("--kubeconfig").arg(kubeconfig);
    let output = command.output().await?;
    let (out, err) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    ensure!(err.is_empty(), "on standard error: {err}");
    // Whatever is not well has its fix on the next line.
    let lines: Vec<&str> = out.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with("FAIL") || line.starts_with('?') {
            let next = lines.get(at + 1).copied().unwrap_or_default();
            ensure!(next.starts_with("      fix: "), "no fix for: {line}");
        }
    }
    Ok((out, output.status.code()))
}

/// Whether a thing has this mark.
#[track_caller]
fn is(out: &str, mark: &str, what: &str) {
    let wanted = format!("{mark:4}  {what}");
    assert!(out.lines().any(|line| line.starts_with(&wanted)), "no line {wanted:?} in\n{out}");
}

/// A cluster of its own: what is looked at is not in one namespace.
async fn cluster_with_all() -> Result<(Cluster, String)> {
    let cluster = Cluster::installed().await?;
    let namespace = cluster.namespace("site").await?;
    Ok((cluster, namespace))
}

fn kubeconfig(cluster: &Cluster, user: &str, namespace: &str) -> Result<std::path::PathBuf> {
    cluster.kubeconfig(cluster.token(user).context("no token")?, namespace, None)
}

#[tokio::test]
async fn a_bare_cluster_lacks_everything_and_each_thing_is_said() -> Result<()> {
    let cluster = Cluster::start().await?;
    let namespace = cluster.namespace("bare").await?;
    let (out, code) = check(&kubeconfig(&cluster, "admin", &namespace)?).await?;
    assert_eq!(code, Some(3), "{out}");
    is(&out, "ok", "API server");
    for what in ["FlashJob CRD: not there", "operator: there is no Deployment", "Akri: its CRD"] {
        is(&out, "FAIL", what);
    }
    is(&out, "?", "load balancer: no Service");
    is(&out, "FAIL", "server certificate: there is no Secret");
    is(&out, "FAIL", "attestation: nobody");
    is(&out, "ok", "you may flash");
    assert!(out.contains(&format!("server-cert create --dir ./pinned -n {namespace}")), "{out}");
    // The other commands say the same, in a sentence.
    let config = kubeconfig(&cluster, "admin", &namespace)?;
    for args in [["devices", "-owide"], ["explain", "x"]] {
        let mut command = tokio::process::Command::new(PROGRAM);
        let output = command.args(args).arg("--kubeconfig").arg(&config).output().await?;
        let err = String::from_utf8(output.stderr)?;
        assert!(err.contains("the CRD is not installed; see `kubectl flashjob check`"), "{err}");
    }
    Ok(())
}

#[tokio::test]
async fn the_way_from_an_installation_to_a_site_where_all_is_well() -> Result<()> {
    let (cluster, namespace) = cluster_with_all().await?;
    let client = cluster.client("admin")?;
    let config = kubeconfig(&cluster, "admin", &namespace)?;
    let (out, code) = check(&config).await?;
    assert_eq!(code, Some(3), "{out}");
    is(&out, "ok", "FlashJob CRD: served");
    is(&out, "FAIL", "operator: no Pod of its Deployment is available");
    is(&out, "FAIL", "Akri: it has found no device");

    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "operator-system");
    let up = json!({ "status": { "replicas": 1, "readyReplicas": 1, "availableReplicas": 1 } });
    let params = PatchParams::default();
    deployments.patch_status("operator-controller-manager", &params, &Patch::Merge(up)).await?;
    let akri = Akri::new(client.clone(), &namespace, "http-disc");
    let lost = akri.discover_with("http-disc-lost", BTreeMap::new()).await?;
    let blank = BTreeMap::from([("HOST_ENDPOINT".to_owned(), " ".to_owned())]);
    let blank = akri.discover_with("http-disc-blank", blank).await?;
    akri.discover("192.0.2.11", "esp32", "thermo", "0.1.0").await?;
    let made = ServerCert::self_signed(KeyKind::P256)?.renewed(KeyKind::P256)?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": { "name": "flashjob-server-tls" },
        "stringData": { "tls.crt": made.chain, "tls.key": made.key },
    });
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "flashjob-flasher" },
        "data": { "DICE_AUTH_URL": "http://dice-auth-service:8000" },
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "board" },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 4433, "protocol": "TCP" }], "selector": { "a": "b" } },
    });
    for object in [secret, settings, service] {
        cluster.apply_yaml_in(&namespace, &object.to_string()).await?;
    }
    let (out, code) = check(&config).await?;
    assert_eq!(code, Some(3), "{out}");
    is(&out, "FAIL", "Akri: 3 devices, 2 without the property HOST_ENDPOINT");
    is(&out, "?", "load balancer: ");

    akri.lose(&lost).await?;
    akri.lose(&blank).await?;
    let _balancer = LoadBalancer::start(client.clone(), Some(&namespace), AddressPool::of(1));
    let services: Api<Service> = Api::namespaced(client, &namespace);
    eventually("an address", std::time::Duration::from_secs(60), async || {
        let status = services.get("board").await?.status.and_then(|s| s.load_balancer);
        Ok(status.and_then(|s| s.ingress).filter(|all| !all.is_empty()))
    })
    .await?;
    let (out, code) = check(&config).await?;
    assert_eq!(code, Some(0), "{out}");
    for line in out.lines() {
        assert!(line.starts_with("ok  "), "{out}");
    }

    // One who may only look is given ConfigMaps, beside those the cluster gives to its own.
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "settings" },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "patch"] }],
    });
    let bound = |kind: &str, role: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": role },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice" }],
        })
    };
    let viewer = bound("ClusterRole", "operator-flashjob-viewer-role");
    for object in [role, viewer, bound("Role", "settings")] {
        cluster.apply_yaml_in(&namespace, &object.to_string()).await?;
    }
    let (out, code) = check(&config).await?;
    assert_eq!(code, Some(0), "{out}");
    is(&out, "?", &format!("ledgers: in namespace {namespace} these may look"));
    assert!(out.contains("change what jobs say was done: User alice\n"), "{out}");
    Ok(())
}

#[tokio::test]
async fn who_may_nothing_is_told_so_of_each_thing() -> Result<()> {
    let (cluster, namespace) = cluster_with_all().await?;
    let (out, code) = check(&kubeconfig(&cluster, "nobody", &namespace)?).await?;
    assert_eq!(code, Some(3), "{out}");
    is(&out, "ok", "API server");
    for what in
        ["operator", "Akri", "load balancer", "server certificate", "attestation", "ledgers"]
    {
        is(&out, "?", &format!("{what}: you may not look"));
    }
    is(&out, "FAIL", "you may look");
    is(&out, "?", "you may flash");
    assert!(out.contains("--clusterrole=operator-flashjob-editor-role"), "{out}");

    // Nobody at all: a token that the cluster does not know.
    let stranger = cluster.kubeconfig("unknown", &namespace, None)?;
    let (out, code) = check(&stranger).await?;
    assert_eq!(code, Some(3), "{out}");
    is(&out, "FAIL", "API server: ");
    assert_eq!(out.lines().filter(|line| line.starts_with('?')).count(), 9, "{out}");
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_is_said_to_be_so() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let token = cluster.token("admin").context("no token")?;
    // The discard port: nobody listens.
    let config = cluster.kubeconfig(token, "default", Some("https://127.0.0.1:9"))?;
    let (out, code) = check(&config).await?;
    assert_eq!(code, Some(3), "{out}");
    is(&out, "FAIL", "API server: ");
    assert!(out.contains("kubectl cluster-info"), "{out}");
    Ok(())
}
