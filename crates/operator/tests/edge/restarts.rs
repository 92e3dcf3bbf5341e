//! Twenty operators one after the other, each of which is killed at some moment of its life, on a slow way to the cluster, while
//! users edit, and while a CRD is deleted, put back, and its objects after it. No device is ever sent fewer workloads than the
//! user asked for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use flashjob_sim::cluster::{CallFate, Cluster, Gate};
use flashjob_sim::edge::ledger::Told;
use flashjob_sim::edge::site::{EdgeSite, listens_at};
use flashjob_sim::edge::{Device, Manner, Operation};
use flashjob_sim::{PATIENCE, SeededRng, programs};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::crd_return::{bring_back, put_crd_back, take_crd};
use super::kit::{live, quick_and_registered};
use super::workload_kit::{
    DEPLOYMENT, FLAGS, Kind, WORKLOAD, api, for_all, image, is_sent, is_told, make_for_all,
    never_told_to_run_less, patch, runs,
};

const ROUNDS: usize = 20;
/// In these rounds the CRD of EdgeDeployments goes, is put back, and its objects are.
const GONE: usize = 6;
const BACK: usize = 9;
const AGAIN: usize = 15;
const MOST: usize = 9;

/// What users do.
struct Users {
    site: EdgeSite,
    dice: SeededRng,
    /// Kind and image of what they want to run on all devices.
    wanted: BTreeMap<String, (Kind, String)>,
    /// There is a CRD of EdgeDeployments, and there are EdgeDeployments.
    has_crd: bool,
    has_objects: bool,
}

impl Users {
    async fn begin(site: EdgeSite) -> Result<Self> {
        let dice = SeededRng::new(16);
        let wanted = BTreeMap::new();
        let mut users = Self { site, dice, wanted, has_crd: true, has_objects: true };
        for (name, kind) in [("a", DEPLOYMENT), ("b", WORKLOAD), ("c", DEPLOYMENT)] {
            users.make(name, kind, "app:0").await?;
        }
        Ok(users)
    }

    async fn make(&mut self, name: &str, kind: Kind, image: &str) -> Result<()> {
        make_for_all(&self.site, kind, name, image).await?;
        self.wanted.insert(name.to_owned(), (kind, image.to_owned()));
        Ok(())
    }

    /// Makes something, or edits what there is.
    async fn edit(&mut self, round: usize) -> Result<()> {
        let image = format!("app:{round}");
        if self.dice.below(3) == 0 && self.wanted.len() < MOST {
            let kind = if self.has_objects { DEPLOYMENT } else { WORKLOAD };
            return self.make(&format!("more-{}", self.wanted.len()), kind, &image).await;
        }
        let is_there = |kind: Kind| self.has_objects || kind == WORKLOAD;
        let there = self.wanted.iter().filter(|(_, (kind, _))| is_there(*kind));
        let there: Vec<_> = there.map(|(name, (kind, _))| (name.clone(), *kind)).collect();
        let (name, kind) = self.dice.pick(&there).cloned().unwrap_or_default();
        patch(&api(&self.site, kind), &name, json!({ "spec": for_all(&image) })).await?;
        self.wanted.insert(name, (kind, image));
        Ok(())
    }

