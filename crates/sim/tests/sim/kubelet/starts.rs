//! Which container starts when, and how often.

use anyhow::Result;

use super::processes::{Node, is_over, shell};
use super::*;

#[tokio::test]
async fn init_containers_run_in_order_and_before_the_others() -> Result<()> {
    let node = Node::new().await?;
    let first =
        shell("first", "until [ -e work/go ]; do sleep 0.05; done; echo first >>work/order");
    let second = shell("second", "sleep 0.2; echo second >>work/order");
    let main = shell("main", "cat work/order >dev/termination-log");
    node.create(json!({ "initContainers": [first, second], "containers": [main] })).await?;
    let runs = |pod: &Pod| status(pod, "first").state.is_some_and(|state| state.running.is_some());
    let pod = node.bench.until("the first init container", runs).await?;
    assert_eq!(phase(&pod), "Pending");
    for name in ["second", "main"] {
        let waiting = status(&pod, name).state.and_then(|state| state.waiting);
        let reason = waiting.and_then(|waiting| waiting.reason);
        assert_eq!(reason.as_deref(), Some("PodInitializing"), "{name}");
    }
    let incomplete = ("False".to_owned(), Some("ContainersNotInitialized".to_owned()));
    assert_eq!(condition(&pod, "Initialized"), incomplete);
    assert_eq!(node.started(), ["first"]);

    std::fs::write(node.work().await?.join("go"), "")?;
    let pod = node.bench.until("the end", is_over).await?;
    assert_eq!(phase(&pod), "Succeeded");
    assert_eq!(end(&pod, "main"), (Some(0), "first\nsecond\n".to_owned()));
    assert_eq!(condition(&pod, "Initialized").0, "True");
    let starts = node.kubelet.starts();
    assert_eq!(node.started(), ["first", "second", "main"]);
    for pair in starts.windows(2) {
        assert!(pair[0].ended_at.is_some_and(|end| end <= pair[1].at), "{starts:#?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_failed_init_container_fails_a_pod_that_never_restarts() -> Result<()> {
    let node = Node::new().await?;
    let first = shell("first", "echo no luck >dev/termination-log; exit 3");
    let inits = [first, shell("second", "true")];
    node.create(json!({ "initContainers": inits, "containers": [shell("main", "true")] })).await?;
    let pod = node.bench.until("the end", is_over).await?;
    assert_eq!(phase(&pod), "Failed");
    assert_eq!(end(&pod, "first"), (Some(3), "no luck\n".to_owned()));
    assert!(waits_for(&pod, "PodInitializing"));
    assert_eq!(node.started(), ["first"]);
    Ok(())
}

#[tokio::test]
async fn a_failed_init_container_is_tried_again_where_the_policy_says_so() -> Result<()> {
    for policy in ["OnFailure", "Always"] {
        let node = Node::new().await?;
        let first = shell("first", "[ -e work/again ] || { touch work/again; exit 4; }");
        let main = shell("main", "sleep 60");
        let spec = json!({
            "restartPolicy": policy, "initContainers": [first], "containers": [main],
        });
        node.create(spec).await?;
        let pod = node.bench.until("the start", |pod| phase(pod) == "Running").await?;
        let first = status(&pod, "first");
        assert_eq!((first.restart_count, end(&pod, "first").0), (1, Some(0)), "{policy}");
        let last = first.last_state.and_then(|state| state.terminated);
        assert_eq!(last.map(|last| last.exit_code), Some(4));
        assert_eq!(node.started(), ["first", "first", "main"]);
    }
    Ok(())
}

/// The first time at once, then after a back-off. What it left in the volume is still there, and nothing else is.
#[tokio::test]
async fn a_container_that_fails_is_started_again_after_a_back_off() -> Result<()> {
    let node = Node::new().await?;
    let main = shell(
        "main",
        "echo try >>work/tries; [ ! -s dev/termination-log ] || exit 99
        wc -l <work/tries >dev/termination-log; [ $(wc -l <work/tries) -eq 3 ]",
    );
    let other = shell("other", "true");
    node.create(json!({ "restartPolicy": "OnFailure", "containers": [main, other] })).await?;
    let pod = node.bench.until("the back-off", |pod| waits_for(pod, "CrashLoopBackOff")).await?;
    assert_eq!(phase(&pod), "Running");
    let words = state(&pod).waiting.and_then(|waiting| waiting.message).unwrap_or_default();
    assert!(words.starts_with("back-off 2s restarting failed container=main"), "{words}");
    assert_eq!(status(&pod, "main").restart_count, 1);
    let pod = node.bench.until("the end", is_over).await?;
    assert_eq!(phase(&pod), "Succeeded");
    assert_eq!(end(&pod, "main"), (Some(0), "3\n".to_owned()));
    assert_eq!((status(&pod, "main").restart_count, status(&pod, "other").restart_count), (2, 0));
    let mine = |s: &&flashjob_sim::node::Started| s.container == "main";
    let starts: Vec<_> = node.kubelet.starts().iter().filter(mine).cloned().collect();
    assert_eq!(starts.iter().map(|s| s.exit_code).collect::<Vec<_>>(), [Some(1), Some(1), Some(0)]);
    let pause = starts[1].ended_at.map(|end| starts[2].at.duration_since(end));
    assert!(pause.is_some_and(|pause| pause.as_secs_f64() >= 1.9), "{pause:?}");
    Ok(())
}

#[tokio::test]
async fn a_container_that_is_to_run_always_starts_again_when_it_ended_well() -> Result<()> {
    let node = Node::new().await?;
    let main = shell("main", "[ -e work/again ] && sleep 60; touch work/again");
    node.create(json!({ "restartPolicy": "Always", "containers": [main] })).await?;
    let again = |pod: &Pod| status(pod, "main").restart_count == 1 && state(pod).running.is_some();
    let pod = node.bench.until("the second start", again).await?;
    assert_eq!((phase(&pod), condition(&pod, "Ready").0.as_str()), ("Running", "True"));
    node.bench.delete().await?;
    assert_eq!(node.kubelet.starts().last().and_then(|start| start.exit_code), Some(143));
    assert_eq!(node.started(), ["main", "main"]);
    Ok(())
}
