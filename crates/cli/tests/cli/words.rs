//! How it speaks: help, colours, pipes, completion, and errors that say what to do.

use std::process::{Command, Stdio};

use anyhow::Result;
use flashjob_sim::node::Script;
use serde_json::{Value, json};

use crate::site::{CliSite, PROGRAM, run};

fn without_cluster(args: &[&str]) -> crate::site::Ended {
    let mut command = Command::new(PROGRAM);
    command.args(args).env("KUBECONFIG", "/nowhere/config").env("HOME", "/nowhere");
    run(command, "")
}

#[test]
fn every_help_has_an_example_and_goes_to_standard_output() {
    for command in [
        "devices",
        "flash",
        "plan",
        "rollout",
        "logs",
        "explain",
        "check",
        "server-cert",
        "completion",
        "edge",
    ] {
        let ended = without_cluster(&[command, "--help"]);
        assert!(ended.out.contains(&format!("kubectl flashjob {command}")), "{ended:#?}");
        assert!(ended.out.contains("Examples:"), "{ended:#?}");
    }
    let help = without_cluster(&["--help"]);
    assert!(help.out.contains("Exit codes:") && help.code == 0, "{help:#?}");
    assert!(without_cluster(&["--version"]).out.starts_with("kubectl flashjob 0."));
}

#[test]
fn without_a_cluster_it_says_what_it_tried_and_what_to_do() {
    without_cluster(&["devices"]).badly(1, "kubectl config view");
    let ended = without_cluster(&["devices", "--kubeconfig", "/nowhere/else"]);
    ended.badly(1, "cannot read the kubeconfig /nowhere/else");
}

#[test]
fn completion_is_written_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let script = without_cluster(&["completion", shell]).well();
        assert!(script.contains("kubectl-flashjob") && script.contains("rollout"), "{script}");
    }
    without_cluster(&["completion", "csh"]).badly(2, "bash");
}

#[tokio::test]
async fn kubectl_is_told_what_may_come_next() -> Result<()> {
    let site = CliSite::new(|_| Script::success("")).await?;
    site.boards(1).await?;
    site.run(&["flash", "--device=esp32", "--firmware=r.example/thermo:1.0", "--name=first"])
        .await
        .well();
    let complete = async |words: &[&str]| {
        let mut args = vec!["__complete"];
        args.extend(words);
        site.run(&args).await.well()
    };
    assert_eq!(complete(&["ro"]).await, "rollout\n:4\n");
    assert_eq!(complete(&["rollout", "p"]).await, "pause\n:4\n");
    let n = site.namespace.as_str();
    assert_eq!(complete(&["rollout", "status", "-n", n, ""]).await, "first\n:4\n");
    assert_eq!(complete(&["explain", "-n", n, "x"]).await, ":4\n");
    assert_eq!(complete(&["devices", "--out"]).await, "--output\n:4\n");
    assert!(complete(&["devices", "-o", ""]).await.starts_with("table\nwide\njson\n"));
    assert_eq!(complete(&["plan", "-f", ""]).await, ":0\n");
    assert_eq!(complete(&["completion", "f"]).await, "fish\n:4\n");
    assert!(complete(&[]).await.contains("devices\n"));
    Ok(())
}

#[tokio::test]
async fn a_reader_that_has_gone_away_is_no_error() -> Result<()> {
    let site = CliSite::new(|_| Script::success("")).await?;
    site.boards(3).await?;
    let mut child = Command::new(PROGRAM)
        .args(["devices", "-o", "json"])
        .env("KUBECONFIG", &site.kubeconfig)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    drop(child.stdout.take());
    let output = tokio::task::spawn_blocking(move || child.wait_with_output()).await??;
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    Ok(())
}

#[tokio::test]
async fn a_user_without_rights_is_told_which_role_helps() -> Result<()> {
    let site = CliSite::new(|_| Script::success("")).await?;
    let token = site.cluster.token("nobody").unwrap_or_default().to_owned();
    let nobody = site.cluster.kubeconfig(&token, &site.namespace, None)?;
    site.run_as(&nobody, &["devices"], "").await.badly(1, "operator-flashjob-viewer-role");
    let stranger = site.cluster.kubeconfig("a-token-nobody-has", &site.namespace, None)?;
    site.run_as(&stranger, &["devices"], "").await.badly(1, "log in again");
    // Acting as somebody else is asked of the server.
    site.run(&["devices", "--as", "nobody"]).await.badly(1, "cannot list");
    Ok(())
}

#[test]
fn colours_are_for_terminals_whose_user_wants_them() -> Result<()> {
    for (no_color, coloured) in [("", true), ("1", false)] {
        let mut command = Command::new(PROGRAM);
        command
            .args(["devices", "--kubeconfig", "/nowhere"])
            .env("NO_COLOR", no_color)
            .env("TERM", "xterm");
        let mut terminal = rexpect::session::spawn_command(command, Some(30_000))?;
        let said = terminal.exp_eof()?;
        assert!(said.contains("cannot read the kubeconfig /nowhere"), "{said:?}");
        assert_eq!(said.contains("\u{1b}["), coloured, "{said:?}");
    }
    Ok(())
}

#[tokio::test]
async fn contexts_and_users_are_those_of_the_kubeconfig() -> Result<()> {
    let site = CliSite::new(|_| Script::success("")).await?;
    let mut config: Value = serde_saphyr::from_str(&std::fs::read_to_string(&site.kubeconfig)?)?;
    let nobody = site.cluster.token("nobody").unwrap_or_default();
    let users = config["users"].as_array_mut().unwrap();
    users.push(json!({ "name": "guest", "user": { "token": nobody } }));
    let mut elsewhere = config["contexts"][0].clone();
    elsewhere["name"] = json!("elsewhere");
    elsewhere["context"]["namespace"] = json!("another-namespace");
    config["contexts"].as_array_mut().unwrap().push(elsewhere);
    let file = site.kubeconfig.with_extension("contexts");
    std::fs::write(&file, config.to_string())?;
    let run = async |args: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(args).env("KUBECONFIG", &file);
        tokio::task::spawn_blocking(move || run(command, "")).await.unwrap()
    };
    let own = format!("no FlashJob x in namespace {}", site.namespace);
    run(&["explain", "x"]).await.badly(1, &own);
    let words = "no FlashJob x in namespace another-namespace";
    run(&["explain", "x", "--context", "elsewhere"]).await.badly(1, words);
    run(&["explain", "x", "--context", "elsewhere", "-n", &site.namespace]).await.badly(1, &own);
    run(&["explain", "x", "--user", "guest"]).await.badly(1, "ask for the role");
    run(&["explain", "x", "--context", "nowhere"]).await.badly(1, "kubectl config view");
    Ok(())
}

#[tokio::test]
async fn a_credential_plugin_is_asked() -> Result<()> {
    let site = CliSite::new(|_| Script::success("")).await?;
    let text = std::fs::read_to_string(&site.kubeconfig)?;
    let token = site.cluster.token("admin").unwrap_or_default();
    let mut config: Value = serde_saphyr::from_str(&text)?;
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": { "token": token },
    });
    config["users"][0]["user"] = json!({ "exec": {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "printf",
        "args": ["%s", credential.to_string()],
        "interactiveMode": "Never",
    } });
    let file = site.kubeconfig.with_extension("exec");
    std::fs::write(&file, config.to_string())?;
    site.run_as(&file, &["devices", "-o", "name"], "").await.well();
    Ok(())
}