    async fn act(&mut self, round: usize) -> Result<()> {
        for _ in 0..2 {
            self.edit(round).await?;
        }
        match round {
            GONE => {
                (self.has_crd, self.has_objects) = (false, false);
                take_crd(&self.site).await
            }
            BACK => {
                self.has_crd = true;
                put_crd_back(&self.site).await
            }
            AGAIN => {
                self.has_objects = true;
                for (name, (kind, image)) in &self.wanted {
                    if *kind == DEPLOYMENT {
                        bring_back(&self.site, name, image).await?;
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// A way on which each list takes up to a second and a half. Also how many lists came along.
async fn slow_way(cluster: &Cluster) -> Result<(Gate, Arc<AtomicU64>)> {
    let gate = Gate::start(cluster, |_| CallFate::Pass).await?;
    let (lists, dice) = (Arc::new(AtomicU64::new(0)), Mutex::new(SeededRng::new(61)));
    let counted = lists.clone();
    gate.judge_reads(move |call| {
        if !call.is_list() {
            return CallFate::Pass;
        }
        counted.fetch_add(1, Ordering::Relaxed);
        CallFate::Delay(Duration::from_millis(dice.lock().unwrap().below(1500) as u64))
    });
    Ok((gate, lists))
}

/// How often a device was told that it keeps what it has, because something is missing.
fn kept(device: &Device) -> usize {
    let is_kept = |told: &&Told| {
        let reason = told.reason.as_deref().unwrap_or_default();
        told.operation == Operation::FetchConfiguration
            && reason.contains("keeps the configuration")
    };
    device.read(|ledger| ledger.told.iter().filter(is_kept).count())
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_that_die_during_edits_and_while_a_crd_is_away_send_nobody_less() -> Result<()> {
    let cluster = Cluster::start().await?;
    let site = EdgeSite::on(&cluster, programs::built("flashjob-operator").await?).await?;
    let operator = site.operator_with(&FLAGS, None).await?;
    let mut users = Users::begin(site).await?;
    let mut devices = Vec::new();
    for (id, manner) in [("one", Manner::Ours), ("two", Manner::Flotta), ("three", Manner::Ours)] {
        let device = quick_and_registered(&users.site, id, manner).await?;
        is_told(&device, &["a", "b", "c"]).await?;
        devices.push(device);
    }
    drop(operator);
    let lives: Vec<_> = devices.iter().map(live).collect();
    let (gate, lists) = slow_way(&cluster).await?;
    let mut served = 0;
    for round in 1..=ROUNDS {
        served += usize::from(one_life(&mut users, &gate, round).await?);
    }
    let lists = lists.load(Ordering::Relaxed);
    assert!(served >= ROUNDS / 2 - 1 && lists > 100, "{served}, {lists}");
    assert!(
        kept(&devices[1]) > 0,
        "nobody asked while there was nothing: {:?}",
        devices[1].ledger()
    );

    let _operator = users.site.operator_with(&FLAGS, None).await?;
    for _ in 0..3 {
        users.edit(ROUNDS + 1).await?;
    }
    let names: Vec<&str> = users.wanted.keys().map(String::as_str).collect();
    assert!(names.len() > 5, "{names:?}");
    for device in &devices {
        let all = device.until("all of it", PATIENCE, |ledger| {
            ledger.configuration().is_some_and(|told| told.workloads == names)
        });
        all.await?;
        runs(&users.site, device.id(), &names).await?;
        never_told_to_run_less(device, &["a", "b", "c"]);
    }
    drop(lives);
    let is_latest = |sent: &_| {
        users.wanted.iter().all(|(name, (_, wanted))| image(sent, name).as_ref() == Some(wanted))
    };
    is_sent(&devices[1], "the last edits", is_latest).await?;
    Ok(())
}

/// Starts an operator and kills it some time later. Every other one gets as far as to serve devices, if there is a CRD. Whether
/// it did.
async fn one_life(users: &mut Users, gate: &Gate, round: usize) -> Result<bool> {
    let mut operator = users.site.started(&FLAGS, Some(gate))?;
    let after = Duration::from_millis(users.dice.below(1200) as u64);
    let (mut until, mut led) = (Instant::now() + after, false);
    users.act(round).await?;
    while Instant::now() < until || round % 2 == 0 && users.has_crd && !led {
        if !led && let Some(address) = listens_at(&operator) {
            users.site.lead_to(Some(address));
            // As long as it takes to ask twice.
            (led, until) = (true, Instant::now() + after + Duration::from_millis(500));
        }
        assert!(!operator.has_ended(), "{}", operator.log());
        sleep(Duration::from_millis(10)).await;
    }
    operator.kill();
    Ok(led)
}
