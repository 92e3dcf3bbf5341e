//! What devices keep through whatever happens to an operator, to a CRD, or to a spec by mistake: none is ever sent fewer workloads
//! than its user asked for, and nobody is sent anew what it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_sim::cluster::{CallFate, Cluster, Gate};
use flashjob_sim::edge::site::{EdgeSite, INSTALL, listens_at};
use flashjob_sim::edge::{Device, EdgeOperator, Manner};
use flashjob_sim::{PATIENCE, SeededRng, eventually, programs};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::kit::{beats, live, quick_and_registered};
use super::workload_kit::{
    condition, content, device, entry, image, is_sent, is_told, keeps, make,
    never_told_to_run_less, nginx, objects, patch, told, version, workload,
};

/// Nobody is to wait until the lease of a dead process has run out.
const FLAGS: [&str; 1] = ["--leader-elect=false"];
const DEPLOYMENT: (&str, &str) = ("EdgeDeployment", "edgedeployments");
const WORKLOAD: (&str, &str) = ("EdgeWorkload", "edgeworkloads");
const CRD: &str = "edgedeployments.management.project-flotta.io";

fn api(site: &EdgeSite, (kind, plural): (&str, &str)) -> Api<DynamicObject> {
    objects(site, kind, plural)
}

/// A workload for every device.
fn for_all(image: &str) -> Value {
    nginx(image, json!({ "deviceSelector": {} }))
}

async fn make_for_all(site: &EdgeSite, kind: (&str, &str), name: &str, image: &str) -> Result<()> {
    make(&api(site, kind), kind.0, name, for_all(image)).await
}

/// Waits until the status of an EdgeDevice says that these run.
async fn runs(site: &EdgeSite, name: &str, workloads: &[&str]) -> Result<()> {
    let running = |found: &Value, workload: &str| entry(found, workload)["phase"] == "Running";
    device(site, name, |found| workloads.iter().all(|name| running(found, name))).await?;
    Ok(())
}

