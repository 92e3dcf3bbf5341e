//! What happens on devices, as events of Kubernetes.

use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_sim::edge::Manner;
use flashjob_sim::edge::site::{EdgeSite, patiently};
use flashjob_sim::http::{free_address, get};
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use tokio::time::{Instant, sleep};

/// Type, reason and note of the events of a device.
async fn events(site: &EdgeSite, device: &str) -> Result<Vec<(String, String, String)>> {
    let events: Api<Event> = site.api();
    let all = events.list(&ListParams::default()).await?.items;
    let regards = |event: &Event| {
        let regarding = event.regarding.as_ref();
        regarding.is_some_and(|of| {
            of.kind.as_deref() == Some("EdgeDevice") && of.name.as_deref() == Some(device)
        })
    };
    let text = |text: Option<String>| text.unwrap_or_default();
    let said = |event: Event| (text(event.type_), text(event.reason), text(event.note));
    let mut said: Vec<_> = all.into_iter().filter(regards).map(said).collect();
    said.sort();
    Ok(said)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_on_a_device_is_an_event_and_too_much_of_it_is_a_number() -> Result<()> {
    let site = EdgeSite::new().await?;
    let metrics = free_address().await?;
    let flag = format!("--metrics-bind-address={metrics}");
    let operator = site.operator_with(&[&flag], None).await?;
    let ours = site.registered("ours", Manner::Ours).await?;
    let theirs = site.registered("theirs", Manner::Flotta).await?;
    let event =
        |type_: &str, reason: &str, note: &str| [type_, reason, note].map(str::to_owned).into();
    let wanted: [(String, String, String); 3] = [
        event("Normal", "ImagePulled", "nginx:1"),
        event("Warning", "Failed", "no such image"),
        event("Warning", "Failed", "no such volume"),
    ];
    for device in [&ours, &theirs] {
        device.say_event("Failed", "no such image", "warn");
        device.say_event("Failed", "no such\tvolume", "warn");
        device.say_event("image pulled", "nginx:1", "info");
        assert_eq!(device.heartbeat().await?.code(), 200);
        // It has been heard: they are not said again.
        assert_eq!(device.heartbeat().await?.code(), 200);
        eventually("its events", PATIENCE, async || {
            Ok((events(&site, device.id()).await? == wanted).then_some(()))
        })
        .await
        .with_context(|| operator.log())?;
    }

    // All devices together have had six of the ten that may come at once, and have one more in a second.
    sleep(Duration::from_secs(7)).await;
    for number in 0..14 {
        ours.say_event("Restarted", &format!("for the {number}th time"), "");
    }
    assert_eq!(ours.heartbeat().await?.code(), 200);
    eventually("ten of its events", PATIENCE, async || {
        Ok((events(&site, "ours").await?.len() == 10).then_some(()))
    })
    .await?;
    let (_, text) = get(metrics, "/metrics").await?;
    assert!(text.contains("edge_events_dropped_total 7\n"), "{text}");
    sleep(Duration::from_secs(2)).await;
    assert_eq!(events(&site, "ours").await?.len(), 10);
    Ok(())
}

/// All devices together have ten at once, and one more in a second.
#[tokio::test(flavor = "multi_thread")]
async fn many_devices_that_have_much_to_say_share_one_event_a_second() -> Result<()> {
    const DEVICES: usize = 6;
    const EACH: usize = 9;
    let site = EdgeSite::new().await?;
    let metrics = free_address().await?;
    let operator =
        site.operator_with(&[&format!("--metrics-bind-address={metrics}")], None).await?;
    let mut devices = Vec::new();
    for number in 0..DEVICES {
        devices.push(site.registered(&format!("edge-{number}"), Manner::Ours).await?);
    }
    let began = Instant::now();
    for device in &devices {
        (0..EACH).for_each(|n| device.say_event("Restarted", &format!("for the {n}th time"), ""));
        assert_eq!(patiently(async || device.heartbeat().await).await?.code(), 200);
    }
    let dropped = async || {
        let (_, text) = get(metrics, "/metrics").await?;
        let count = text.lines().find_map(|line| line.strip_prefix("edge_events_dropped_total "));
        anyhow::Ok(count.and_then(|count| count.parse::<usize>().ok()).unwrap_or_default())
    };
    let count = async || {
        let mut all = 0;
        for device in &devices {
            all += events(&site, device.id()).await?.len();
        }
        anyhow::Ok(all)
    };
    let all = eventually("all of them to be written or counted", PATIENCE, async || {
        let all = count().await?;
        Ok((all + dropped().await? == DEVICES * EACH).then_some(all))
    })
    .await
    .with_context(|| operator.log())?;
    let most = 10 + usize::try_from(began.elapsed().as_secs())? + 1;
    assert!((10..=most).contains(&all), "{all} of at most {most}: {}", operator.log());
    assert!(most < DEVICES * EACH, "the machine was too slow for this test to say anything");
    Ok(())
}
