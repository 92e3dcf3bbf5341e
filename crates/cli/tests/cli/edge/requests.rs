//! Devices ask to be let in, and people answer.

use anyhow::Result;
use flashjob_api::edge::EdgeDeviceSignedRequest;
use kube::Api;
use kube::api::{Patch, PatchParams};
use rexpect::session::spawn_command;
use serde_json::{Value, json};

use super::workloads::{apply, web};
use super::{EdgeCli, becomes, code};
use crate::site::PROGRAM;

const APPROVAL: &[&str] = &["--edge-auto-approval=false"];

#[tokio::test]
async fn who_is_approved_is_let_in_and_who_is_declined_is_refused() -> Result<()> {
    let site = EdgeCli::new().await?;
    let _operator = site.operator_with(APPROVAL, None).await?;
    let (one, two) = (site.new_box("edge1").await?, site.new_box("edge2").await?);
    for device in [&one, &two] {
        assert_eq!(code(async || device.enrol().await).await?, 200, "it waits");
    }
    let table = site.run(&["requests"]).await.well();
    let head = "DEVICE   TARGET NAMESPACE";
    assert!(table.starts_with(head) && table.lines().count() == 3, "{table}");

    let made = "edgedevicesignedrequest.management.project-flotta.io/edge1 approved\n";
    assert_eq!(site.run(&["approve", "EDGE1"]).await.well(), made, "agents write it as they like");
    becomes("edge1 to be let in", 208, async || one.enrol().await).await?;
    assert_eq!(code(async || one.register().await).await?, 200);
    assert_eq!(code(async || one.heartbeat().await).await?, 200);
    let again = site.run(&["approve", "edge1"]).await;
    assert!(again.err.contains("edge1: it is approved already") && again.out.is_empty());
    again.well();
    let late = site.run(&["decline", "edge1"]).await;
    assert!(late.err.contains("kubectl flashjob edge remove edge1 --decline"), "{late:#?}");
    assert_eq!(code(async || one.heartbeat().await).await?, 200, "it stays in");

    let path = format!("{}/edge2", site.namespace);
    site.run(&["decline", &path]).await.well();
    becomes("edge2 to be refused", 403, async || two.enrol().await).await?;
    let explained = site.run_at_home(&["explain", "edge2"]).await.well();
    assert!(explained.contains("declined: the device is refused"), "{explained}");
    assert!(site.run(&["requests", "-o", "json"]).await.well().contains("\"declined\""));
    site.run(&["approve", "edge2"]).await.well();
    becomes("edge2 to be let in after all", 208, async || two.enrol().await).await?;
    Ok(())
}

#[tokio::test]
async fn many_are_answered_by_label_or_all_at_once() -> Result<()> {
    let site = EdgeCli::new().await?;
    let _operator = site.operator_with(APPROVAL, None).await?;
    let mut boxes = Vec::new();
    for id in ["edge1", "edge2", "edge3", "edge4"] {
        let device = site.new_box(id).await?;
        assert_eq!(code(async || device.enrol().await).await?, 200);
        boxes.push(device);
    }
    let requests: Api<EdgeDeviceSignedRequest> = site.api();
    let label = Patch::Merge(json!({ "metadata": { "labels": { "batch": "7" } } }));
    requests.patch("edge1", &PatchParams::default(), &label).await?;
    assert_eq!(site.run(&["approve", "-l", "batch=7"]).await.well().lines().count(), 1);
    becomes("edge1 to be let in", 208, async || boxes[0].enrol().await).await?;

    site.run(&["approve"]).await.badly(2, "--all");
    site.run(&["approve", "edge1", "--all"]).await.badly(2, "cannot be used with");
    site.run(&["approve", "--all"]).await.badly(2, "add --yes");
    site.run(&["decline", "nobody"]).await.badly(1, "there is no EdgeDeviceSignedRequest nobody");
    site.run(&["decline", "no/such/name"]).await.badly(1, "has to be a Kubernetes name");
    let some = site.run(&["decline", "edge2", "nobody"]).await;
    assert!(some.out.contains("edge2 declined"), "{some:#?}");
    some.badly(1, "1 of 2 could not be done");
    becomes("edge2 to be refused", 403, async || boxes[1].enrol().await).await?;

    let all = site.run(&["approve", "--all", "--yes"]).await.well();
    assert_eq!(all.lines().count(), 2, "those that wait, and not who was declined: {all}");
    for device in &boxes[2..] {
        becomes("the others to be let in", 208, async || device.enrol().await).await?;
    }
    assert_eq!(code(async || boxes[1].enrol().await).await?, 403);
    let none = site.run(&["approve", "--all", "--yes"]).await;
    assert!(none.err.contains("No device waits."), "{none:#?}");
    Ok(())
}