/// As it is in the field: one process, and another that waits for the lease.
async fn replica(site: &EdgeSite, identity: &str) -> Result<EdgeOperator> {
    let launcher = site.operators.clone().with_env("HOSTNAME", identity);
    site.listening(launcher.start(&[], None)?).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_content_has_the_same_version_after_a_restart_and_from_another_leader()
-> Result<()> {
    let site = EdgeSite::new().await?;
    let mut first = replica(&site, "first").await?;
    for (kind, name) in [(DEPLOYMENT, "a"), (WORKLOAD, "b"), (DEPLOYMENT, "c")] {
        make_for_all(&site, kind, name, &format!("{name}:1")).await?;
    }
    let ours = site.registered("ours", Manner::Ours).await?;
    let flotta = site.registered("flotta", Manner::Flotta).await?;
    for device in [&ours, &flotta] {
        is_told(device, &["a", "b", "c"]).await?;
        device.heartbeat().await?;
        runs(&site, device.id(), &["a", "b", "c"]).await?;
    }
    let before = [&ours, &flotta].map(version);
    let text = serde_json::to_string(&content(&flotta).await?)?;
    let standby = site.operators.clone().with_env("HOSTNAME", "standby").start(&[], None)?;
    standby.says("standing by: another process holds the lease").await?;
    first.kill();
    site.lead_to(None);
    eventually("the standby to serve", PATIENCE, async || {
        Ok(listens_at(&standby).map(|address| site.lead_to(Some(address))))
    })
    .await?;
    same(&ours, &flotta, &text).await?;
    drop(standby);
    let mut last = site.operator_with(&FLAGS, None).await?;
    for _ in 0..2 {
        same(&ours, &flotta, &text).await?;
        last.kill();
        last = site.operator_with(&FLAGS, None).await?;
    }
    assert_eq!([&ours, &flotta].map(version), before);
    Ok(())
}

/// Who says that it has it is told so, and who does not is sent the same.
async fn same(ours: &Device, flotta: &Device, text: &str) -> Result<()> {
    eventually("304", PATIENCE, async || {
        let code = ours.fetch_configuration().await?.code();
        assert!([304, 503].contains(&code), "{code}");
        Ok((code == 304).then_some(()))
    })
    .await?;
    let sent = is_sent(flotta, "anything", |_| true).await?;
    assert_eq!(serde_json::to_string(&sent)?, text);
    Ok(())
}

/// Twenty operators one after the other, each of which is killed at some moment of its life, on a slow way to the cluster. Users
/// go on as if nothing were.
#[tokio::test(flavor = "multi_thread")]
async fn operators_that_die_during_edits_send_nobody_less() -> Result<()> {
    let site = EdgeSite::new().await?;
    let mut dice = SeededRng::new(16);
    let operator = site.operator_with(&FLAGS, None).await?;
    let mut names: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
    for (name, kind) in names.iter().zip([DEPLOYMENT, WORKLOAD, DEPLOYMENT]) {
        make_for_all(&site, kind, name, "app:0").await?;
    }
    let mut devices = Vec::new();
    for (id, manner) in [("one", Manner::Ours), ("two", Manner::Flotta), ("three", Manner::Ours)] {
        let device = quick_and_registered(&site, id, manner).await?;
        is_told(&device, &["a", "b", "c"]).await?;
        devices.push(device);
    }
    drop(operator);
    let lives: Vec<_> = devices.iter().map(live).collect();
    let gate = Gate::start(&site.cluster, |_| CallFate::Pass).await?;
    let (lists, slow) = (Arc::new(AtomicU64::new(0)), SeededRng::new(61));
    let (counted, slow) = (lists.clone(), std::sync::Mutex::new(slow));
    gate.judge_reads(move |call| {
        if !call.is_list() {
            return CallFate::Pass;
        }
        counted.fetch_add(1, Ordering::Relaxed);
        CallFate::Delay(Duration::from_millis(slow.lock().unwrap().below(1500) as u64))
    });

    let mut served = 0;
    for round in 1..=20 {
        let mut operator = site.started(&FLAGS, Some(&gate))?;
        // Every other one gets as far as to serve devices for a moment.
        let after = Duration::from_millis(dice.below(1200) as u64);
        let mut until = Instant::now() + after;
        let mut led = false;
        let edits = [dice.below(3), dice.below(3)];
        for edit in edits {
            if edit == 0 && names.len() < 9 {
                let name = format!("more-{round}-{}", names.len());
                make_for_all(&site, DEPLOYMENT, &name, &format!("app:{round}")).await?;
                names.push(name);
            } else {
                let (name, kind) = *dice.pick(&[("a", DEPLOYMENT), ("b", WORKLOAD)]).context("")?;
                let spec = json!({ "spec": for_all(&format!("app:{round}")) });
                patch(&api(&site, kind), name, spec).await?;
            }
        }
        while Instant::now() < until || round % 2 == 0 && !led {
            if !led && let Some(address) = listens_at(&operator) {
                site.lead_to(Some(address));
                (led, until) = (true, Instant::now() + after);
            }
            assert!(!operator.has_ended(), "{}", operator.log());
            sleep(Duration::from_millis(10)).await;
        }
        served += usize::from(led);
        operator.kill();
    }
    assert!(served >= 10 && lists.load(Ordering::Relaxed) > 100, "{served}, {lists:?}");

    let _operator = site.operator_with(&FLAGS, None).await?;
    for (name, kind) in [("a", DEPLOYMENT), ("b", WORKLOAD)] {
        patch(&api(&site, kind), name, json!({ "spec": for_all("app:last") })).await?;
    }
    names.sort();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for device in &devices {
        device
            .until("all of it", PATIENCE, |ledger| {
                ledger.configuration().is_some_and(|told| told.workloads == names)
            })
            .await?;
        runs(&site, device.id(), &names).await?;
        never_told_to_run_less(device, &["a", "b", "c"]);
    }
    drop(lives);
    is_sent(&devices[1], "the last edits", |sent| {
        ["a", "b"].iter().all(|name| image(sent, name).as_deref() == Some("app:last"))
    })
    .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crd_of_workloads_that_is_deleted_and_put_back_takes_nothing_away() -> Result<()> {
    let cluster = Cluster::start().await?;
    let site = EdgeSite::on(&cluster, programs::built("flashjob-operator").await?).await?;
    // Lists are made anew all the time, so that one comes at every moment.
    let flags = [FLAGS[0], "--resync-seconds=1"];
    let _operator = site.operator_with(&flags, None).await?;
    for name in ["a", "b"] {
        make_for_all(&site, DEPLOYMENT, name, "app:1").await?;
    }
    make_for_all(&site, WORKLOAD, "c", "app:1").await?;
    let ours = quick_and_registered(&site, "ours", Manner::Ours).await?;
    let flotta = quick_and_registered(&site, "flotta", Manner::Flotta).await?;
    for device in [&ours, &flotta] {
        is_told(device, &["a", "b", "c"]).await?;
    }
    let lives = [live(&ours), live(&flotta)];
    for device in [&ours, &flotta] {
        runs(&site, device.id(), &["a", "b", "c"]).await?;
    }
    let before = [&ours, &flotta].map(|device| device.ledger().configurations.len());

    let crds: Api<CustomResourceDefinition> = Api::all(site.client.clone());
    crds.delete(CRD, &DeleteParams::default()).await?;
    let gone = async || Ok(crds.get_opt(CRD).await?.is_none().then_some(()));
    eventually("the end of the CRD", PATIENCE, gone).await?;
    sleep(Duration::from_secs(3)).await;
    for device in [&ours, &flotta] {
        beats(device).await?;
    }
    let mut documents = INSTALL.split("\n---\n");
    let crd = documents.find(|document| document.contains(&format!("name: {CRD}")));
    cluster.apply_yaml(crd.context("the CRD")?).await?;
    // Lists of it are complete and empty.
    sleep(Duration::from_secs(5)).await;
    for device in [&ours, &flotta] {
        beats(device).await?;
    }
    for name in ["a", "b"] {
        eventually("the CRD to be served", PATIENCE, async || {
            Ok(make_for_all(&site, DEPLOYMENT, name, "app:1").await.ok())
        })
        .await?;
    }
    let api = api(&site, DEPLOYMENT);
    workload(&api, "a", |found| condition(found, "Complete")["status"] == "True").await?;
    sleep(Duration::from_secs(3)).await;
    for device in [&ours, &flotta] {
        beats(device).await?;
        never_told_to_run_less(device, &["a", "b", "c"]);
    }
    let after = [&ours, &flotta].map(|device| device.ledger().configurations.len());
    assert_eq!(after, before, "nothing new was sent to anybody");

    // What somebody deletes from now on goes.
    api.delete("a", &DeleteParams::default()).await?;
    for device in [&ours, &flotta] {
        device
            .until("the end of a", PATIENCE, |ledger| {
                ledger.configuration().is_some_and(|told| told.workloads == ["b", "c"])
            })
            .await?;
    }
    drop(lives);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_devices_cannot_run_leaves_them_what_they_have() -> Result<()> {
    let site = EdgeSite::new().await?;
    let mut operator = site.operator_with(&FLAGS, None).await?;
    let api = api(&site, DEPLOYMENT);
    make_for_all(&site, DEPLOYMENT, "app", "app:1").await?;
    make_for_all(&site, DEPLOYMENT, "plain", "plain:1").await?;
    let ours = site.registered("ours", Manner::Ours).await?;
    let flotta = site.registered("flotta", Manner::Flotta).await?;
    for device in [&ours, &flotta] {
        is_told(device, &["app", "plain"]).await?;
        device.heartbeat().await?;
        runs(&site, device.id(), &["app", "plain"]).await?;
    }
    let before = [&ours, &flotta].map(version);

    let mut probed = for_all("app:2");
    probed["pod"]["spec"]["containers"][0]["livenessProbe"] =
        json!({ "httpGet": { "path": "/", "port": 80 } });
    patch(&api, "app", json!({ "spec": probed })).await?;
    workload(&api, "app", |found| {
        let accepted = condition(found, "Accepted");
        let message = accepted["message"].as_str().unwrap_or_default();
        accepted["status"] == "False"
            && message.contains("spec.pod.spec.containers[0].livenessProbe")
    })
    .await?;
    for held in ["ours", "flotta"] {
        device(&site, held, |found| condition(found, "Configured")["status"] == "False").await?;
    }
    for _ in 0..2 {
        for device in [&ours, &flotta] {
            told(device).await?;
            device.heartbeat().await?;
        }
        assert_eq!([&ours, &flotta].map(version), before);
        operator.kill();
        operator = site.operator_with(&FLAGS, None).await?;
        for device in [&ours, &flotta] {
            keeps(device).await?;
        }
    }

    // Who is new runs what can be run.
    let fresh = site.registered("fresh", Manner::Flotta).await?;
    is_told(&fresh, &["plain"]).await?;

    let mended = json!({ "spec": { "pod": { "spec": for_all("app:3")["pod"]["spec"] } } });
    patch(&api, "app", mended).await?;
    for device in [&flotta, &fresh] {
        is_sent(device, "the next edit", |sent| image(sent, "app").as_deref() == Some("app:3"))
            .await?;
    }
    eventually("another version", PATIENCE, async || {
        told(&ours).await?;
        Ok((version(&ours) != before[0]).then_some(()))
    })
    .await?;
    for device in [&ours, &flotta] {
        never_told_to_run_less(device, &["app", "plain"]);
    }
    workload(&api, "app", |found| condition(found, "Accepted")["status"] == "True").await?;
    drop(operator);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_workloads_with_one_name_the_older_is_sent_until_it_is_deleted() -> Result<()> {
    let site = EdgeSite::new().await?;
    let mut operator = site.operator_with(&FLAGS, None).await?;
    for (name, older) in [("web", DEPLOYMENT), ("db", WORKLOAD)] {
        make_for_all(&site, older, name, "older:1").await?;
    }
    // Their ages are in seconds.
    sleep(Duration::from_millis(1100)).await;
    for (name, younger) in [("web", WORKLOAD), ("db", DEPLOYMENT)] {
        make_for_all(&site, younger, name, "younger:1").await?;
    }
    let one = site.registered("one", Manner::Flotta).await?;
    is_told(&one, &["db", "web"]).await?;
    let both = |sent: &_, wanted: &str| {
        ["db", "web"].iter().all(|name| image(sent, name).as_deref() == Some(wanted))
    };
    is_sent(&one, "the older", |sent| both(sent, "older:1")).await?;
    one.heartbeat().await?;
    for (name, older, younger) in [("web", DEPLOYMENT, WORKLOAD), ("db", WORKLOAD, DEPLOYMENT)] {
        workload(&api(&site, younger), name, |found| {
            let accepted = condition(found, "Accepted");
            accepted["status"] == "False" && accepted["reason"] == "NameConflict"
        })
        .await?;
        let of_older = api(&site, older);
        workload(&of_older, name, |found| condition(found, "Complete")["status"] == "True").await?;
    }
    operator.kill();
    operator = site.operator_with(&FLAGS, None).await?;
    is_sent(&one, "the older", |sent| both(sent, "older:1")).await?;
    assert_eq!(one.ledger().configurations.len(), 1, "{:?}", one.ledger());

    for (name, older, younger) in [("web", DEPLOYMENT, WORKLOAD), ("db", WORKLOAD, DEPLOYMENT)] {
        api(&site, older).delete(name, &DeleteParams::default()).await?;
        is_sent(&one, "the younger", |sent| image(sent, name).as_deref() == Some("younger:1"))
            .await?;
        workload(&api(&site, younger), name, |found| {
            condition(found, "Accepted")["status"] == "True"
        })
        .await?;
    }
    never_told_to_run_less(&one, &["db", "web"]);
    drop(operator);
    Ok(())
}
