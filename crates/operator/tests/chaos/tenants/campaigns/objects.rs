//! Objects that are not what they say: ledgers, Pods and Services. And connections.

use std::collections::{BTreeMap, VecDeque};

use anyhow::Result;
use flashjob_api::flashjob::FlashJob;
use flashjob_plan::flashjob::names;
use flashjob_sim::SeededRng;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::super::forgery::{NOWHERE, Target, broken_record, job, nonsense, squatter};
use super::super::judge::FLASHER;
use super::super::world::TRUE;
use super::{Attack, PACE, STANDING};

/// How many connections stand at once: more than any port has room for.
const CONNECTIONS: usize = 200;

impl Attack<'_> {
    pub(super) async fn forge<K>(
        &self,
        mut rng: SeededRng,
        forgery: fn(&Target, &mut SeededRng, usize) -> Value,
    ) -> Result<()>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
    {
        let target = self.target().await;
        let mut standing = VecDeque::new();
        for nth in 0.. {
            let forged = self.attacker.create::<K>(forgery(&target, &mut rng, nth)).await?;
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
    pub(super) async fn replace_services(&self) -> Result<()> {
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

    pub(super) async fn break_ledgers(&self, mut rng: SeededRng) -> Result<()> {
        let maps = self.attacker.api::<ConfigMap>();
        for nth in 0.. {
            if nth < STANDING {
                let devices = if rng.chance(1, 2) {
                    self.world.own_paths.clone()
                } else {
                    vec![format!("not-there-{nth}")]
                };
                let image = if rng.chance(1, 2) { TRUE } else { FLASHER };
                self.create(job(&format!("broken-{nth}"), &devices, image, json!({}))).await?;
            }
            sleep(4 * PACE).await;
            for map in maps.list(&ListParams::default().labels(names::SHARD)).await? {
                if !rng.chance(1, 4) {
                    continue;
                }
                let (key, new) = self.broken(map.data.clone().unwrap_or_default(), &mut rng);
                let change = json!({ "data": { key: new } });
                self.attacker.change::<ConfigMap>(&map.name_any(), change).await?;
                sleep(PACE).await;
            }
        }
        Ok(())
    }

    /// Pods that never end, each with the name, labels and owner of a flash Pod, at a board of the victim's.
    pub(super) async fn squat(&self, mut rng: SeededRng) -> Result<()> {
        let endpoints: Vec<&String> = self.world.bench.boards.values().collect();
        let mut standing = VecDeque::new();
        for nth in 0.. {
            let name = format!("squatter-{nth}");
            let held = json!({ "suspend": true });
            let owner = match rng.below(3) {
                // Of a job that never was. With `*` a real one may take any board, and needs no forgery for it.
                choice if choice == 0 || !self.plot.own => {
                    Some(format!("00000000-0000-4000-8000-{nth:012}"))
                }
                _ => {
                    let made = self.create(job(&name, &self.world.own_paths, TRUE, held)).await?;
                    made.and_then(|job| job.uid())
                }
            };
            let board = endpoints[nth % endpoints.len()];
            let forged = squatter(&name, &owner.unwrap_or_default(), board);
            let forged = self.attacker.create::<Pod>(forged).await?;
            // Half of the jobs go and leave their Pods behind.
            if rng.chance(1, 2) {
                self.attacker.delete::<FlashJob>(&name).await?;
                let change = json!({ "metadata": { "finalizers": null } });
                self.attacker.change::<FlashJob>(&name, change).await?;
            }
            standing.extend(forged.map(|forged| forged.name_any()));
            if standing.len() > STANDING
                && let Some(oldest) = standing.pop_front()
            {
                self.attacker.delete::<Pod>(&oldest).await?;
            }
            // It begins with all boards at once.
            if nth >= endpoints.len() {
                sleep(4 * PACE).await;
            }
        }
        Ok(())
    }

    /// Connections to the operator that say nothing.
    pub(super) async fn connect(&self) -> Result<()> {
        let mut open: Vec<TcpStream> = Vec::new();
        loop {
            // What the other side has closed can be read to its end.
            open.retain(|stream| stream.try_read(&mut [0; 16]).is_err());
            // After a restart all of them are gone, and it begins with a burst.
            let more = if open.is_empty() { CONNECTIONS } else { 1 };
            for _ in 0..more.min(CONNECTIONS - open.len()) {
                let Ok(stream) = TcpStream::connect(self.health).await else { break };
                self.attacker.tried.set(self.attacker.tried.get() + 1);
                open.push(stream);
            }
            sleep(PACE).await;
        }
    }

    /// A key of a ledger, and something else for it.
    fn broken(&self, data: BTreeMap<String, String>, rng: &mut SeededRng) -> (String, String) {
        let keys: Vec<&String> = data.keys().collect();
        let key = rng.pick(&keys).map_or_else(|| "header".to_owned(), |key| (*key).clone());
        let old = data.get(&key).and_then(|text| serde_json::from_str(text).ok());
        let old = old.filter(Value::is_object).unwrap_or_else(|| json!({}));
        let new = match rng.below(6) {
            0 => "{".to_owned(),
            _ if key == "header" => nonsense(old, rng).to_string(),
            _ => broken_record(old, rng, self.world).to_string(),
        };
        (key, new)
    }
}
