//! The documented conversation, answer by answer, on a terminal, to boards that say themselves what they run.

use anyhow::{Context, Result};
use flashjob_sim::flashjob::Site;
use flashjob_sim::flashjob::site::{Account, SiteOptions};
use flashjob_sim::node::Script;
use kube::ResourceExt;
use rexpect::session::{PtySession, spawn_command};

use crate::site::{CliSite, PROGRAM, run};

/// Waits for a question and answers it.
fn answer(terminal: &mut PtySession, question: &str, answer: &str) -> Result<()> {
    terminal.exp_string(question).with_context(|| format!("no {question:?}"))?;
    terminal.send_line(answer)?;
    Ok(())
}

#[tokio::test]
async fn devices_are_searched_and_ticked_in_a_list() -> Result<()> {
    let site = CliSite::new(|_| Script::success("")).await?;
    site.boards(2).await?;
    let lamp = site.akri.discover(&site.address(50), "esp32c3", "lamp", "0.1.0").await?;
    let (kubeconfig, namespace) = (site.kubeconfig.clone(), site.namespace.clone());
    tokio::task::spawn_blocking(move || -> Result<()> {
        let mut command = std::process::Command::new(PROGRAM);
        command.args([
            "flash",
            "--pick",
            "--name=picked",
            "--batch-size=1",
            "--delay=0",
            "-n",
            &namespace,
        ]);
        command.env("KUBECONFIG", kubeconfig).env("TERM", "xterm");
        let mut terminal = spawn_command(command, Some(60_000))?;
        terminal.exp_string("Which devices?")?;
        terminal.send("lamp")?;
        terminal.flush()?;
        terminal.exp_string("Which devices? lamp")?;
        terminal.send(" ")?;
        terminal.send("\r")?;
        terminal.flush()?;
        answer(&mut terminal, "Enter the firmware to use: ", "registry.example/lamp:1.0")?;
        answer(&mut terminal, "Enter the version the firmware reports [1.0]: ", "")?;
        answer(&mut terminal, "Enter the flashjobPodImage to use [", "")?;
        terminal.exp_string("flashjob.application.flashjob.nbfc.io/picked created")?;
        terminal.exp_eof()?;
        Ok(())
    })
    .await??;
    let spec = site.jobs().get("picked").await?.spec;
    assert_eq!(spec.uuid, Some(vec![format!("{}/{}", site.namespace, lamp.name_any())]));
    Ok(())
}

#[tokio::test]
async fn the_documented_conversation_ends_with_flashed_boards() -> Result<()> {
    let options = SiteOptions::new(4, &["esp32s2", "esp32c3"]).await?;
    let site = Site::with_boards(options, &|_| ()).await?;
    let _operator = site.operator()?;
    let firmware = site.field.push_firmware("0.2.0").await?;
    let kubeconfig = site.kubeconfig.clone();
    let boards = site.instances().await?;
    let first = boards.iter().find(|b| b.spec.broker_properties["DEVICE"] == "esp32s2");
    let first = first.and_then(|b| b.metadata.uid.clone()).context("no board")?;
    let (to, image) = (kubeconfig.clone(), firmware.clone());
    tokio::task::spawn_blocking(move || -> Result<()> {
        let mut command = std::process::Command::new(PROGRAM);
        command.args(["flash", "--name=talk", "--wait"]).env("KUBECONFIG", to).env("TERM", "xterm");
        let mut terminal = spawn_command(command, Some(90_000))?;
        answer(&mut terminal, "Enter device type to filter (or press Enter to skip): ", "esp8266")?;
        answer(&mut terminal, "Enter application type to filter (or press Enter to skip): ", "")?;
        answer(&mut terminal, "Enter UUID to filter (or press Enter to skip): ", "")?;
        terminal.exp_string("No instances found matching the criteria.")?;
        answer(&mut terminal, "Enter device type to filter (or press Enter to skip): ", "ESP32S2")?;
        answer(&mut terminal, "Enter application type to filter (or press Enter to skip): ", "")?;
        answer(&mut terminal, "Enter UUID to filter (or press Enter to skip): ", "")?;
        terminal.exp_string("Available Akri Instances:")?;
        terminal.exp_string(&format!("[0] UUID: {first}, Device Type: esp32s2"))?;
        terminal.exp_string("[1] UUID: ")?;
        answer(&mut terminal, "Do you want to select all UUIDs? (y/n): ", "n")?;
        let numbers = "Enter the numbers of the UUIDs you want to include (comma-separated): ";
        answer(&mut terminal, numbers, "7")?;
        terminal.exp_string("Write numbers from 0 to 1")?;
        answer(&mut terminal, numbers, "0,1")?;
        answer(&mut terminal, "Enter the firmware to use: ", &image)?;
        answer(&mut terminal, "Enter the version the firmware reports [0.2.0]: ", "")?;
        answer(&mut terminal, "Enter the flashjobPodImage to use [", "registry.example/flasher:1")?;
        answer(&mut terminal, "Enter the number of UUIDs per batch (default is 5): ", "1")?;
        answer(&mut terminal, "Enter the delay between batches in seconds (default is 60): ", "1")?;
        terminal.exp_string("2 devices in 2 batches: 2 to flash.")?;
        terminal.exp_string("flashjob.application.flashjob.nbfc.io/talk created")?;
        terminal.exp_string("batch 2   [....................]  0 of 1")?;
        terminal.exp_string("talk  Completed: 2 of 2 devices done")?;
        terminal.exp_eof()?;
        let status = terminal.process().wait()?;
        anyhow::ensure!(format!("{status:?}").contains(", 0)"), "{status:?}");
        Ok(())
    })
    .await??;
    let status = site.status_now("talk").await?;
    let account = Account::take(&site, &status, "0.2.0");
    let runs = account.entries.iter().filter(|entry| entry.runs == "0.2.0").count();
    assert_eq!(runs, 2, "what the boards themselves say");

    // What a flash Pod says can be followed.
    let args =
        ["flash", "--device=esp32c3", "--version=0.2.0", "--name=heard", "--firmware", &firmware];
    let cli = |args: &[&str]| {
        let mut command = std::process::Command::new(PROGRAM);
        command.args(args).env("KUBECONFIG", &kubeconfig);
        command
    };
    let image = "--image=registry.example/flasher:1";
    let made = cli(&[args.as_slice(), &[image]].concat());
    tokio::task::spawn_blocking(move || run(made, "")).await?.well();
    let follow = cli(&["logs", "heard", "-f"]);
    let said = tokio::task::spawn_blocking(move || run(follow, "")).await?.well();
    let two = said.lines().filter(|line| line.contains("restart")).count();
    assert!(two >= 2 && said.lines().all(|line| line.starts_with('[')), "{said}");
    Ok(())
}
