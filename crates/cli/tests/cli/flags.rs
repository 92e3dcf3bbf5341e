//! Without a terminal: everything comes from flags, and nobody is asked.

use anyhow::Result;
use flashjob_api::flashjob::Verify;
use flashjob_sim::node::Script;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use kube::api::{ListParams, PostParams};

use crate::site::CliSite;

const FIRMWARE: &str = "--firmware=registry.example/team/thermo:0.2.0";

async fn site() -> Result<CliSite> {
    CliSite::new(|_| Script::success("")).await
}

#[tokio::test]
async fn what_is_missing_is_named_and_nothing_hangs() -> Result<()> {
    let site = site().await?;
    site.boards(2).await?;
    site.run(&["flash"]).await.badly(2, "--device, --app, --uuid, --selector or --all");
    site.run(&["flash", "--pick"]).await.badly(2, "there is no terminal");
    site.run(&["flash", "--device=esp32"]).await.badly(2, "--firmware is missing");
    site.run(&["flash", "--device=esp32", "--firmware=r/x"]).await.badly(2, "--version is missing");
    site.run(&["flash", "--all", FIRMWARE]).await.badly(2, "--yes");
    site.run(&["flash", "--all", FIRMWARE, "--batch-size=no"]).await.badly(2, "percentage");
    site.run(&["flash", "--all", FIRMWARE, "--delay=soon"]).await.badly(2, "5m");
    site.run(&["flash", "--all", FIRMWARE, "--timeout=5m"]).await.badly(2, "--wait");
    site.run(&["flash", "--uuid=nobody", FIRMWARE]).await.badly(1, "there is no such device");
    site.run(&["flash", "--device=toaster", FIRMWARE]).await.badly(1, "no device fits");
    site.run(&["plan"]).await.badly(2, "say which devices");
    site.run(&["plan", "--all"]).await.badly(2, "--firmware is missing");
    site.run(&["plan", "-f", "/nowhere.yaml"]).await.badly(1, "cannot read /nowhere.yaml");
    site.run(&["plan", "--all", FIRMWARE, "--max-parallel=501"]).await.badly(1, "maxParallel");
    site.run(&["devices", "--version=newest"]).await.badly(2, "--version");
    site.run(&["rollout", "status", "nothing"]).await.badly(1, "there is no FlashJob nothing");
    site.run(&["explain"]).await.badly(2, "<NAME>");
    site.run(&[]).await.badly(2, "Usage");
    assert!(site.jobs().list(&ListParams::default()).await?.items.is_empty());
    Ok(())
}

#[tokio::test]
async fn flags_become_one_job_with_a_rollout_in_it() -> Result<()> {
    let site = site().await?;
    let boards = site.boards(3).await?;
    let others = site.akri.discover(&site.address(99), "esp32c3", "thermo", "0.1.0").await?;
    let uuid = format!("--uuid={},{}", boards[0].name_any(), boards[2].uid().unwrap_or_default());
    let more = [
        "flash",
        &uuid,
        FIRMWARE,
        "--version=0.2.1",
        "--image=registry.example/flasher:9",
        "--batch-size=25%",
        "--delay=5m",
        "--max-parallel=3",
        "--max-failures=1",
        "--verify=restart",
        "--name=mine",
    ];
    let ended = site.run(&more).await;
    assert!(ended.err.contains("2 devices in 2 batches: 2 to flash."), "{ended:#?}");
    assert_eq!(ended.well(), "flashjob.application.flashjob.nbfc.io/mine created\n");
    let spec = site.jobs().get("mine").await?.spec;
    let path = |n: usize| format!("{}/{}", site.namespace, boards[n].name_any());
    let mut wanted = vec![path(0), path(2)];
    wanted.sort();
    assert_eq!(spec.uuid, Some(wanted), "by name, which stays when Akri finds a device again");
    assert_eq!(spec.firmware, "registry.example/team/thermo:0.2.0");
    assert_eq!((spec.version.as_str(), spec.verify), ("0.2.1", Some(Verify::Restart)));
    assert_eq!(spec.flashjob_pod_image.as_deref(), Some("registry.example/flasher:9"));
    assert_eq!(spec.device.as_deref(), Some("esp32"), "no other board gets it");
    assert_eq!(spec.application_type.as_deref(), Some("thermo"));
    let rollout = spec.rollout.unwrap_or_default();
    assert_eq!(rollout.batch_size, Some(IntOrString::String("25%".into())));
    assert_eq!(rollout.max_failures, Some(IntOrString::Int(1)));
    assert_eq!((rollout.delay_seconds, rollout.max_parallel), (Some(300), Some(3)));

    // The name is there already: one that was asked for is an error, another is found.
    let again = ["flash", "--device=ESP-32", FIRMWARE, "--name=mine"];
    site.run(&again).await.badly(1, "there is a FlashJob mine");
    for name in ["thermo-0.2.0", "thermo-0.2.0-2"] {
        let made = site.run(&["flash", "--device=esp_32", FIRMWARE]).await.well();
        assert_eq!(made, format!("flashjob.application.flashjob.nbfc.io/{name} created\n"));
    }
    let all = site.run(&["flash", "--all", "--yes", FIRMWARE, "--name=all"]).await;
    assert!(all.err.contains("in 1 batch"), "{all:#?}");
    let spec = site.jobs().get("all").await?.spec;
    let device = format!("{}/{}", site.namespace, others.name_any());
    assert!(spec.uuid.unwrap_or_default().contains(&device));
    assert_eq!(spec.device, None, "boards of two types");
    Ok(())
}

