//! The cluster is restored from a backup: what was written since is gone, and resourceVersions go backwards. Every device comes
//! back, and none is told to disconnect.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_sim::cluster::Cluster;
use flashjob_sim::edge::site::EdgeSite;
use flashjob_sim::edge::{Device, DeviceLedger, DeviceOptions, Manner, Operation};
use flashjob_sim::{PATIENCE, clock, eventually, programs};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::task::JoinSet;

use super::kit::{POLL, command, gone, live, patch_device};

/// So many writes come after the backup, so that what is written after the restore has lower versions than what was known.
const WRITES: u32 = 300;

/// What has become of a device between the backup and the restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Past {
    Untouched,
    /// It has another certificate, and ours another key.
    Renewed,
    /// It was not there at the time of the backup.
    New,
    /// It was deleted before the backup, and came in again after it.
    Readmitted,
}

struct Known {
    device: Device,
    past: Past,
    /// It lives by itself for as long as this is there.
    life: JoinSet<()>,
}

impl Known {
    fn new(device: Device, past: Past) -> Self {
        Self { device, past, life: JoinSet::new() }
    }
}

async fn device(site: &EdgeSite, id: &str, manner: Manner) -> Result<Device> {
    let (poll, deadline) = (POLL, Duration::from_secs(20));
    let options = site.options(id, manner).await?;
    let device = Device::new(DeviceOptions { poll, deadline, registers_again: false, ..options })?;
    let codes = [device.enrol().await?.code(), device.register().await?.code()];
    assert_eq!(codes, [208, 200], "{:?}", device.ledger());
    assert_eq!(device.heartbeat().await?.code(), 200);
    Ok(device)
}

/// Certificates know seconds and no parts of them: what comes next is of another.
async fn another_second() -> Result<()> {
    let began = clock::now().as_second();
    let later = async || Ok((clock::now().as_second() > began + 1).then_some(()));
    eventually("another second", PATIENCE, later).await
}

/// Devices of both manners, and what happens to them until the restore. They are at work when this returns.
async fn devices_with_a_past(
    site: &EdgeSite,
    backup: impl AsyncFnOnce() -> Result<()>,
) -> Result<Vec<Known>> {
    let mut all = Vec::new();
    for (name, manner) in [("flotta", Manner::Flotta), ("ours", Manner::Ours)] {
        for past in [Past::Untouched, Past::Renewed] {
            let id = format!("{name}-{past:?}").to_lowercase();
            all.push(Known::new(device(site, &id, manner).await?, past));
        }
    }
    let readmitted = device(site, "ours-readmitted", Manner::Ours).await?;
    site.devices().delete(readmitted.id(), &DeleteParams::default()).await?;
    gone(site, readmitted.id()).await?;
    backup().await?;

    another_second().await?;
    assert_eq!(readmitted.fetch_commands().await?.code(), 200);
    assert_eq!(readmitted.ledger().disconnects(), 1);
    readmitted.rejoin();
    let back = async || {
        let enrolled = readmitted.enrol().await?.code() == 208;
        Ok((enrolled && readmitted.register().await?.code() == 200).then_some(()))
    };
    eventually("it to be let in again", PATIENCE, back).await?;
    assert_eq!(readmitted.heartbeat().await?.code(), 200);
    all.push(Known::new(readmitted, Past::Readmitted));
    for known in all.iter().filter(|known| known.past == Past::Renewed) {
        assert_eq!(known.device.renew().await?.code(), 200);
        assert_eq!(known.device.heartbeat().await?.code(), 200);
    }
    for (id, manner) in [("flotta-new", Manner::Flotta), ("ours-new", Manner::Ours)] {
        all.push(Known::new(device(site, id, manner).await?, Past::New));
    }
    for known in &mut all {
        // What is known of each has a version that is gone with the restore.
        let labels = json!({ "metadata": { "labels": { "hall": "2" } } });
        patch_device(site, known.device.id(), labels).await?;
        known.life = live(&known.device);
    }
    Ok(all)
}

/// Things that others write.
async fn write_much(site: &EdgeSite) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(site.client.clone(), &site.home);
    let metadata = ObjectMeta { name: Some("busy".to_owned()), ..ObjectMeta::default() };
    let map = ConfigMap { metadata, ..ConfigMap::default() };
    maps.create(&PostParams::default(), &map).await?;
    for i in 0..WRITES {
        let data = Patch::Merge(json!({ "data": { "i": i.to_string() } }));
        maps.patch("busy", &PatchParams::default(), &data).await?;
    }
    Ok(())
}

fn beats(ledger: &DeviceLedger) -> u64 {
    ledger.answered(Operation::Heartbeat, 200)
}

/// Waits until the key that the device has is the one that is in use.
async fn is_on_record(site: &EdgeSite, device: &Device) -> Result<()> {
    eventually("its key on record", PATIENCE, async || {
        let own = device.credential().context("a certificate")?;
        let key = own.shown().context("a certificate")?.leaf().key_fingerprint();
        let there = site.devices().get_opt(device.id()).await?.is_some();
        let keys = if there { site.keys(device.id()).await? } else { json!(null) };
        Ok((keys["current"]["key"] == json!(key)).then_some(()))
    })
    .await
}

