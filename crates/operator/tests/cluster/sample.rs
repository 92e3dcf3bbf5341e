//! The documented sample, from `kubectl apply` to Completed, and what a person sees of it.

use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::{FlashJob, Phase};
use flashjob_sim::PATIENCE;
use flashjob_sim::cluster::Cluster;
use flashjob_sim::flashjob::{Site, uids};
use flashjob_sim::node::Script;
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::Value;

/// A flash that takes longer than the pause between two statuses, so that each of its states is seen.
const LONG_ENOUGH: Duration = Duration::from_secs(3);

const SAMPLE: &str = include_str!("../../../../config/samples/application_v1alpha1_flashjob.yaml");

#[tokio::test(flavor = "multi_thread")]
async fn two_boards_are_flashed_and_the_job_is_kept_as_a_record() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(LONG_ENOUGH)).await?;
    let boards = site.two_boards().await?;
    let _operator = site.operator()?;
    site.flash("flashjob", &boards).await?;

    let working = site.phase("flashjob", Phase::InProgress).await?;
    assert!(!working.in_flight.is_empty(), "{working:#?}");

    let done = site.phase("flashjob", Phase::Completed).await?;
    assert_eq!(done.done.as_deref(), Some("2/2"));
    let uids = uids(&boards);
    assert_eq!(done.completed_uuids, uids);
    assert_eq!(done.message.as_deref(), Some("2 of 2 devices done"));
    assert!(done.start_time.is_some() && done.completion_time.is_some());
    assert_eq!(done.observed_generation, Some(1));
    let counts = done.counts.unwrap();
    assert_eq!((counts.total, counts.succeeded), (2, 2));
    let conditions: Vec<String> =
        done.conditions.iter().map(|c| format!("{} {} {}", c.type_, c.status, c.reason)).collect();
    assert_eq!(
        conditions,
        [
            "Complete True Completed",
            "Failed False Completed",
            "Progressing False Completed",
            "Suspended False Completed",
            "Ready True Completed",
            "Reconciling False Completed",
            "Stalled False Completed",
        ]
    );
    assert!(done.conditions.iter().all(|c| c.observed_generation == Some(1)));

    site.cleaned_up().await?;
    assert_eq!(site.flashed(), ["192.0.2.11", "192.0.2.12"], "each board once");
    assert_eq!(site.balancer.in_use(), 0, "addresses are given back");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_flash_pod_gets_what_the_original_gives_it() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let board = site.board("192.0.2.11").await?;
    let _operator = site.operator()?;
    site.flash("one", std::slice::from_ref(&board)).await?;
    let done = site.phase("one", Phase::Completed).await?;
    assert_eq!(done.host_endpoint.as_deref(), Some("192.0.2.11"));

    let starts = site.kubelet.starts();
    let env = |name: &str| starts[0].env.get(name).cloned().unwrap_or_default();
    assert_eq!(env("FIRMWARE"), "registry.example/esp32:0.2.0");
    assert_eq!(env("UUID"), board.uid().unwrap());
    assert_eq!(env("HOST_ENDPOINT"), "192.0.2.11");
    assert_eq!(env("DEVICE"), "esp32");
    assert_eq!(env("APPLICATION_TYPE"), "thermo");
    assert_eq!(env("VERSION"), "0.2.0");
    assert!(!env("EXTERNAL_IP").is_empty());
    assert_eq!(env("ATTEMPT"), "1");
    assert_eq!(env("PREVIOUS_VERSION"), "0.1.0");
    assert_eq!((env("VERIFY"), env("VERSION_POLICY")), ("Version".into(), "Always".into()));
    assert!(!env("PERMIT").is_empty());
    Ok(())
}

/// The sample file as it is. Its devices are written as uids that an API server would have made up, so here they are the
/// names of two Instances: a device may be written either way.
#[tokio::test(flavor = "multi_thread")]
async fn the_documented_sample_applies_unchanged_and_completes() -> Result<()> {
    let cluster = Cluster::shared_installed().await?;
    let site = Site::on(cluster).namespace("default");
    let site = site.start(|_| Script::success("").run_for(LONG_ENOUGH)).await?;
    for (name, endpoint) in [
        ("d95c7c2d-7dc5-427b-9bf7-51a5d299c99e", "192.0.2.21"),
        ("44606d10-7c29-4098-9d6a-dc16f95090d1", "192.0.2.22"),
    ] {
        site.akri.discover_named(name, endpoint, "esp32", "thermo", "0.1.0").await?;
    }
    let operator = site.operator()?;
    operator.has_listed("instances", PATIENCE).await?;
    cluster.apply_yaml(SAMPLE).await?;
    let done = site.phase("flashjob", Phase::Completed).await?;
    assert_eq!(done.completed_uuids[0], "d95c7c2d-7dc5-427b-9bf7-51a5d299c99e");

    let job = site.jobs().get("flashjob").await?;
    assert_eq!(job.spec.host_endpoint, None);
    assert_eq!(columns(&site).await?, ["flashjob", "Completed", "2/2", "0", "0.2.0"]);
    assert_eq!(
        events(&site, &job).await?,
        ["Normal Starting", "Normal Flashing", "Normal Completed"]
    );
    Ok(())
}

/// The row `kubectl get flashjobs` prints, without the age.
async fn columns(site: &Site) -> Result<Vec<String>> {
    let path = format!(
        "/apis/application.flashjob.nbfc.io/v1alpha1/namespaces/{}/flashjobs",
        site.namespace
    );
    let request = http::Request::get(path)
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Vec::new())?;
    let table: Value = site.client.request(request).await?;
    let names: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|c| c["name"].as_str())
        .collect();
    assert_eq!(names, ["Name", "Phase", "Done", "Failed", "Version", "Age"]);
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    Ok(cells[..5].iter().map(|c| c.to_string().trim_matches('"').to_owned()).collect())
}

async fn events(site: &Site, job: &FlashJob) -> Result<Vec<String>> {
    let events = site.api::<Event>();
    let uid = job.uid();
    flashjob_sim::eventually("three events", PATIENCE, async || {
        let mut items = events.list(&ListParams::default()).await?.items;
        items.retain(|e| e.regarding.as_ref().and_then(|r| r.uid.clone()) == uid);
        items.sort_by_key(|e| e.event_time.as_ref().map(|t| t.0));
        let words = |e: &Event| {
            let word = |w: &Option<String>| w.clone().unwrap_or_default();
            format!("{} {}", word(&e.type_), word(&e.reason))
        };
        let seen: Vec<String> = items.iter().map(words).collect();
        Ok((seen.len() >= 3).then_some(seen))
    })
    .await
}
