//! How boards reach their flash Pods where there is no load balancer, or not the one that was asked for.

use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_api::flashjob::{DeviceState, Phase};
use flashjob_sim::cluster::Cluster;
use flashjob_sim::flashjob::{Site, uids};
use flashjob_sim::node::Script;
use flashjob_sim::node::kubelet::NODE_IP;
use flashjob_sim::node::load_balancer::ADDRESS_POOL;
use flashjob_sim::{Operator, PATIENCE, clock, eventually};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

/// What the flash containers were told to tell their boards.
fn addresses(site: &Site) -> Vec<String> {
    let starts = site.kubelet.starts();
    starts.into_iter().filter_map(|start| start.env.get("EXTERNAL_IP").cloned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn boards_are_flashed_one_by_one_through_the_node_port_they_dial() -> Result<()> {
    let site = Site::new(|_| Script::success("").run_for(Duration::from_secs(1))).await?;
    let boards = site.boards(4).await?;
    let _operator = site.operator()?;
    let service = json!({ "type": "NodePort" });
    for (name, boards) in [("first", &boards[..2]), ("second", &boards[2..])] {
        site.flash_with(name, json!({ "uuid": uids(boards), "service": service })).await?;
    }
    let services = site.api::<Service>();
    let seen = eventually("a Service", PATIENCE, async || {
        Ok(services.list(&ListParams::default()).await?.items.into_iter().next())
    })
    .await?;
    let spec = seen.spec.unwrap_or_default();
    assert_eq!(spec.type_.as_deref(), Some("NodePort"));
    assert_eq!(spec.ports.unwrap_or_default()[0].node_port, Some(4433));
    for name in ["first", "second"] {
        let done = site.phase(name, Phase::Completed).await?;
        assert_eq!(done.done.as_deref(), Some("2/2"));
    }
    assert_eq!(site.flashed().len(), 4, "each once");
    assert_eq!(addresses(&site), [NODE_IP; 4], "its node's address");
    site.cleaned_up().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flash_in_the_nodes_network_has_to_be_allowed() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.two_boards().await?;
    let spec = json!({ "uuid": uids(&boards), "service": { "type": "None" } });
    {
        let _operator = site.operator()?;
        site.flash_with("flashjob", spec).await?;
        let what = "the job to be refused";
        let refused = site.status("flashjob", what, |s| s.phase == Some(Phase::Failed)).await?;
        let message = refused.message.unwrap_or_default();
        assert!(message.contains("--allow-host-network"), "{message}");
    }
    let _operator = site.operator_with(&["--allow-host-network"], None)?;
    site.phase("flashjob", Phase::Completed).await?;
    assert_eq!(addresses(&site), [NODE_IP; 2]);
    site.cleaned_up().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_a_load_balancer_goes_on_when_it_is_told_to_use_node_ports() -> Result<()> {
    let site = Site::new(|_| Script::default()).await?;
    site.balancer.withhold(None);
    let board = site.board("192.0.2.11").await?;
    let _operator = site.operator()?;
    site.flash("flashjob", std::slice::from_ref(&board)).await?;
    let waits = |s: &flashjob_api::flashjob::FlashJobStatus| {
        s.in_flight.iter().any(|f| f.state == DeviceState::Addressing)
    };
    site.status("flashjob", "the job to wait for an address", waits).await?;
    site.edit("flashjob", json!({ "service": { "type": "NodePort" } })).await?;
    site.phase("flashjob", Phase::Completed).await?;
    assert_eq!(site.flashed(), ["192.0.2.11"]);
    site.cleaned_up().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_may_ask_of_load_balancers_is_for_the_operators_flags_to_say() -> Result<()> {
    const NAMED: &str = "external-dns.alpha.kubernetes.io/hostname";
    const POOL: &str = "metallb.io/address-pool";
    let site = Site::new(|_| Script::default()).await?;
    let boards = site.boards(3).await?;
    let asks = |board: usize, service: serde_json::Value| json!({ "uuid": uids(&boards[board..=board]), "service": service });
    let services = site.api::<Service>();
    // Services that get no address stay to be looked at.
    site.balancer.withhold(None);
    let annotations = async || {
        let all = services.list(&ListParams::default()).await?.items;
        let all = all.into_iter().flat_map(|s| s.metadata.annotations.unwrap_or_default());
        anyhow::Ok(all.map(|(key, _)| key).collect::<Vec<_>>())
    };
    site.flash_with("pool", asks(0, json!({ "annotations": { POOL: "boards" } }))).await?;
    site.flash_with("named", asks(1, json!({ "annotations": { NAMED: "bank.example" } }))).await?;
    site.flash_with("public", asks(2, json!({ "loadBalancerClass": "public" }))).await?;
    let refused = async |name: &str, field: &str, flag: &str| -> Result<()> {
        let status = site.phase(name, Phase::Failed).await?;
        let message = status.message.unwrap_or_default();
        assert_eq!(status.conditions[1].reason, "InvalidSpec", "{message}");
        assert!(message.starts_with(field) && message.contains(flag), "{message}");
        Ok(())
    };
    let asked_for = async |key: &str| {
        let what = format!("a Service with {key}");
        eventually(&what, PATIENCE, async || {
            Ok(annotations().await?.iter().any(|k| k == key).then_some(()))
        })
        .await
    };
    {
        let _operator = site.operator()?;
        refused("named", &format!("spec.service.annotations[{NAMED}]"), "--service-annotations=")
            .await?;
        asked_for(POOL).await?;
        assert!(!annotations().await?.iter().any(|key| key == NAMED));
    }
    let flags = ["--service-annotations=external-dns.*", "--load-balancer-classes=inside"];
    let _operator = site.operator_with(&flags, None)?;
    refused("public", "spec.service.loadBalancerClass \"public\"", "--load-balancer-classes")
        .await?;
    refused("pool", &format!("spec.service.annotations[{POOL}]"), "--service-annotations=").await?;
    asked_for(NAMED).await?;
    site.balancer.resume();
    site.phase("named", Phase::Completed).await?;
    assert_eq!(site.flashed(), ["192.0.2.12"]);
    Ok(())
}

/// Waits until a Service in the namespace is so old that another one would make no sense.
async fn has_waited(site: &Site) -> Result<()> {
    let services = site.api::<Service>();
    eventually("a Service to have waited for 6 s", PATIENCE, async || {
        let listed = services.list(&ListParams::default()).await?;
        let created = listed.items.first().and_then(ResourceExt::creation_timestamp);
        let age = created.map(|created| clock::now().duration_since(created.0));
        Ok(age.filter(|age| age.as_secs() >= 6).map(drop))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_nobody_serves_holds_up_no_other_tenant_and_who_is_held_up_says_so()
-> Result<()> {
    let cluster = Cluster::installed().await?;
    let careless = Site::on(&cluster).namespace("careless").start(|_| Script::default()).await?;
    let careful = Site::on(&cluster).namespace("careful").start(|_| Script::default()).await?;
    let boards = careless.two_boards().await?;
    let other = careful.board("192.0.2.21").await?;
    let _operator = Operator::start(&cluster, &[]).await?;
    let typo = |board| {
        // API servers before 1.24 drop the class, so that any load balancer serves the Service; they keep the pool.
        let pool = json!({ ADDRESS_POOL: "typo" });
        let service = json!({ "loadBalancerClass": "example.com/typo", "annotations": pool });
        let day = json!({ "addressSeconds": 86400 });
        json!({ "uuid": uids(std::slice::from_ref(board)), "service": service, "timeouts": day })
    };
    careless.flash_with("first", typo(&boards[0])).await?;
    let what = "waiting for an address of load balancer class example.com/typo";
    let waits = careless.status("first", "what it waits for", |s| {
        s.in_flight.first().is_some_and(|device| device.message.as_deref() == Some(what))
    });
    waits.await?;
    has_waited(&careless).await?;

    // A day is not over: these are done at once or not at all.
    careful.flash("flashjob", &[other]).await?;
    careful.phase("flashjob", Phase::Completed).await?;

    careless.flash_with("second", typo(&boards[1])).await?;
    let held_up = careless.status("second", "what it waits for", |s| {
        s.message.as_ref().is_some_and(|m| m.contains("waiting for an address"))
    });
    let held_up = held_up.await?;
    let words = held_up.message.unwrap_or_default();
    let class =
        "waiting for an address of load balancer class example.com/typo behind Service first-";
    assert!(words.contains(class), "{words}");
    let whose = words.split_once(" of FlashJob careless/first, which has waited since ");
    let (_, times) = whose.with_context(|| words.clone())?;
    let (since, until) = times.split_once(" and is given up at ").context("two times")?;
    assert!(until > since, "{words}");

    for job in ["first", "second"] {
        careless.edit(job, json!({ "service": null })).await?;
    }
    for job in ["first", "second"] {
        careless.phase(job, Phase::Completed).await?;
    }
    assert_eq!(careless.flashed().len(), 2);
    careless.cleaned_up().await
}
