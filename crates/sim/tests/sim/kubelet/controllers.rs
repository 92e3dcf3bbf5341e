//! Pods that the real kube-controller-manager makes, and the played kubelet runs.

use anyhow::Result;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::batch::v1::Job;
use kube::api::ListParams;

use super::processes::{Node, shell};
use super::*;

#[tokio::test]
async fn a_job_lives_to_its_end() -> Result<()> {
    let node = Node::new().await?;
    let cluster = Cluster::shared().await?;
    let Some(_manager) = cluster.controller_manager(&["job"]).await? else {
        return Ok(());
    };
    let jobs: Api<Job> = Api::namespaced(node.bench.client.clone(), &node.bench.namespace);
    let pod = json!({
        "restartPolicy": "OnFailure",
        "volumes": [{ "name": "work", "emptyDir": {} }],
        "initContainers": [shell("first", "echo prepared >work/ready")],
        "containers": [
            // It fails once, and the other waits for it meanwhile.
            shell("main", "cat work/ready; [ -e work/again ] && touch work/done || { touch work/again; exit 1; }"),
            shell("other", "until [ -e work/done ]; do sleep 0.05; done; cat work/ready >dev/termination-log"),
        ],
    });
    let job = json!({
        "metadata": { "name": "job" },
        "spec": { "completions": 2, "parallelism": 2, "template": { "spec": pod } },
    });
    jobs.create(&PostParams::default(), &serde_json::from_value(job)?).await?;
    let job = eventually("the Job to be complete", LIMIT, || async {
        let job = jobs.get("job").await?;
        let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let complete = conditions.clone().any(|c| c.type_ == "Complete" && c.status == "True");
        Ok(complete.then_some(job))
    })
    .await?;
    assert_eq!(job.status.and_then(|status| status.succeeded), Some(2));
    let pods = node.bench.pods.list(&ListParams::default()).await?.items;
    assert_eq!(pods.len(), 2);
    for pod in pods {
        assert_eq!(status(&pod, "main").restart_count, 1);
        assert_eq!(end(&pod, "other"), (Some(0), "prepared\n".to_owned()));
    }
    Ok(())
}

#[tokio::test]
async fn pods_of_a_stateful_set_know_their_names_and_come_back() -> Result<()> {
    let node = Node::new().await?;
    let cluster = Cluster::shared().await?;
    let Some(_manager) = cluster.controller_manager(&["statefulset"]).await? else {
        return Ok(());
    };
    let mut main = shell("main", "sleep 60");
    let name = json!({ "fieldRef": { "fieldPath": "metadata.name" } });
    main["env"] = json!([{ "name": "NAME", "valueFrom": name }]);
    let knows = r#"[ "$HOSTNAME" = "$NAME" ] && grep -q "$NAME[.]workers[.]" etc/hosts"#;
    main["readinessProbe"] = json!({ "exec": { "command": ["sh", "-c", knows] } });
    let labels = json!({ "app": "worker" });
    let set = json!({
        "metadata": { "name": "worker" },
        "spec": {
            "serviceName": "workers",
            "replicas": 2,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "volumes": [{ "name": "work", "emptyDir": {} }], "containers": [main] },
            },
        },
    });
    let sets: Api<StatefulSet> = Api::namespaced(node.bench.client.clone(), &node.bench.namespace);
    sets.create(&PostParams::default(), &serde_json::from_value(set)?).await?;
    let all_ready = || async {
        let status = sets.get("worker").await?.status;
        Ok((status.and_then(|status| status.ready_replicas) == Some(2)).then_some(()))
    };
    eventually("both to be ready", LIMIT, all_ready).await?;
    let mut names: Vec<String> = node.kubelet.starts().into_iter().map(|s| s.pod).collect();
    names.sort();
    assert_eq!(names, ["worker-0", "worker-1"]);

    let before = node.bench.pods.get("worker-1").await?.metadata.uid;
    node.bench.pods.delete("worker-1", &Default::default()).await?;
    eventually("another in its place", LIMIT, || async {
        let pod = node.bench.pods.get_opt("worker-1").await?;
        let ready = |pod: &Pod| pod.metadata.uid != before && condition(pod, "Ready").0 == "True";
        Ok(pod.filter(ready).map(drop))
    })
    .await
}
