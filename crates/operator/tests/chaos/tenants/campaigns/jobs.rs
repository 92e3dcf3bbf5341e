//! Jobs of the attacker's own: of any number, size and kind.

use anyhow::Result;
use flashjob_api::flashjob::FlashJob;
use flashjob_plan::flashjob::names;
use flashjob_sim::SeededRng;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::super::forgery::{NOWHERE, job};
use super::super::judge::FLASHER;
use super::super::specs;
use super::super::world::{SLEEP, TRUE};
use super::{Attack, PACE, STANDING};

/// Jobs of a burst, and how many are made at once.
const BURST: usize = 120;
const AT_ONCE: usize = 8;

impl Attack<'_> {
    pub(super) async fn ask_nobody(&self) -> Result<()> {
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

    pub(super) async fn flood(&self, mut rng: SeededRng) -> Result<()> {
        let jobs = (0..BURST).map(|nth| {
            let devices = match rng.below(3) {
                0 => self.world.own_paths.clone(),
                1 => vec![self.world.own_paths[nth % self.world.own_paths.len()].clone()],
                _ => vec![format!("not-there-{nth}")],
            };
            let more = json!({ "suspend": rng.chance(1, 4), "rollout": { "batchSize": 1 } });
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

    pub(super) async fn usurp(&self, mut rng: SeededRng) -> Result<()> {
        let world = self.world;
        let endpoints: Vec<&String> = world.bench.boards.values().collect();
        for nth in 0..STANDING {
            let image = match rng.below(3) {
                0 => FLASHER,
                // Who may flash a board may also take its time.
                1 if self.plot.own => SLEEP,
                _ => TRUE,
            };
            let name = format!("usurper-{nth}");
            let own = [world.own_paths[rng.below(world.own_paths.len())].clone()];
            let forged = match rng.below(4) {
                0 => job(
                    &name,
                    &[world.paths[rng.below(world.paths.len())].clone()],
                    image,
                    json!({}),
                ),
                _ => {
                    let board = endpoints[rng.below(endpoints.len())];
                    let spelt = spelling(board, &mut rng);
                    job(&name, &own, image, json!({ "hostEndpoint": spelt }))
                }
            };
            self.create(forged).await?;
            sleep(6 * PACE).await;
        }
        Ok(())
    }

    pub(super) async fn large_jobs(&self) -> Result<()> {
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

    /// Jobs with any spec, and other specs for them.
    pub(super) async fn any_specs(&self, mut rng: SeededRng) -> Result<()> {
        for nth in 0.. {
            let name = specs::name(&mut rng);
            let spec = specs::any(&mut rng, self.world, nth);
            match rng.below(4) {
                0 => self.attacker.delete::<FlashJob>(&name).await?,
                1 => drop(self.attacker.change::<FlashJob>(&name, json!({ "spec": spec })).await?),
                _ => drop(self.create(job(&name, &self.world.own_paths, TRUE, spec)).await?),
            }
            sleep(PACE).await;
        }
        Ok(())
    }

    pub(super) async fn churn(&self, mut rng: SeededRng) -> Result<()> {
        let pods = self.attacker.api::<Pod>();
        let maps = self.attacker.api::<ConfigMap>();
        let params = ListParams::default().labels(names::JOB_UID);
        for nth in 0.. {
            let name = format!("churn-{}", rng.below(8));
            match rng.below(9) {
                choice @ 0..3 => {
                    let name = if choice == 0 { "rollout" } else { &name };
                    self.create(job(name, &self.world.own_paths, TRUE, json!({}))).await?;
                }
                3 => {
                    let target = self.target.borrow().clone().unwrap_or_default();
                    let ledger = names::ledger(&target.name, &target.uid.into(), 0);
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
}

/// A board's address, written in one of many ways.
fn spelling(board: &str, rng: &mut SeededRng) -> String {
    match rng.below(5) {
        0 => format!("{board}:80"),
        1 => format!("http://{board}/"),
        2 => format!("HTTP://{board}"),
        3 => format!("http://{board}:80"),
        _ => board.to_owned(),
    }
}
