//! The roles that are shipped are enough for what the program does, and the viewer's is not enough to change anything.

use std::path::PathBuf;

use anyhow::Result;
use flashjob_api::flashjob::Phase;
use flashjob_sim::node::Script;

use crate::site::CliSite;

/// A kubeconfig for an account that has one role in the namespace, and nothing else.
async fn account(site: &CliSite, role: &str) -> Result<PathBuf> {
    let n = &site.namespace;
    let name = role.trim_start_matches("operator-flashjob-");
    let yaml = format!(
        "\
apiVersion: v1
kind: ServiceAccount
metadata: {{ name: {name}, namespace: {n} }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{ name: {name}, namespace: {n} }}
roleRef: {{ apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {role} }}
subjects: [{{ kind: ServiceAccount, name: {name}, namespace: {n} }}]
"
    );
    site.cluster.apply_yaml(&yaml).await?;
    let token = site.cluster.service_account_token(n, name).await?;
    site.cluster.kubeconfig(&token, n, None)
}

#[tokio::test]
async fn the_shipped_roles_suffice() -> Result<()> {
    let site = CliSite::new(|_| Script::success("")).await?;
    site.boards(2).await?;
    let _operator = site.operator()?;
    let viewer = account(&site, "operator-flashjob-viewer-role").await?;
    let editor = account(&site, "operator-flashjob-editor-role").await?;
    let firmware = "--firmware=registry.example/thermo:0.2.0";

    let flash = ["flash", "--device=esp32", firmware, "--name=mine", "--wait"];
    site.run_as(&viewer, &flash, "").await.badly(1, "operator-flashjob-editor-role");
    let ended = site.run_as(&editor, &flash, "").await;
    assert!(ended.err.contains("Completed: 2 of 2 devices done"), "{ended:#?}");
    ended.well();

    for kubeconfig in [&viewer, &editor] {
        for args in [
            vec!["devices"],
            vec!["plan", "--device=esp32", firmware],
            vec!["rollout", "status", "mine", "--wait"],
            vec!["rollout", "history", "mine"],
            vec!["logs", "mine"],
            vec!["explain", "mine"],
        ] {
            let ended = site.run_as(kubeconfig, &args, "").await;
            let words = ended.err.to_lowercase();
            assert!(
                !words.contains("forbidden") && !words.contains("may not"),
                "{args:?}: {ended:#?}"
            );
            assert_eq!(ended.code, 0, "{args:?}: {ended:#?}");
        }
        let out = site.run_as(kubeconfig, &["devices"], "").await.well();
        assert!(out.contains("Succeeded 0.2.0"), "the ledger may be read: {out}");
    }
    for what in ["pause", "abort", "resume", "retry"] {
        // There is nothing to change about a job that is done, and the viewer may not even try.
        site.run_as(&editor, &["rollout", what, "mine"], "").await.well();
    }
    let slow = ["flash", "--device=esp32", firmware, "--name=slow", "--batch-size=1", "--delay=1h"];
    site.run_as(&editor, &slow, "").await.well();
    site.status("slow", "the first batch to be done", |s| {
        s.counts.is_some_and(|c| c.succeeded == 1)
    })
    .await?;
    for (what, phase) in
        [("pause", Phase::Suspended), ("resume", Phase::InProgress), ("abort", Phase::Failed)]
    {
        let args = ["rollout", what, "slow"];
        site.run_as(&viewer, &args, "").await.badly(1, "operator-flashjob-editor-role");
        site.run_as(&editor, &args, "").await.well();
        site.phase("slow", phase).await?;
    }
    Ok(())
}
