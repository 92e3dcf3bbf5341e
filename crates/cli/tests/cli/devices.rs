//! `devices`: what there is, in every form, and how long many of them take.

use std::time::{Duration, Instant};

use anyhow::Result;
use flashjob_api::flashjob::{DeviceState, Phase};
use flashjob_sim::flashjob::Akri;
use flashjob_sim::node::Script;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::site::{CliSite, PROGRAM};

fn script(pod: &Pod) -> Script {
    let env = pod.spec.iter().flat_map(|s| &s.containers).flat_map(|c| c.env.iter().flatten());
    let mut endpoint = env.filter(|e| e.name == "HOST_ENDPOINT").filter_map(|e| e.value.as_deref());
    match endpoint.next() {
        Some(address) if address.ends_with(".1") => Script::failure(
            1,
            r#"{"result":"Failed","reason":"WrongPlatform","message":"not for it"}"#,
        ),
        _ => Script::success(""),
    }
}

#[tokio::test]
async fn devices_are_filtered_and_say_what_became_of_them() -> Result<()> {
    let site = CliSite::new(script).await?;
    let boards = site.boards(2).await?;
    let other = site.akri.discover(&site.address(99), "ESP32-C3", "lamp", "0.3.0").await?;
    let n = site.namespace.clone();
    let names = async |args: &[&str]| {
        let mut all = vec!["devices", "-n", &n, "-o", "name"];
        all.extend(args);
        let ended = site.run(&all).await;
        ended
            .well()
            .lines()
            .map(|l| l.rsplit('/').next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    let mut two: Vec<String> = boards.iter().map(ResourceExt::name_any).collect();
    two.sort();
    assert_eq!(names(&["--device", "esp32"]).await, two);
    assert_eq!(names(&["--version", "<0.2.0"]).await, two);
    assert_eq!(names(&["--device", "esp32c3"]).await, [other.name_any()]);
    assert_eq!(names(&["--app", "LAMP"]).await, [other.name_any()]);
    assert_eq!(names(&["--uuid", &other.uid().unwrap_or_default()]).await, [other.name_any()]);
    assert_eq!(names(&["--app", "lamp", "--device", "esp32"]).await, [""; 0]);
    assert_eq!(names(&[]).await.len(), 3);

    // One succeeds and is found again under another uid, one fails.
    let _operator = site.operator()?;
    let made = site.run(&["flash", "--device=esp32", "--firmware=r.example/thermo:0.2.0"]).await;
    made.well();
    site.phase("thermo-0.2.0", Phase::Failed).await?;
    site.akri.lose(&boards[0]).await?;
    site.akri.discover(&site.address(0), "esp32", "thermo", "0.2.0").await?;
    let out = site.run(&["devices", "-n", &n, "-o", "json"]).await.well();
    let json: Value = serde_json::from_str(&out)?;
    let of = |name: &str| {
        let devices = json["devices"].as_array().unwrap();
        devices.iter().find(|d| d["name"] == name).unwrap().clone()
    };
    let (good, bad) = (of(&boards[0].name_any()), of(&boards[1].name_any()));
    assert_eq!(good["lastResult"]["result"], "Succeeded", "{json:#}");
    assert_eq!(good["lastResult"]["job"], format!("{n}/thermo-0.2.0"));
    assert_eq!(bad["lastResult"]["reason"], "WrongPlatform", "{json:#}");
    assert!(of(&other.name_any()).get("lastResult").is_none());
    let table = site.run(&["devices", "-n", &n]).await.well();
    assert!(
        table.contains("Succeeded 0.2.0, ") && table.contains("Failed WrongPlatform 0.2.0"),
        "{table}"
    );
    let wide = site.run(&["devices", "-n", &n, "-o", "wide"]).await.well();
    assert!(wide.contains(&site.address(1)), "{wide}");
    Ok(())
}

#[tokio::test]
async fn a_board_that_restarts_while_it_is_flashed_stays_in_the_list() -> Result<()> {
    let site = CliSite::new(|_| Script::success("").run_for(Duration::from_secs(10))).await?;
    let boards = site.boards(1).await?;
    let _operator = site.operator()?;
    let firmware = "--firmware=registry.example/thermo:0.2.0";
    site.run(&["flash", "--device=esp32", firmware, "--name=one"]).await.well();
    site.status("one", "it to be flashed", |s| {
        s.in_flight.iter().any(|d| d.state == DeviceState::Flashing)
    })
    .await?;
    site.akri.lose(&boards[0]).await?;
    let out = site.run(&["devices"]).await.well();
    let line = out.lines().find(|line| line.contains(&boards[0].name_any())).unwrap_or_default();
    assert!(line.contains(&format!("{}/one (Flashing)", site.namespace)), "{out}");
    let out = site.run(&["devices", "--device=esp32", "-o=name"]).await.well();
    assert_eq!(out, "", "what it is cannot be told now");
    Ok(())
}

#[tokio::test]
async fn a_change_is_printed_when_it_comes() -> Result<()> {
    let site = CliSite::new(|_| Script::success("")).await?;
    let (kubeconfig, namespace) = (site.kubeconfig.clone(), site.namespace.clone());
    site.boards(1).await?;
    let (first, listed) = tokio::sync::oneshot::channel();
    let watching = tokio::task::spawn_blocking(move || -> Result<()> {
        let mut command = std::process::Command::new(PROGRAM);
        command
            .args(["devices", "--watch", "-o", "name", "-n", &namespace])
            .env("KUBECONFIG", kubeconfig);
        let mut terminal = rexpect::session::spawn_command(command, Some(60_000))?;
        terminal.exp_string("http-disc-")?;
        let _ = first.send(());
        terminal.exp_string("http-disc-")?;
        terminal.send_control('c')?;
        terminal.exp_eof()?;
        Ok(())
    });
    listed.await?;
    site.akri.discover(&site.address(7), "esp32", "thermo", "0.1.0").await?;
    watching.await?
}

#[tokio::test]
async fn labels_choose_devices_too() -> Result<()> {
    let site = CliSite::new(|_| Script::success("")).await?;
    let boards = site.boards(2).await?;
    let api = site.api::<flashjob_api::flashjob::instance::Instance>();
    let label = Patch::Merge(json!({ "metadata": { "labels": { "floor": "2" } } }));
    api.patch(&boards[1].name_any(), &PatchParams::default(), &label).await?;
    let wanted = format!("{}/{}", site.namespace, boards[1].name_any());
    let out = site.run(&["devices", "-l", "floor=2", "-o", "name"]).await.well();
    assert_eq!(out.trim(), wanted);
    let firmware = "--firmware=registry.example/thermo:0.2.0";
    for command in [["flash", "--dry-run"], ["plan", "-o=table"]] {
        let args = [command[0], command[1], "--selector=floor in (2,3)", firmware];
        let out = site.run(&args).await.well();
        assert!(out.contains(&wanted) && out.lines().count() == 2, "{out}");
    }
    site.run(&["devices", "-l", "a b"]).await.badly(1, "cannot list");
    Ok(())
}

/// Five thousand, in pages. What the server takes for its pages is measured beside it; the rest is ours. No time is asserted:
/// the machine is shared. docs/cli.md has the figure.
#[tokio::test]
async fn five_thousand_devices_are_listed_in_pages() -> Result<()> {
    let site = CliSite::new(|_| Script::success("")).await?;
    let cluster = site.cluster.clone();
    let many = cluster.namespace("many").await?;
    let akri = Akri::new(cluster.client("akri")?, &many, "http-disc");
    let one = akri.discover("192.0.2.1", "esp32", "thermo", "0.1.0").await?;
    let api: kube::Api<flashjob_api::flashjob::instance::Instance> =
        kube::Api::namespaced(cluster.client("akri")?, &many);
    let (api, one) = (&api, &one);
    let make = futures::stream::iter(0..4_999).map(|n| async move {
        let name = format!("http-disc-{n:06}");
        let mut spec = serde_json::to_value(&one.spec)?;
        spec["brokerProperties"]["HOST_ENDPOINT"] = json!(format!("10.{}.{}.1", n / 250, n % 250));
        spec["brokerProperties"]["DEVICE"] = json!(if n % 2 == 0 { "esp32" } else { "esp32c3" });
        let object = json!({
            "apiVersion": "akri.sh/v0", "kind": "Instance", "metadata": { "name": &name }, "spec": spec,
        });
        let object = serde_json::from_value(object)?;
        api.create(&PostParams::default(), &object).await?;
        anyhow::Ok(())
    });
    let made: Vec<Result<()>> = make.buffer_unordered(16).collect().await;
    made.into_iter().collect::<Result<Vec<()>>>()?;

    let began = Instant::now();
    let mut params = ListParams::default().limit(500);
    let mut pages = 0;
    loop {
        let url = format!("/apis/akri.sh/v0/namespaces/{many}/instances?limit=500");
        let url = match &params.continue_token {
            Some(token) => format!("{url}&continue={token}"),
            None => url,
        };
        let text = site.client.request_text(http_get(&url)?).await?;
        pages += 1;
        let token = text.split("\"continue\":\"").nth(1).and_then(|rest| rest.split('"').next());
        match token.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(token),
            None => break,
        }
    }
    let server = began.elapsed();
    assert_eq!(pages, 10);
    let began = Instant::now();
    let out = site.run(&["devices", "-n", &many, "--device", "esp32"]).await.well();
    let all = began.elapsed();
    assert_eq!(out.lines().count(), 1 + 2_501);
    println!("5,000 devices: {all:?}, of which the server's pages {server:?}");
    let lists = cluster
        .audit()?
        .into_iter()
        .filter(|entry| entry.namespace.as_deref() == Some(many.as_str()) && entry.verb == "list");
    assert!(lists.count() >= 20, "in pages, too");
    Ok(())
}

fn http_get(url: &str) -> Result<http::Request<Vec<u8>>> {
    Ok(http::Request::get(url).body(Vec::new())?)
}