/// What every device has in the end: one EdgeDevice, its own key in use, and nobody was told to disconnect.
async fn all_are_back(site: &EdgeSite, all: &[Known]) -> Result<()> {
    for Known { device, past, .. } in all {
        is_on_record(site, device)
            .await
            .with_context(|| format!("{past:?}: {:?}", device.ledger().told.back()))?;
        let before = device.read(beats);
        let beat = |l: &DeviceLedger| beats(l) > before;
        device.until(&format!("another beat of {}", device.id()), PATIENCE, beat).await?;
        let told = usize::from(*past == Past::Readmitted);
        assert_eq!(device.ledger().disconnects(), told, "{past:?}: {:?}", device.ledger());
    }
    let mut there: Vec<_> =
        site.devices().list(&Default::default()).await?.iter().map(ResourceExt::name_any).collect();
    there.sort();
    let mut wanted: Vec<_> = all.iter().map(|known| known.device.id().to_owned()).collect();
    wanted.sort();
    assert_eq!(there, wanted);
    Ok(())
}

/// The original's agent takes no notice of what it is told, so it beats in vain until somebody empties its folder and starts
/// it: it begins anew then, with the certificate it has.
async fn begin_anew(all: &[Known]) -> Result<()> {
    let flotta = |known: &&Known| known.device.options().manner == Manner::Flotta;
    for Known { device, .. } in all.iter().filter(|k| k.past == Past::New).filter(flotta) {
        let unknown = |l: &DeviceLedger| l.last_status(Operation::Heartbeat) == Some(404);
        device.until("the original's agent to beat in vain", PATIENCE, unknown).await?;
        let codes = [device.enrol().await?.code(), device.register().await?.code()];
        assert_eq!(codes, [208, 200], "{:?}", device.ledger());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_runs_through_a_restore_serves_everybody() -> Result<()> {
    let cluster = Cluster::start().await?;
    let site = EdgeSite::on(&cluster, programs::built("flashjob-operator").await?).await?;
    // How long a watch is trusted: one that is asked for a version that does not exist yet says nothing. And no lease, which
    // ends with it when the control plane is away for longer.
    let flags = ["--resync-seconds=5", "--leader-elect=false"];
    let operator = site.operator_with(&flags, None).await?;
    let mut backup = None;
    let keep = async || {
        backup = Some(cluster.backup().await?);
        Ok(())
    };
    let all = devices_with_a_past(&site, keep).await?;
    write_much(&site).await?;
    // The last that is seen of the CA's Secret has a version that comes again only after very much has been written.
    command(&site, "rotaet").await?;
    cluster.restore(&backup.context("no backup")?).await?;

    begin_anew(&all).await?;
    all_are_back(&site, &all).await?;
    // Secrets are watched, too.
    assert!(command(&site, "rotaet").await?.contains("is not known"));
    assert!(!operator.log().contains("panic"), "{}", operator.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_starts_after_a_restore_serves_everybody() -> Result<()> {
    let cluster = Cluster::start().await?;
    let site = EdgeSite::on(&cluster, programs::built("flashjob-operator").await?).await?;
    let mut operator = site.operator().await?;
    let mut backup = None;
    let keep = async || {
        backup = Some(cluster.backup().await?);
        Ok(())
    };
    let all = devices_with_a_past(&site, keep).await?;
    let before: BTreeMap<_, _> =
        all.iter().map(|k| (k.device.id().to_owned(), k.device.read(beats))).collect();
    write_much(&site).await?;
    operator.kill();
    site.lead_to(None);
    cluster.restore(&backup.context("no backup")?).await?;
    let _operator = site.operator().await?;

    begin_anew(&all).await?;
    all_are_back(&site, &all).await?;
    for Known { device, .. } in &all {
        assert!(device.read(beats) > before[device.id()]);
    }
    Ok(())
}

/// What an operator knows of an EdgeDevice has a version that the restored cluster has never heard of, and no watch says so.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_given_out_after_a_restore_also_before_anything_was_listed_again()
-> Result<()> {
    let cluster = Cluster::start().await?;
    let site = EdgeSite::on(&cluster, programs::built("flashjob-operator").await?).await?;
    let flags = ["--resync-seconds=3600", "--leader-elect=false"];
    let operator = site.operator_with(&flags, None).await?;
    let device = device(&site, "device", Manner::Ours).await?;
    let backup = cluster.backup().await?;
    write_much(&site).await?;
    another_second().await?;
    assert_eq!(device.renew().await?.code(), 200);
    assert_eq!(device.heartbeat().await?.code(), 200);
    cluster.restore(&backup).await?;

    let renewed = async || Ok(device.renew().await.ok().filter(|told| told.code() == 200));
    eventually("a certificate", PATIENCE, renewed).await?;
    let used = async || Ok(device.heartbeat().await.ok().filter(|told| told.code() == 200));
    eventually("its first use", PATIENCE, used).await.with_context(|| operator.log())?;
    is_on_record(&site, &device).await
}
