//! An operator that knows nothing: an empty cluster, a CRD that is gone, lists that hang. Nobody is told to disconnect by that,
//! nobody is given a configuration while nothing is known, and everybody is back in the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use flashjob_api::edge::EdgeDevice;
use flashjob_sim::cluster::{CallFate, Cluster, Gate};
use flashjob_sim::edge::ledger::Outcome;
use flashjob_sim::edge::site::{EdgeSite, INSTALL};
use flashjob_sim::edge::{DeviceLedger, DeviceOptions, Fleet, FleetOptions, Manner, Operation};
use flashjob_sim::{PATIENCE, eventually, programs};
use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::kit::{names, patch_device, tombstones};

/// Devices of each manner.
const EACH: usize = 25;
/// Between two polls. All their other waits are to this as they are in the field.
const POLL: Duration = Duration::from_millis(250);
const CRD: &str = "edgedevices.management.project-flotta.io";
const FLAGS: [&str; 1] = ["--leader-elect=false"];
const BY_HAND: [&str; 2] = ["--leader-elect=false", "--edge-auto-approval=false"];

/// Fifty devices at work, half of them the original's, and what is on record of them.
struct Settled<'a> {
    site: &'a EdgeSite,
    fleets: Vec<Fleet>,
    /// As a backup of the cluster has them.
    backup: Vec<EdgeDevice>,
}

/// Ledgers by the names of their devices.
type Ledgers = BTreeMap<String, DeviceLedger>;

impl<'a> Settled<'a> {
    /// An operator has to be at work.
    async fn on(site: &'a EdgeSite) -> Result<Self> {
        let mut fleets = Vec::new();
        for (prefix, manner) in [("ours", Manner::Ours), ("theirs", Manner::Flotta)] {
            // No second registration, so that what is on record stays.
            let options = site.options(prefix, manner).await?;
            let device = DeviceOptions { poll: POLL, registers_again: false, ..options };
            let (prefix, stagger) = (prefix.to_owned(), Duration::from_secs(2));
            fleets.push(Fleet::start(EACH, FleetOptions { prefix, stagger, device })?);
        }
        let mut settled = Self { site, fleets, backup: Vec::new() };
        settled.all_beat().await?;
        settled.backup = site.devices().list(&ListParams::default()).await?.items;
        assert_eq!(settled.backup.len(), 2 * EACH);
        Ok(settled)
    }

    fn ledgers(&self) -> Ledgers {
        let all = self.fleets.iter().flat_map(Fleet::ledgers);
        all.map(|ledger| (ledger.device.clone(), ledger)).collect()
    }

    async fn all(&self, what: &str, wish: impl Fn(&DeviceLedger) -> bool) -> Result<()> {
        for fleet in &self.fleets {
            fleet.wait_until(what, PATIENCE, &wish).await?;
        }
        Ok(())
    }

    /// All of them beat, from now on, and nothing has happened that must not.
    async fn all_beat(&self) -> Result<()> {
        let before = self.ledgers();
        let taken = |ledger: &DeviceLedger| ledger.answered(Operation::Heartbeat, 200);
        self.all("a heartbeat to be taken", |now| taken(now) > taken(&before[&now.device])).await?;
        for ledger in self.ledgers().values() {
            let (told, strays) = (ledger.disconnects(), ledger.stray_bodies);
            assert_eq!((told, strays, &ledger.unreadable), (0, 0, &vec![]), "{ledger:?}");
        }
        Ok(())
    }

    /// All of them ask for their configuration and for commands, from now on, and get neither.
    async fn all_ask_in_vain(&self) -> Result<()> {
        let before = self.ledgers();
        let asked = [Operation::FetchConfiguration, Operation::FetchCommands];
        let since = |now: &DeviceLedger, operation, outcome| {
            now.count(operation, outcome) - before[&now.device].count(operation, outcome)
        };
        let in_vain = [404, 503].map(Outcome::Status);
        self.all("twice no for an answer", |now| {
            let refused = |operation| in_vain.map(|outcome| since(now, operation, outcome));
            asked.map(|operation| refused(operation).iter().sum::<u64>()).iter().all(|no| *no >= 2)
        })
        .await?;
        for now in self.ledgers().values() {
            for (operation, outcome) in now.counts().keys() {
                let harmless = in_vain.contains(outcome) || *outcome == Outcome::NoAnswer;
                let new = since(now, *operation, *outcome);
                let right = harmless || new == 0 || !asked.contains(operation);
                ensure!(right, "{operation}: {outcome:?} of {now:?}");
            }
            assert_eq!((now.disconnects(), now.stray_bodies), (0, 0), "{now:?}");
        }
        Ok(())
    }

