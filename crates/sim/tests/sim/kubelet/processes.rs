//! Containers that are processes: what they are given, and what is said of them.

use std::path::{Path, PathBuf};

use anyhow::Result;
use flashjob_sim::node::{Images, KubeletOptions, Program};
use tempfile::TempDir;

use super::*;

/// A node with one image, a shell, and a volume `work` that every container has at `/work`.
pub struct Node {
    pub bench: Bench,
    pub kubelet: Kubelet,
    script: Script,
    folder: TempDir,
}

impl Node {
    pub async fn new() -> Result<Self> {
        Self::scripted(Script::ending(ScriptEnd::ImagePullBackOff)).await
    }

    /// All images but the shell play a script.
    pub async fn scripted(script: Script) -> Result<Self> {
        let bench = Bench::new().await?;
        let folder = tempfile::tempdir()?;
        let kubelet = kubelet(&bench, script.clone(), folder.path()).await?;
        Ok(Self { bench, kubelet, script, folder })
    }

    /// The kubelet ends, and another takes its place.
    pub async fn restart(&mut self) -> Result<()> {
        let nowhere = Kubelet::start(self.bench.client.clone(), "nowhere", |_| Script::default());
        self.kubelet = nowhere;
        self.kubelet = kubelet(&self.bench, self.script.clone(), self.folder.path()).await?;
        Ok(())
    }

    pub async fn create(&self, spec: serde_json::Value) -> Result<()> {
        let mut with_volume = json!({ "volumes": [{ "name": "work", "emptyDir": {} }] });
        for (key, value) in spec.as_object().into_iter().flatten() {
            with_volume[key] = value.clone();
        }
        self.bench.create(with_volume).await
    }

    /// Where the volume `work` is.
    pub async fn work(&self) -> Result<PathBuf> {
        let uid = self.bench.pods.get(POD).await?.metadata.uid.unwrap_or_default();
        Ok(self.folder.path().join(uid).join("volumes/work"))
    }

    /// The containers that were started, in order.
    pub fn started(&self) -> Vec<String> {
        self.kubelet.starts().into_iter().map(|start| start.container).collect()
    }
}

async fn kubelet(bench: &Bench, script: Script, folder: &Path) -> Result<Kubelet> {
    let options = KubeletOptions {
        namespace: Some(bench.namespace.clone()),
        images: Some(Images::new(folder).with("shell", Program::new("/bin/sh")?)),
        back_off: Duration::from_secs(2),
    };
    Kubelet::start_with(bench.client.clone(), options, move |_: &Pod| script.clone()).await
}

/// A container that runs these lines.
pub fn shell(name: &str, lines: &str) -> serde_json::Value {
    let mounts = json!([{ "name": "work", "mountPath": "/work" }]);
    json!({ "name": name, "image": "shell", "args": ["-c", lines], "volumeMounts": mounts })
}

pub fn is_over(pod: &Pod) -> bool {
    ["Succeeded", "Failed"].contains(&phase(pod))
}

#[tokio::test]
async fn containers_run_side_by_side_and_share_a_volume() -> Result<()> {
    let node = Node::new().await?;
    let one = shell(
        "main",
        "echo hello >work/hello; until [ -e work/answer ]; do sleep 0.05; done
        cat work/answer >dev/termination-log",
    );
    let mut other = shell(
        "other",
        "until [ -e its/own/hello ]; do sleep 0.05; done; echo heard $(cat its/own/hello) >its/own/answer",
    );
    other["volumeMounts"][0]["mountPath"] = json!("/its/own");
    node.create(json!({ "containers": [one, other] })).await?;
    let pod = node.bench.until("the end", is_over).await?;
    assert_eq!(phase(&pod), "Succeeded");
    assert_eq!(end(&pod, "main"), (Some(0), "heard hello\n".to_owned()));
    assert_eq!(end(&pod, "other"), (Some(0), String::new()));
    let completed = ("False".to_owned(), Some("PodCompleted".to_owned()));
    assert_eq!(condition(&pod, "Ready"), completed);
    Ok(())
}

#[tokio::test]
async fn each_container_has_its_own_exit_code_and_message() -> Result<()> {
    let node = Node::new().await?;
    let well = shell("main", "echo fine >dev/termination-log; echo and much more");
    let mut elsewhere = shell("elsewhere", "echo found >out/last; exit 7");
    elsewhere["terminationMessagePath"] = json!("/out/last");
    let mut speaks = shell("speaks", "echo from the log; exit 8");
    speaks["terminationMessagePolicy"] = json!("FallbackToLogsOnError");
    let silent = shell("silent", "echo not asked for; exit 9");
    let mut absent = shell("absent", "");
    absent["command"] = json!(["/no/such/program"]);
    node.create(json!({ "containers": [well, elsewhere, speaks, silent, absent] })).await?;
    let pod = node.bench.until("the end", is_over).await?;
    assert_eq!(phase(&pod), "Failed");
    assert_eq!(end(&pod, "main"), (Some(0), "fine\n".to_owned()));
    assert_eq!(end(&pod, "elsewhere"), (Some(7), "found\n".to_owned()));
    assert_eq!(end(&pod, "speaks"), (Some(8), "from the log\n".to_owned()));
    assert_eq!(end(&pod, "silent"), (Some(9), String::new()));
    assert_eq!(end(&pod, "absent").0, Some(127));
    let mut codes: Vec<_> =
        node.kubelet.starts().into_iter().map(|s| (s.container, s.exit_code)).collect();
    codes.sort();
    assert_eq!(codes[1], ("elsewhere".to_owned(), Some(7)));
    Ok(())
}

