//! How processes are told to end.

use anyhow::Result;

use super::processes::{Node, is_over, shell};
use super::*;

#[tokio::test]
async fn at_the_deadline_all_containers_are_told_and_the_deaf_are_killed() -> Result<()> {
    let node = Node::new().await?;
    let hears =
        shell("main", "trap 'echo told >dev/termination-log; exit 5' TERM; sleep 60 & wait $!");
    let deaf = shell("deaf", "trap '' TERM; while :; do sleep 0.1; done");
    node.create(json!({
        "activeDeadlineSeconds": 1, "terminationGracePeriodSeconds": 1, "containers": [hears, deaf],
    }))
    .await?;
    let ended = |pod: &Pod| end(pod, "main").0.is_some() && end(pod, "deaf").0.is_some();
    let pod = node.bench.until("the end of both", ended).await?;
    assert!(is_over(&pod));
    assert_eq!(pod.status.as_ref().and_then(|s| s.reason.as_deref()), Some("DeadlineExceeded"));
    assert_eq!(end(&pod, "main"), (Some(5), "told\n".to_owned()));
    assert_eq!(end(&pod, "deaf").0, Some(137));
    Ok(())
}

/// What ends because the Pod is deleted is not started again.
#[tokio::test]
async fn a_deleted_pod_ends_all_its_containers_and_restarts_none() -> Result<()> {
    let node = Node::new().await?;
    let containers = [shell("main", "sleep 60"), shell("other", "sleep 60")];
    node.create(json!({ "restartPolicy": "Always", "containers": containers })).await?;
    node.bench.until("the start", |pod| phase(pod) == "Running").await?;
    node.bench.delete().await?;
    let starts = node.kubelet.starts();
    assert_eq!(starts.len(), 2);
    assert!(starts.iter().all(|start| start.exit_code == Some(143)), "{starts:#?}");
    Ok(())
}

/// As in a container, where all processes end with the first.
#[tokio::test]
async fn what_a_process_has_started_ends_with_it() -> Result<()> {
    let node = Node::new().await?;
    let main = shell("main", "sleep 300 & echo $! >dev/termination-log");
    node.create(json!({ "containers": [main] })).await?;
    let pod = node.bench.until("the end", is_over).await?;
    let (code, pid) = end(&pod, "main");
    assert_eq!(code, Some(0));
    let file = format!("/proc/{}/status", pid.trim());
    eventually("it to end", LIMIT, || async {
        // Whoever takes orphans in may take his time to bury them.
        let status = std::fs::read_to_string(&file).unwrap_or_default();
        Ok((status.is_empty() || status.contains("State:\tZ")).then_some(()))
    })
    .await
}

/// A process cannot be found again: it ended with the kubelet that had started it.
#[tokio::test]
async fn a_kubelet_that_comes_back_knows_what_had_run() -> Result<()> {
    let mut node = Node::new().await?;
    let first = shell("first", "true");
    let main = shell("main", "[ -e work/again ] || { touch work/again; sleep 60; }");
    let spec =
        json!({ "restartPolicy": "OnFailure", "initContainers": [first], "containers": [main] });
    node.create(spec).await?;
    node.bench.until("the start", |pod| phase(pod) == "Running").await?;
    node.restart().await?;
    let pod = node.bench.until("the end", is_over).await?;
    assert_eq!(phase(&pod), "Succeeded");
    let main = status(&pod, "main");
    assert_eq!(main.restart_count, 1);
    let last = main.last_state.and_then(|state| state.terminated);
    assert_eq!(last.map(|last| last.exit_code), Some(128));
    assert_eq!(node.started(), ["main"], "the init container had ended well");
    Ok(())
}