    /// All EdgeDevices go without anybody having deleted a device.
    async fn lose_all_objects(&self) -> Result<()> {
        let lost = names(self.site).await?.into_iter().map(async |name| {
            patch_device(self.site, &name, json!({ "metadata": { "finalizers": null } })).await?;
            self.site.devices().delete(&name, &DeleteParams::default()).await?;
            anyhow::Ok(())
        });
        try_join_all(lost).await?;
        assert_eq!(names(self.site).await?, [] as [String; 0]);
        Ok(())
    }

    /// Puts back what the backup has of those whose names begin so.
    async fn restore(&self, prefix: &str) -> Result<()> {
        let lost = self.backup.iter().filter(|device| device.name_any().starts_with(prefix));
        let restored = lost.map(async |device| {
            let ObjectMeta { name, labels, annotations, finalizers, .. } = device.metadata.clone();
            let metadata =
                ObjectMeta { name, labels, annotations, finalizers, ..ObjectMeta::default() };
            let device = EdgeDevice { metadata, ..device.clone() };
            self.site.devices().create(&PostParams::default(), &device).await
        });
        try_join_all(restored).await?;
        Ok(())
    }

    /// There is one EdgeDevice for each, and nobody was written down as deleted.
    async fn as_before(&self) -> Result<()> {
        let backup: Vec<_> = self.backup.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names(self.site).await?, backup);
        assert_eq!(tombstones(self.site).await?, [] as [serde_json::Value; 0]);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_cluster_disconnects_nobody() -> Result<()> {
    let site = EdgeSite::new().await?;
    let operator = site.operator_with(&FLAGS, None).await?;
    let devices = Settled::on(&site).await?;
    drop(operator);
    devices.lose_all_objects().await?;
    let operator = site.operator_with(&BY_HAND, None).await?;
    devices.all_ask_in_vain().await?;
    devices.restore("").await?;
    devices.all_beat().await?;
    devices.as_before().await?;

    // Where nobody has to approve, our agent comes in by itself. The original's knows nothing of that.
    drop(operator);
    devices.lose_all_objects().await?;
    let before = devices.ledgers();
    let anew = |now: &DeviceLedger| now.certificates.len() > before[&now.device].certificates.len();
    let _operator = site.operator_with(&FLAGS, None).await?;
    devices.fleets[0].wait_until("another certificate", PATIENCE, anew).await?;
    devices.restore("theirs").await?;
    devices.all_beat().await?;
    devices.as_before().await
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_hang_disconnect_nobody() -> Result<()> {
    let site = EdgeSite::new().await?;
    let operator = site.operator_with(&FLAGS, None).await?;
    let devices = Settled::on(&site).await?;
    drop(operator);
    let gate = Gate::start(&site.cluster, |_| CallFate::Pass).await?;
    let hang = Arc::new(AtomicBool::new(true));
    let hangs = hang.clone();
    gate.judge_reads(move |call| {
        let devices = call.is_list() && call.resource() == "edgedevices";
        if devices && hangs.load(Ordering::Acquire) { CallFate::Hold } else { CallFate::Pass }
    });
    let _operator = site.operator_with(&FLAGS, Some(&gate)).await?;
    devices.all_ask_in_vain().await?;
    hang.store(false, Ordering::Release);
    gate.release();
    devices.all_beat().await?;
    devices.as_before().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crd_that_is_deleted_disconnects_nobody() -> Result<()> {
    let cluster = Cluster::start().await?;
    let site = EdgeSite::on(&cluster, programs::built("flashjob-operator").await?).await?;
    let operator = site.operator_with(&FLAGS, None).await?;
    let devices = Settled::on(&site).await?;

    // While the operator is at work.
    delete_crd(&site).await?;
    let before = devices.ledgers();
    let told = |now: &DeviceLedger| now.answered(Operation::Heartbeat, 404);
    devices.all("to be unknown", |now| told(now) > told(&before[&now.device])).await?;
    devices.all_ask_in_vain().await?;
    install_crd(&cluster).await?;
    devices.restore("theirs").await?;
    devices.all_beat().await?;
    devices.as_before().await?;

    // While there is none.
    drop(operator);
    devices.lose_all_objects().await?;
    delete_crd(&site).await?;
    let _operator = site.operator_with(&FLAGS, None).await?;
    devices.all_ask_in_vain().await?;
    install_crd(&cluster).await?;
    devices.restore("theirs").await?;
    devices.all_beat().await?;
    devices.as_before().await
}

async fn delete_crd(site: &EdgeSite) -> Result<()> {
    let crds: Api<CustomResourceDefinition> = Api::all(site.client.clone());
    crds.delete(CRD, &DeleteParams::default()).await?;
    let gone = async || Ok(crds.get_opt(CRD).await?.is_none().then_some(()));
    eventually("the end of the CRD", PATIENCE, gone).await
}

async fn install_crd(cluster: &Cluster) -> Result<()> {
    let mut documents = INSTALL.split("\n---\n");
    let crd = documents.find(|document| document.contains(&format!("name: {CRD}")));
    cluster.apply_yaml(crd.unwrap_or_default()).await
}
