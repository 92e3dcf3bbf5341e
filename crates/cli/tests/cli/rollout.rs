//! Following and steering a rollout.

use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::Phase;
use flashjob_sim::node::Script;
use rexpect::session::spawn_command;

use crate::site::{CliSite, PROGRAM};

const FIRMWARE: &str = "--firmware=registry.example/thermo:0.2.0";

fn slow() -> Script {
    // Long enough for a status that says so: there is one a second, and the machine may be busy.
    Script::success("").run_for(Duration::from_millis(2500))
}

#[tokio::test]
async fn a_rollout_is_followed_in_lines_to_its_end() -> Result<()> {
    let site = CliSite::new(|_| slow()).await?;
    site.boards(3).await?;
    let _operator = site.operator()?;
    let ended = site
        .run(&["flash", "--device=esp32", FIRMWARE, "--name=a", "--batch-size=2", "--wait"])
        .await;
    assert!(
        ended.err.contains("  Flashing\n") && ended.err.contains("  Succeeded\n"),
        "{ended:#?}"
    );
    assert!(ended.err.contains("Completed: 3 of 3 devices done"), "{ended:#?}");
    assert!(!ended.err.contains('\u{1b}'), "no colours and no cursor: {ended:#?}");
    ended.well();
    let picture = site.run(&["rollout", "status", "a"]).await.well();
    assert!(picture.contains("batch 1   [####################]  2 of 2\n"), "{picture}");
    assert!(picture.contains("batch 2   [####################]  1 of 1\n"), "{picture}");
    let history = site.run(&["rollout", "history", "a"]).await.well();
    assert!(history.starts_with("VERSION   FIRMWARE"), "{history}");
    assert!(history.contains("0.2.0     registry.example/thermo:0.2.0"), "{history}");
    let json = site.run(&["rollout", "history", "a", "-o", "json"]).await.well();
    let json: serde_json::Value = serde_json::from_str(&json)?;
    assert_eq!(
        (&json["rollouts"][0]["done"], &json["rollouts"][0]["total"]),
        (&3.into(), &3.into())
    );
    Ok(())
}

#[tokio::test]
async fn failures_end_with_their_own_code_and_can_be_tried_again() -> Result<()> {
    let site = CliSite::new(|pod| {
        let first = pod.metadata.name.as_deref().is_some_and(|name| name.ends_with("-1"));
        if first {
            Script::failure(
                1,
                r#"{"result":"Failed","reason":"WrongPlatform","message":"not for it"}"#,
            )
        } else {
            Script::success("")
        }
    })
    .await?;
    site.boards(1).await?;
    let _operator = site.operator()?;
    let ended = site.run(&["flash", "--device=esp32", FIRMWARE, "--name=b", "--wait"]).await;
    assert!(ended.err.contains("Failed: WrongPlatform: not for it"), "{ended:#?}");
    ended.badly(3, "kubectl flashjob explain b");
    let words = site.run(&["explain", "b"]).await.well();
    assert!(
        words.contains("WrongPlatform, tried once: not for it\n  What to do: check spec.firmware"),
        "{words}"
    );
    assert!(words.contains("kubectl flashjob rollout retry b"), "{words}");
    let out = site.run(&["rollout", "retry", "b"]).await.well();
    assert_eq!(out, "flashjob.application.flashjob.nbfc.io/b retried\n");
    let ended = site.run(&["rollout", "status", "b", "--wait"]).await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    let words = site.run(&["explain", "b"]).await.well();
    assert!(words.contains("Every device is done."), "{words}");
    let nothing = site.run(&["rollout", "retry", "b"]).await;
    assert!(nothing.err.contains("no device has failed") && nothing.out.is_empty(), "{nothing:#?}");
    Ok(())
}

#[tokio::test]
async fn waiting_ends_in_time_and_the_rollout_goes_on() -> Result<()> {
    let site = CliSite::new(|_| slow()).await?;
    site.boards(2).await?;
    let _operator = site.operator()?;
    let args = ["flash", "--device=esp32", FIRMWARE, "--name=c", "--batch-size=1", "--delay=1h"];
    let mut waiting = args.to_vec();
    waiting.extend(["--wait", "--timeout=3"]);
    site.run(&waiting)
        .await
        .badly(4, "The rollout goes on; see: kubectl flashjob rollout status c");
    site.run(&["rollout", "status", "c"]).await.well();
    let out = site.run(&["rollout", "pause", "c"]).await.well();
    assert_eq!(out, "flashjob.application.flashjob.nbfc.io/c paused\n");
    site.phase("c", Phase::Suspended).await?;
    let words = site.run(&["explain", "c"]).await.well();
    assert!(words.contains("to go on: kubectl flashjob rollout resume c -n"), "{words}");
    let again = site.run(&["rollout", "pause", "c"]).await;
    assert!(again.err.contains("it is held already"), "{again:#?}");
    site.run(&["rollout", "resume", "c"]).await.well();
    site.phase("c", Phase::InProgress).await?;
    site.run(&["rollout", "abort", "c"]).await.well();
    site.phase("c", Phase::Failed).await?;
    let ended = site.run(&["rollout", "status", "c", "--wait"]).await;
    ended.badly(3, "ended by spec.abort");
    site.run(&["rollout", "resume", "c"]).await.well();
    site.phase("c", Phase::InProgress).await?;
    Ok(())
}

#[tokio::test]
async fn ctrl_c_leaves_the_rollout_running_and_says_so() -> Result<()> {
    let site = CliSite::new(|_| slow()).await?;
    site.boards(3).await?;
    let _operator = site.operator()?;
    let (kubeconfig, namespace) = (site.kubeconfig.clone(), site.namespace.clone());
    tokio::task::spawn_blocking(move || -> Result<()> {
        let mut command = std::process::Command::new(PROGRAM);
        command.args([
            "flash",
            "--device=esp32",
            FIRMWARE,
            "--name=d",
            "--batch-size=1",
            "--wait",
            "-n",
        ]);
        command.arg(namespace);
        command.env("KUBECONFIG", kubeconfig).env("TERM", "xterm");
        let mut terminal = spawn_command(command, Some(60_000))?;
        terminal.exp_string("batch 1   [....................]  0 of 1")?;
        terminal.exp_string("Flashing")?;
        terminal.send_control('c')?;
        terminal.exp_string(
            "Interrupted. The rollout goes on; see: kubectl flashjob rollout status d",
        )?;
        terminal.exp_eof()?;
        let status = terminal.process().wait()?;
        anyhow::ensure!(format!("{status:?}").contains("130"), "{status:?}");
        Ok(())
    })
    .await??;
    let status = site.phase("d", Phase::Completed).await?;
    assert_eq!(status.completed_uuids.len(), 3);
    Ok(())
}
