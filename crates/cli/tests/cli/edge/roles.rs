//! The roles that are shipped are enough for what people do with devices, and give nobody the Secrets.

use std::path::PathBuf;

use anyhow::Result;

use super::{EdgeCli, becomes, code};
use crate::site::Ended;

/// A kubeconfig for an account that has one role in the namespace, and nothing else.
pub async fn account(site: &EdgeCli, role: &str) -> Result<PathBuf> {
    let n = &site.namespace;
    let yaml = format!(
        "\
apiVersion: v1
kind: ServiceAccount
metadata: {{ name: {role}, namespace: {n} }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{ name: {role}, namespace: {n} }}
roleRef: {{ apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {role} }}
subjects: [{{ kind: ServiceAccount, name: {role}, namespace: {n} }}]
"
    );
    site.cluster.apply_yaml(&yaml).await?;
    let token = site.cluster.service_account_token(n, role).await?;
    site.cluster.kubeconfig(&token, n, None)
}

#[tokio::test]
async fn the_viewer_looks_the_editor_acts_and_neither_has_a_secret() -> Result<()> {
    let site = EdgeCli::new().await?;
    let _operator = site.operator_with(&["--edge-auto-approval=false"], None).await?;
    let viewer = account(&site, "flotta-edge-viewer-role").await?;
    let editor = account(&site, "flotta-edge-editor-role").await?;
    let device = site.new_box("edge1").await?;
    assert_eq!(code(async || device.enrol().await).await?, 200);
    let home = format!("--operator-namespace={}", site.home);
    let folder = tempfile::tempdir()?;
    let out = format!("--out={}", folder.path().join("b").display());

    let needs_editor = |ended: Ended| ended.badly(1, "flotta-edge-editor-role");
    needs_editor(site.run_as(&viewer, &["approve", "edge1"]).await);
    needs_editor(site.run_as(&viewer, &["decline", "--all", "--yes"]).await);
    site.run_as(&editor, &["approve", "--all", "--yes"]).await.well();
    becomes("edge1 to be let in", 208, async || device.enrol().await).await?;
    site.reporting("edge1").await?;
    needs_editor(site.run_as(&viewer, &["reset", "edge1"]).await);
    needs_editor(site.run_as(&viewer, &["remove", "edge1", "--yes"]).await);
    for kubeconfig in [&viewer, &editor] {
        for args in [
            vec!["devices"],
            vec!["devices", "-o", "wide"],
            vec!["requests"],
            vec!["explain", "edge1", &home],
            vec!["check", &home],
        ] {
            let ended = site.run_as(kubeconfig, &args).await;
            assert!(!ended.err.to_lowercase().contains("forbidden"), "{args:?}: {ended:#?}");
            assert_eq!(ended.code, 0, "{args:?}: {ended:#?}");
        }
        let whom = format!("Ask who administrates namespace {}", site.home);
        for args in [
            vec!["ca", "status", &home],
            vec!["ca", "rotate", &home],
            vec!["ca", "retire", "--yes", &home],
            vec!["bundle", "--server=edge.example:8043", &out, &home],
        ] {
            site.run_as(kubeconfig, &args).await.badly(1, &whom);
        }
    }
    let check = site.run_as(&viewer, &["check", &home]).await.well();
    for line in
        ["ok    Edge CRDs: served", "ok    devices: 1", "?     certificates: you may not look"]
    {
        assert!(check.contains(line), "{line}: {check}");
    }
    assert!(check.contains("--clusterrole=flotta-edge-editor-role"), "{check}");

    site.run_as(&editor, &["reset", "edge1"]).await.well();
    let decline = format!("--request-namespace={}", site.namespace);
    let away = ["remove", "edge1", "--decline", &decline, "--yes", &home];
    site.run_as(&editor, &away).await.well();
    // Whether its box is told to disconnect is in ConfigMaps beside the Secrets.
    let explained = site.run_as(&viewer, &["explain", "edge1", &home]).await;
    assert!(explained.out.contains("you may not see"), "{explained:#?}");
    explained.well();
    site.run_as(&viewer, &["explain", "nobody", &home]).await.badly(1, "you may not see");
    let nobody = site.cluster.token("nobody").unwrap_or_default().to_owned();
    let nobody = site.cluster.kubeconfig(&nobody, &site.namespace, None)?;
    site.run_as(&nobody, &["devices"]).await.badly(1, "flotta-edge-viewer-role");
    Ok(())
}