#[tokio::test]
async fn a_process_knows_its_host_name_and_finds_it_in_its_hosts_file() -> Result<()> {
    let node = Node::new().await?;
    let main =
        shell("main", "{ echo $HOSTNAME; cat etc/hostname etc/hosts; } >dev/termination-log");
    node.create(json!({
        "hostname": "worker-3",
        "subdomain": "workers",
        "hostAliases": [{ "ip": "10.0.0.7", "hostnames": ["leader", "l"] }],
        "containers": [main],
    }))
    .await?;
    let pod = node.bench.until("the end", is_over).await?;
    let (code, said) = end(&pod, "main");
    assert_eq!(code, Some(0));
    assert!(said.starts_with("worker-3\nworker-3\n"), "{said}");
    let full = format!("worker-3.workers.{}.svc.cluster.local", node.bench.namespace);
    assert!(said.contains(&format!("127.0.0.1\t{full}\tworker-3\n")), "{said}");
    assert!(said.contains("10.0.0.7\tleader\tl\n"), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_process_has_the_files_of_its_volumes_and_its_words_are_filled_in() -> Result<()> {
    let node = Node::new().await?;
    let maps: Api<ConfigMap> = Api::namespaced(node.bench.client.clone(), &node.bench.namespace);
    let map = json!({ "metadata": { "name": "settings" }, "data": { "a": "1", "b": "2" } });
    let lines = "{ cat $0 etc/settings/only; echo \" $1 $NAME\"; } >dev/termination-log";
    let mut main = shell("main", lines);
    let more = ["/work/text", "$(NAME)-$(INDEX)-$$(NAME)-$(NOBODY)"];
    main["args"].as_array_mut().context("no words")?.extend(more.map(Into::into));
    let mount = |name: &str, path: &str| json!({ "name": name, "mountPath": path });
    main["volumeMounts"] = json!([mount("work", "/work"), mount("settings", "/etc/settings")]);
    let field = |path: &str| json!({ "fieldRef": { "fieldPath": path } });
    main["env"] = json!([
        { "name": "INDEX", "valueFrom": field("metadata.annotations['index']") },
        { "name": "NAME", "valueFrom": field("metadata.name") },
    ]);
    let items = json!([{ "key": "b", "path": "only" }]);
    node.create(json!({
        "initContainers": [shell("first", "echo text >work/text")],
        "containers": [main],
        "volumes": [
            { "name": "work", "emptyDir": {} },
            { "name": "settings", "configMap": { "name": "settings", "items": items } },
        ],
    }))
    .await?;
    let waits = |pod: &Pod| {
        let waiting = status(pod, "first").state.and_then(|state| state.waiting);
        waiting.and_then(|waiting| waiting.message).is_some_and(|m| m.contains("MountVolume"))
    };
    node.bench.until("a word of the missing volume", waits).await?;
    maps.create(&PostParams::default(), &serde_json::from_value(map)?).await?;
    let pod = node.bench.until("the end", is_over).await?;
    let said = "text\n2 pod-3-$(NAME)-$(NOBODY) pod\n";
    assert_eq!(end(&pod, "main"), (Some(0), said.to_owned()));
    Ok(())
}

/// The exec probe alone is played; a container without one is ready when it runs.
#[tokio::test]
async fn a_container_is_ready_when_its_probe_says_so() -> Result<()> {
    let node = Node::new().await?;
    let mut main = shell("main", "sleep 60");
    let command = ["sh", "-c", "[ -e work/ready ]"];
    main["readinessProbe"] = json!({ "exec": { "command": command }, "periodSeconds": 1 });
    node.create(json!({ "containers": [main, shell("other", "sleep 60")] })).await?;
    let pod = node.bench.until("the start", |pod| phase(pod) == "Running").await?;
    assert_eq!((status(&pod, "main").ready, status(&pod, "other").ready), (false, true));
    let not_ready = ("False".to_owned(), Some("ContainersNotReady".to_owned()));
    assert_eq!(condition(&pod, "Ready"), not_ready);
    let ready = node.work().await?.join("ready");
    std::fs::write(&ready, "")?;
    let pod = node.bench.until("it to be ready", |pod| status(pod, "main").ready).await?;
    assert_eq!(condition(&pod, "Ready").0, "True");
    std::fs::remove_file(&ready)?;
    node.bench.until("it to be ready no more", |pod| !status(pod, "main").ready).await?;
    node.bench.delete().await
}

#[tokio::test]
async fn what_is_in_no_image_plays_its_script_beside_a_process() -> Result<()> {
    let node = Node::scripted(Script::failure(3, "as told")).await?;
    let played = json!({ "name": "played", "image": "elsewhere" });
    let first = json!({ "name": "first", "image": "elsewhere" });
    let main = shell("main", "echo real >dev/termination-log");
    node.create(json!({ "initContainers": [first], "containers": [main, played] })).await?;
    let pod = node.bench.until("the end", is_over).await?;
    assert_eq!(phase(&pod), "Failed");
    assert_eq!(end(&pod, "first"), (Some(0), String::new()));
    assert_eq!(end(&pod, "main"), (Some(0), "real\n".to_owned()));
    assert_eq!(end(&pod, "played"), (Some(3), "as told".to_owned()));
    Ok(())
}