#[tokio::test]
async fn on_a_terminal_it_asks_before_it_lets_all_of_them_in() -> Result<()> {
    let site = EdgeCli::new().await?;
    let _operator = site.operator_with(APPROVAL, None).await?;
    let device = site.new_box("edge1").await?;
    assert_eq!(code(async || device.enrol().await).await?, 200);
    for (answer, words) in [("n", "Nothing was changed."), ("y", "edge1 approved")] {
        let (kubeconfig, namespace) = (site.kubeconfig.clone(), site.namespace.clone());
        tokio::task::spawn_blocking(move || -> Result<()> {
            let mut command = std::process::Command::new(PROGRAM);
            command.args(["edge", "approve", "--all", "-n", &namespace]);
            command.env("KUBECONFIG", kubeconfig).env("TERM", "xterm");
            let mut terminal = spawn_command(command, Some(60_000))?;
            terminal.exp_string("Let in 1 device: edge1? (y/n): ")?;
            terminal.send_line(answer)?;
            terminal.exp_string(words)?;
            terminal.exp_eof()?;
            Ok(())
        })
        .await??;
    }
    becomes("edge1 to be let in", 208, async || device.enrol().await).await
}

#[tokio::test]
async fn devices_are_listed_watched_and_completed() -> Result<()> {
    let site = EdgeCli::new().await?;
    let _operator = site.operator().await?;
    let none = site.run(&["devices"]).await;
    assert!(none.err.contains("No devices found.") && none.out.is_empty(), "{none:#?}");
    site.registered("edge1", flashjob_sim::edge::Manner::Ours).await?;
    let table = site.run(&["devices"]).await.well();
    assert!(table.contains("edge1") && table.contains("364d"), "{table}");
    let json: Value = serde_json::from_str(&site.run(&["devices", "-o", "json"]).await.well())?;
    assert_eq!(json["devices"][0]["certificate"]["key"], "in use", "{json:#}");
    let label = Patch::Merge(json!({ "metadata": { "labels": { "floor": "2" } } }));
    site.devices().patch("edge1", &PatchParams::default(), &label).await?;
    let path = format!("{}/edge1\n", site.namespace);
    assert_eq!(site.run(&["devices", "-l", "floor=2", "-o", "name"]).await.well(), path);
    assert_eq!(site.run(&["devices", "-l", "floor=3", "-o", "name"]).await.well(), "");
    site.run(&["devices", "-l", "a b"]).await.badly(1, "cannot list EdgeDevices");

    let comes = async || {
        site.registered("edge2", flashjob_sim::edge::Manner::Ours).await?;
        Ok(())
    };
    site.watched("devices", "/edge1", comes, "/edge2").await?;
    Ok(())
}

#[tokio::test]
async fn requests_and_workloads_are_watched_and_names_are_completed_wherever_one_is_asked_for()
-> Result<()> {
    let site = EdgeCli::new().await?;
    let _operator = site.operator_with(APPROVAL, None).await?;
    let (one, two) = (site.new_box("edge1").await?, site.new_box("edge2").await?);
    assert_eq!(code(async || one.enrol().await).await?, 200);
    let asks = async || {
        assert_eq!(code(async || two.enrol().await).await?, 200);
        Ok(())
    };
    site.watched("requests", "/edge1", asks, "/edge2").await?;
    site.run(&["approve", "edge1"]).await.well();
    becomes("edge1 to be let in", 208, async || one.enrol().await).await?;
    assert_eq!(code(async || one.register().await).await?, 200);
    apply(&site, &web("EdgeWorkload", "web", json!({}))).await?;
    let made = async || apply(&site, &web("EdgeDeployment", "log", json!({}))).await;
    site.watched("workloads", "/web", made, "/log").await?;

    for (words, offered) in [
        (["approve", ""], "edge1\nedge2\n:4\n"),
        (["decline", "edge2"], "edge2\n:4\n"),
        (["render", ""], "edge1\n:4\n"),
        (["reset", ""], "edge1\n:4\n"),
        (["remove", "edge"], "edge1\n:4\n"),
        (["status", ""], "log\nweb\n:4\n"),
        (["explain", ""], "edge1\nlog\nweb\n:4\n"),
        (["plan", ""], ":4\n"),
        (["ca", "re"], "retire\n:4\n"),
    ] {
        assert_eq!(site.completed(&words).await, offered, "{words:?}");
    }
    Ok(())
}
