//! The process itself: commands, health, metrics, rights.

use std::process::Command;

use anyhow::Result;
use flashjob_api::Phase;
use flashjob_sim::Script;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::crds::{answers, free_address, get};
use crate::site::{Site, cluster};

fn run(words: &[&str]) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_flashjob-operator"))
        .args(words)
        .env_remove("KUBECONFIG")
        .env("HOME", "/nonexistent")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

#[test]
fn crd_and_version_go_to_standard_output() {
    let (ok, out, _) = run(&["crd"]);
    assert!(ok);
    let file =
        include_str!("../../../../config/crd/bases/application.flashjob.nbfc.io_flashjobs.yaml");
    assert_eq!(out, file);
    let (ok, out, _) = run(&["version"]);
    assert!(ok && out.starts_with("flashjob-operator "), "{out}");
}

#[test]
fn what_is_wrong_is_said_in_a_sentence() {
    let (ok, _, said) = run(&["run", "--health-probe-bind-address=0"]);
    assert!(!ok && said.contains("no cluster"), "{said}");
    let (ok, _, said) = run(&["run", "--metrics-bind-address=nonsense"]);
    assert!(!ok && said.contains("expected :port, ip:port, or 0"), "{said}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let flag = format!("--health-probe-bind-address={}", taken.local_addr().unwrap());
    let (ok, _, said) = run(&["run", &flag]);
    assert!(!ok && said.contains("cannot serve health on 127.0.0.1"), "{said}");
    let (ok, _, said) = run(&["run", "--controllers=edge"]);
    assert!(!ok && said.contains("flashjob"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_tell_what_happened() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.two_boards().await?;
    let (health, metrics) = (free_address().await?, free_address().await?);
    let flags = [
        format!("--health-probe-bind-address={health}"),
        format!("--metrics-bind-address={metrics}"),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let _leader = site.operator_with(&flags, None).await?;
    site.flash("flashjob", &boards).await?;
    site.phase("flashjob", Phase::Completed).await?;
    site.cleaned_up().await?;
    answers(health, "/readyz", 200, "ok").await?;
    answers(metrics, "/metrics", 200, "flashjob_devices{state=\"succeeded\"} 2\n").await?;
    let (_, text) = get(metrics, "/metrics").await?;
    for line in [
        "flashjob_is_leader 1\n",
        "flashjob_flash_duration_seconds_count 2\n",
        "flashjob_ledger_flush_errors_total 0\n",
        "flashjob_writes_refused_without_lease_total 0\n",
        "flashjob_oldest_waiting_seconds{state=\"Addressing\"} 0\n",
        "flashjob_watch_age_seconds{kind=\"pods\"}",
        "flashjob_reconcile_duration_seconds_count",
        "flashjob_writes_total{method=\"POST\"}",
        "# EOF",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    assert!(!text.contains("flashjob_failures_total{"), "{text}");
    Ok(())
}

/// What the shipped roles give the operator's account, and what they do not.
#[tokio::test(flavor = "multi_thread")]
async fn the_operator_may_do_what_it_needs_and_no_more() -> Result<()> {
    let cluster = cluster().await?;
    let token =
        cluster.service_account_token("operator-system", "operator-controller-manager").await?;
    let reviews: Api<SelfSubjectAccessReview> = Api::all(cluster.client_with_token(&token)?);
    let ours = "application.flashjob.nbfc.io";
    let cases = [
        (ours, "flashjobs", "", "get list watch patch delete", "create update"),
        (ours, "flashjobs", "status", "patch", "get update"),
        (ours, "flashjobs", "finalizers", "update", "patch"),
        ("akri.sh", "instances", "", "get list watch", "create update patch delete"),
        ("", "pods", "", "get list watch create delete", "update patch"),
        ("", "pods", "exec", "", "create"),
        ("", "services", "", "get list watch create delete", "update patch"),
        ("", "configmaps", "", "get list create patch delete", "watch update"),
        ("events.k8s.io", "events", "", "create patch", "list delete"),
        ("", "secrets", "", "", "get list watch create"),
        ("", "nodes", "", "", "get list"),
        ("apps", "deployments", "", "", "get create"),
        ("coordination.k8s.io", "leases", "", "", "get update"),
    ];
    for (group, resource, subresource, may, may_not) in cases {
        let wanted = may.split_whitespace().map(|v| (v, true));
        let unwanted = may_not.split_whitespace().map(|v| (v, false));
        for (verb, expected) in wanted.chain(unwanted) {
            let review: SelfSubjectAccessReview = serde_json::from_value(json!({
                "spec": { "resourceAttributes": {
                    "group": group, "resource": resource, "subresource": subresource,
                    "verb": verb, "namespace": "default",
                } },
            }))?;
            let answer = reviews.create(&PostParams::default(), &review).await?;
            let allowed = answer.status.is_some_and(|s| s.allowed);
            assert_eq!(allowed, expected, "{verb} {group}/{resource}/{subresource}");
        }
    }
    Ok(())
}
