//! The process itself: commands, health, metrics, rights.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::Phase;
use flashjob_sim::cluster::Cluster;
use flashjob_sim::flashjob::Site;
use flashjob_sim::http::get;
use flashjob_sim::node::Script;
use flashjob_sim::{Operator, PATIENCE, eventually};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use flashjob_sim::http::{answers, free_address};

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
    for name in flashjob_api::edge::crd::NAMES {
        let (ok, out, _) = run(&["crd", name]);
        let kind = format!("name: {name}.management.project-flotta.io\n");
        assert!(ok && out.contains(&kind), "{out}");
    }
    let (ok, _, said) = run(&["crd", "edgeconfigs"]);
    assert!(!ok && said.contains("flashjobs, edgedevices"), "{said}");
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
    let (ok, _, said) = run(&["run", "--controllers=nonsense"]);
    assert!(!ok && said.contains("[possible values: flashjob, edge]"), "{said}");
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
    let _leader = site.operator_with(&flags, None)?;
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

/// A thousand connections to each port that say nothing, and come back when they were closed. The kubelet waits for a second,
/// and gives up after three probes in a row.
#[tokio::test(flavor = "multi_thread")]
async fn probes_and_scrapes_are_answered_whoever_else_is_connected() -> Result<()> {
    let cluster = Cluster::shared_installed().await?;
    let namespace = format!("--namespace={}", cluster.namespace("crowded").await?);
    let (health, metrics) = (free_address().await?, free_address().await?);
    let flags = [
        namespace,
        format!("--health-probe-bind-address={health}"),
        format!("--metrics-bind-address={metrics}"),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let _operator = Operator::start(cluster, &flags).await?;
    answers(health, "/readyz", 200, "ok").await?;

    let closed = Arc::new(AtomicUsize::new(0));
    let mut idle = JoinSet::new();
    for address in [health, metrics].into_iter().cycle().take(2_000) {
        let closed = closed.clone();
        idle.spawn(async move {
            loop {
                if let Ok(mut stream) = TcpStream::connect(address).await {
                    let _ = stream.read(&mut [0]).await;
                    closed.fetch_add(1, Ordering::Relaxed);
                }
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        });
    }
    let crowded = || async { Ok((closed.load(Ordering::Relaxed) > 1_000).then_some(())) };
    let crowded = eventually("idle connections to be closed", PATIENCE, crowded).await;
    let (mut failed, mut in_a_row) = (0, 0);
    for path in ["/healthz", "/readyz", "/metrics"].into_iter().cycle().take(30) {
        let address = if path == "/metrics" { metrics } else { health };
        let answer = tokio::time::timeout(Duration::from_secs(1), get(address, path)).await;
        let answered = matches!(answer, Ok(Ok((200, _))));
        failed += usize::from(!answered);
        in_a_row = if answered { 0 } else { in_a_row + 1 };
        assert!(in_a_row < 3, "{path} and two before it were not answered in time: {answer:?}");
    }
    println!("{failed} of 30 probes were not answered in time");
    crowded
}

/// What comes slowly, or not at all, is not waited for; and a connection is good for one request.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_good_for_one_request_and_not_for_long() -> Result<()> {
    let cluster = Cluster::shared_installed().await?;
    let namespace = format!("--namespace={}", cluster.namespace("slow").await?);
    let health = free_address().await?;
    let flag = format!("--health-probe-bind-address={health}");
    let _operator = Operator::start(cluster, &[&namespace, &flag]).await?;
    answers(health, "/healthz", 200, "ok").await?;
    for said in
        ["", "GET /healthz HTTP/1.1\r\nHost: te", "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n"]
    {
        let mut stream = TcpStream::connect(health).await?;
        stream.write_all(said.as_bytes()).await?;
        let mut heard = String::new();
        let limit = Duration::from_secs(8); // four times what it is
        tokio::time::timeout(limit, stream.read_to_string(&mut heard)).await??;
        assert_eq!(heard.contains("200 OK"), said.ends_with("\r\n\r\n"), "{heard}");
    }
    Ok(())
}

/// The shipped policy is about the shipped Deployment's Pods, and lets a label's holders reach one port of theirs.
#[tokio::test(flavor = "multi_thread")]
async fn the_network_policy_lets_in_scrapes_of_the_operator_and_nothing_else() -> Result<()> {
    let (client, name) =
        (Cluster::shared_installed().await?.client("admin")?, "operator-controller-manager");
    let policies: Api<NetworkPolicy> = Api::namespaced(client.clone(), "operator-system");
    let deployments: Api<Deployment> = Api::namespaced(client, "operator-system");
    let policy = serde_json::to_value(policies.get(name).await?.spec)?;
    let deployment = serde_json::to_value(deployments.get(name).await?.spec)?;
    assert_eq!(policy["podSelector"], deployment["selector"]);
    assert_eq!(policy["policyTypes"], json!(["Ingress"]));
    let ports = deployment["template"]["spec"]["containers"][0]["ports"].as_array();
    let metrics = ports.into_iter().flatten().find(|port| port["name"] == "metrics");
    let port = metrics.map(|port| port["containerPort"].clone());
    let from = json!([{ "namespaceSelector": { "matchLabels": { "metrics": "enabled" } } }]);
    let ports = json!([{ "port": port, "protocol": "TCP" }]);
    assert_eq!(policy["ingress"], json!([{ "from": from, "ports": ports }]));
    Ok(())
}

/// What the shipped roles give the operator's account, and what they do not.
#[tokio::test(flavor = "multi_thread")]
async fn the_operator_may_do_what_it_needs_and_no_more() -> Result<()> {
    let cluster = Cluster::shared_installed().await?;
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