#[tokio::test]
async fn a_saved_job_has_the_documented_shape_and_says_what_is_not_in_it() -> Result<()> {
    let site = site().await?;
    let board = site.akri.discover(&site.address(11), "esp32", "thermo", "0.1.0").await?;
    let folder = tempfile::tempdir()?;
    let (file, full) = (folder.path().join("job.yaml"), folder.path().join("full.yaml"));
    let save = format!("--save={}", file.display());
    let save_full = format!("--save-full={}", full.display());
    let uuid = format!("--uuid={}", board.name_any());
    let image = "--image=registry.example/flasher:1";
    let args = [
        "flash",
        &uuid,
        FIRMWARE,
        image,
        "--batch-size=5",
        "--delay=60",
        &save,
        &save_full,
        "--dry-run",
    ];
    let ended = site.run(&args).await;
    let left_out = "not in the file, because the original has no such fields: rollout.batchSize, rollout.delaySeconds";
    assert!(ended.err.contains(left_out), "{ended:#?}");
    assert!(ended.err.contains("Nothing was made"), "{ended:#?}");
    ended.well();
    assert!(site.jobs().list(&ListParams::default()).await?.items.is_empty(), "a dry run");
    let wanted = format!(
        "\
apiVersion: application.flashjob.nbfc.io/v1alpha1
kind: FlashJob
metadata:
  name: thermo-0.2.0
  namespace: {}
spec:
  applicationType: thermo
  device: esp32
  externalIP: null
  firmware: registry.example/team/thermo:0.2.0
  flashjobPodImage: registry.example/flasher:1
  hostEndpoint: null
  uuid:
  - {}
  version: \"0.2.0\"
",
        site.namespace,
        board.uid().unwrap_or_default(),
    );
    assert_eq!(std::fs::read_to_string(&file)?, wanted);
    // On standard output it is alone.
    let piped = ["flash", &uuid, FIRMWARE, "--save-full=-", "--dry-run"];
    let out = site.run(&piped).await.well();
    let _: flashjob_api::flashjob::FlashJob = serde_saphyr::from_str(&out)?;
    // Both are taken by the server.
    for (file, name) in [(file, "documented"), (full, "whole")] {
        let mut job: flashjob_api::flashjob::FlashJob =
            serde_saphyr::from_str(&std::fs::read_to_string(file)?)?;
        job.metadata.name = Some(name.to_owned());
        site.jobs().create(&PostParams::default(), &job).await?;
    }
    let whole = site.jobs().get("whole").await?.spec;
    assert_eq!(whole.rollout.unwrap_or_default().delay_seconds, Some(60));
    Ok(())
}

#[tokio::test]
async fn a_device_that_is_away_is_waited_for_when_it_is_named_in_full() -> Result<()> {
    let site = site().await?;
    let uuid = format!("--uuid={}/http-disc-away", site.namespace);
    let ended = site.run(&["flash", &uuid, FIRMWARE, "--dry-run"]).await;
    assert!(ended.err.contains("the job waits for it"), "{ended:#?}");
    let out = ended.well();
    assert!(out.contains("offline   no Akri Instance for this device now"), "{out}");
    Ok(())
}
