//! What the attacker does. Every campaign goes on until it is dropped, at a rate that a cluster allows its users: about
//! twenty writes a second each, and bursts of a hundred jobs.

use std::time::Duration;

use anyhow::Result;
use flashjob_api::FlashJob;
use flashjob_plan::names;
use flashjob_sim::Luck;
use futures::StreamExt;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use super::attacker::Attacker;
use super::forgery::{NOWHERE, Target, broken_record, job, nonsense};
use super::judge::FLASHER;
use super::plot::{Campaign, Plot};
use super::world::{SLEEP, TRUE, World};

/// Between two writes of one campaign.
const PACE: Duration = Duration::from_millis(50);
/// How many objects of a kind a campaign leaves standing; older ones make room.
const STANDING: usize = 60;
/// Jobs of a burst, and how many are made at once.
const BURST: usize = 120;
const AT_ONCE: usize = 8;

pub struct Attack<'a> {
    pub world: &'a World,
    pub plot: &'a Plot,
    pub attacker: &'a Attacker,
    /// The victim's job, once it is there.
    pub target: watch::Receiver<Option<Target>>,
}

impl Attack<'_> {
    /// All campaigns of the plot. Ends only with an error.
    pub async fn run(&self) -> Result<()> {
        let mut luck = self.plot.luck.clone();
        let all = self.plot.campaigns.iter().map(|c| self.one(*c, Luck::new(luck.next())));
        try_join_all(all.collect::<Vec<_>>()).await?;
        std::future::pending().await
    }

    async fn one(&self, campaign: Campaign, luck: Luck) -> Result<()> {
        match campaign {
            Campaign::ForgedLedgers => self.forge::<ConfigMap>(luck, Target::ledger).await,
            Campaign::ForgedPods => self.forge::<Pod>(luck, Target::pod).await,
            Campaign::ForgedServices => {
                tokio::try_join!(
                    self.forge::<Service>(luck.clone(), Target::service),
                    self.replace_services()
                )?;
                Ok(())
            }
            Campaign::BrokenLedgers => self.break_ledgers(luck).await,
            Campaign::Unserved => self.ask_nobody().await,
            Campaign::RefusedLedgers | Campaign::Flood => self.flood(luck).await,
            Campaign::Usurpers => self.usurp(luck).await,
            Campaign::LargeJobs => self.large_jobs().await,
            Campaign::Churn => self.churn(luck).await,
        }
    }

    /// The victim's job, once it is there.
    async fn target(&self) -> Target {
        let mut target = self.target.clone();
        let known = target.wait_for(Option::is_some).await;
        match known.ok().and_then(|target| target.clone()) {
            Some(target) => target,
            None => std::future::pending().await,
        }
    }

    async fn forge<K>(
        &self,
        mut luck: Luck,
        forgery: fn(&Target, &mut Luck, usize) -> Value,
    ) -> Result<()>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
    {
        let target = self.target().await;
        let mut standing = std::collections::VecDeque::new();
        for nth in 0.. {
            let forged = self.attacker.create::<K>(forgery(&target, &mut luck, nth)).await?;
            standing.extend(forged.map(|forged| forged.name_any()));
            if standing.len() > STANDING
                && let Some(oldest) = standing.pop_front()
            {
                self.attacker.delete::<K>(&oldest).await?;
            }
            // It begins with a burst.
            if nth >= 20 {
                sleep(PACE).await;
            }
        }
        Ok(())
    }

    /// A job of its own whose Services it takes away and makes again, the same in all but that nobody serves them.
    async fn replace_services(&self) -> Result<()> {
        let endless = json!({ "timeouts": { "addressSeconds": 86400 } });
        self.create(job("own", &self.world.own_paths, TRUE, endless)).await?;
        let services = self.attacker.api::<Service>();
        loop {
            for service in services.list(&ListParams::default().labels(names::JOB_UID)).await? {
                if service.annotations().contains_key(NOWHERE.0) {
                    continue;
                }
                let meta = &service.metadata;
                let again = json!({
                    "metadata": {
                        "name": meta.name, "labels": meta.labels,
                        "ownerReferences": meta.owner_references,
                        "annotations": { NOWHERE.0: NOWHERE.1 },
                    },
                    "spec": { "type": "LoadBalancer", "ports": [{ "port": 4433 }] },
                });
                self.attacker.delete::<Service>(&service.name_any()).await?;
                self.attacker.create::<Service>(again).await?;
                sleep(PACE).await;
            }
            sleep(4 * PACE).await;
        }
    }

    async fn break_ledgers(&self, mut luck: Luck) -> Result<()> {
        let maps = self.attacker.api::<ConfigMap>();
        for nth in 0.. {
            if nth < STANDING {
                let devices = match luck.chance(1, 2) {
                    true => self.world.own_paths.clone(),
                    false => vec![format!("not-there-{nth}")],
                };
                self.create(job(&format!("broken-{nth}"), &devices, TRUE, json!({}))).await?;
            }
            sleep(4 * PACE).await;
            for map in maps.list(&ListParams::default().labels(names::SHARD)).await? {
                if !luck.chance(1, 4) {
                    continue;
                }
                let (key, new) = broken(map.data.clone().unwrap_or_default(), &mut luck);
                let change = json!({ "data": { key: new } });
                self.attacker.change::<ConfigMap>(&map.name_any(), change).await?;
                sleep(PACE).await;
            }
        }
        Ok(())
    }

    async fn ask_nobody(&self) -> Result<()> {
        let asks = [
            json!({ "annotations": { NOWHERE.0: NOWHERE.1 }, "loadBalancerClass": "typo" }),
            json!({ "annotations": { NOWHERE.0: NOWHERE.1 } }),
        ];
        for (nth, service) in asks.iter().enumerate() {
            let devices = [self.world.own_paths[nth % self.world.own_paths.len()].clone()];
            let more = json!({ "service": service, "timeouts": { "addressSeconds": 86400 } });
            self.create(job(&format!("unserved-{nth}"), &devices, TRUE, more)).await?;
        }
        Ok(())
    }

    async fn flood(&self, mut luck: Luck) -> Result<()> {
        let jobs = (0..BURST).map(|nth| {
            let devices = match luck.below(3) {
                0 => self.world.own_paths.clone(),
                1 => vec![self.world.own_paths[nth % self.world.own_paths.len()].clone()],
                _ => vec![format!("not-there-{nth}")],
            };
            let more = json!({ "suspend": luck.chance(1, 4), "rollout": { "batchSize": 1 } });
            job(&format!("flood-{nth}"), &devices, TRUE, more)
        });
        let jobs: Vec<Value> = jobs.collect();
        let made =
            futures::stream::iter(jobs).map(|job| self.create(job)).buffer_unordered(AT_ONCE);
        for made in made.collect::<Vec<_>>().await {
            made?;
        }
        Ok(())
    }

    async fn usurp(&self, mut luck: Luck) -> Result<()> {
        let world = self.world;
        let endpoints: Vec<&String> = world.bench.boards.values().collect();
        for nth in 0..STANDING {
            let image = match luck.below(3) {
                0 => FLASHER,
                // Who may flash a board may also take its time.
                1 if self.plot.own => SLEEP,
                _ => TRUE,
            };
            let name = format!("usurper-{nth}");
            let own = [world.own_paths[luck.below(world.own_paths.len())].clone()];
            let forged = match luck.below(4) {
                0 => job(
                    &name,
                    &[world.paths[luck.below(world.paths.len())].clone()],
                    image,
                    json!({}),
                ),
                _ => {
                    let board = endpoints[luck.below(endpoints.len())];
                    let spelt = spelling(board, &mut luck);
                    job(&name, &own, image, json!({ "hostEndpoint": spelt }))
                }
            };
            self.create(forged).await?;
            sleep(6 * PACE).await;
        }
        Ok(())
    }

    async fn large_jobs(&self) -> Result<()> {
        let many: Vec<String> = (0..10_000).map(|n| format!("not-there-{n}")).collect();
        // Too long for a ledger: 256 records and a little more than 1 MiB.
        let long: Vec<String> = (0..256).map(|n| format!("{n}-{}", "x".repeat(4_200))).collect();
        for nth in 0..4 {
            let more = json!({ "suspend": nth % 2 == 0 });
            self.create(job(&format!("many-{nth}"), &many, TRUE, more)).await?;
            self.create(job(&format!("long-{nth}"), &long, TRUE, json!({}))).await?;
            let all = json!({ "uuid": null, "deviceSelector": { "configuration": "http-disc" } });
            self.create(job(&format!("all-{nth}"), &[], TRUE, all)).await?;
            sleep(10 * PACE).await;
        }
        Ok(())
    }

    async fn churn(&self, mut luck: Luck) -> Result<()> {
        let pods = self.attacker.api::<Pod>();
        let maps = self.attacker.api::<ConfigMap>();
        let params = ListParams::default().labels(names::JOB_UID);
        for nth in 0.. {
            let name = format!("churn-{}", luck.below(8));
            match luck.below(9) {
                0 => self.create(job("rollout", &self.world.own_paths, TRUE, json!({}))).await?,
                1 | 2 => self.create(job(&name, &self.world.own_paths, TRUE, json!({}))).await?,
                3 => {
                    let target = self.target.borrow().clone().unwrap_or_default();
                    let ledger = names::ledger(&target.name, &target.uid, 0);
                    let change =
                        json!({ "metadata": { "annotations": { names::LEDGER: ledger } } });
                    self.attacker.change::<FlashJob>(&name, change).await?;
                }
                4 => {
                    let version = format!("6.6.{nth}");
                    let firmware = format!("registry.example/evil:{version}");
                    let change = json!({ "spec": { "firmware": firmware, "version": version } });
                    self.attacker.change::<FlashJob>(&name, change).await?;
                }
                5 => {
                    self.attacker.delete::<FlashJob>(&name).await?;
                    let change = json!({ "metadata": { "finalizers": null } });
                    self.attacker.change::<FlashJob>(&name, change).await?;
                }
                6 => {
                    for map in maps.list_metadata(&params).await? {
                        self.attacker.delete::<ConfigMap>(&map.name_any()).await?;
                    }
                }
                7 => {
                    for pod in pods.list_metadata(&params).await? {
                        self.attacker.delete::<Pod>(&pod.name_any()).await?;
                    }
                }
                // Pods of its own are the victim's from now on.
                _ => {
                    let target = self.target.borrow().clone().unwrap_or_default();
                    for pod in pods.list_metadata(&params).await? {
                        let change =
                            json!({ "metadata": { "labels": { names::JOB_UID: target.uid } } });
                        self.attacker.change::<Pod>(&pod.name_any(), change).await?;
                    }
                }
            }
            sleep(PACE).await;
        }
        Ok(())
    }

    async fn create(&self, job: Value) -> Result<()> {
        self.attacker.create::<FlashJob>(job).await.map(drop)
    }
}

/// A key of a ledger, and something else for it.
fn broken(data: std::collections::BTreeMap<String, String>, luck: &mut Luck) -> (String, String) {
    let keys: Vec<&String> = data.keys().collect();
    let key = luck.pick(&keys).map_or_else(|| "header".to_owned(), |key| (*key).clone());
    let old = data.get(&key).and_then(|text| serde_json::from_str(text).ok());
    let old = old.filter(Value::is_object).unwrap_or_else(|| json!({}));
    let new = match luck.below(6) {
        0 => "{".to_owned(),
        _ if key == "header" => nonsense(old, luck).to_string(),
        _ => broken_record(old, luck).to_string(),
    };
    (key, new)
}

/// A board's address, written in one of many ways.
fn spelling(board: &str, luck: &mut Luck) -> String {
    match luck.below(5) {
        0 => format!("{board}:80"),
        1 => format!("http://{board}/"),
        2 => format!("HTTP://{board}"),
        3 => format!("http://{board}:80"),
        _ => board.to_owned(),
    }
}
