//! Two namespaces on one cluster: the victim's, with boards and a rollout, and the attacker's, with boards of its own. Each
//! has its own pool of addresses, as careful clusters have it: a pool that is used up is no work of this operator.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use flashjob_api::flashjob::FlashJob;
use flashjob_sim::flashjob::site::CONFIGURATION;
use flashjob_sim::flashjob::{Akri, Site, jobs};
use flashjob_sim::node::{AddressPool, Kubelet, LoadBalancer, Script, ScriptEnd, Started};
use flashjob_sim::{PATIENCE, eventually, lock};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota, Service};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::judge::{Bench, FLASHER, Kind, Problem, names_holder};
use super::plot::{Plot, Written};
use crate::arena::Arena;
use crate::judge::ill_said;
use crate::record::Record;

/// An image that exits with 0 and asks no board for anything.
pub const TRUE: &str = "registry.example/true:1";
/// One that never ends.
pub const SLEEP: &str = "registry.example/sleep:1";
/// One that never ends, and takes its time when it is told to.
pub const STUBBORN: &str = "registry.example/stubborn:1";
/// How many boards the attacker has.
const ATTACKERS_BOARDS: usize = 2;
const POOL: usize = 200;

pub struct World {
    /// The victim's. Its kubelet is for all.
    site: Site,
    pub kubelet: Arc<Kubelet>,
    pub record: Record,
    pub bench: Bench,
    /// What the victim's statuses had wrong.
    problems: Arc<Mutex<Vec<Problem>>>,
    /// A status of the victim's has named a job of the attacker's that holds a board.
    held: Arc<AtomicBool>,
    pub victim: String,
    pub attacker: String,
    /// The victim's boards, as its jobs write them.
    pub devices: Vec<String>,
    /// `namespace/name` of the victim's boards and of the attacker's.
    pub paths: Vec<String>,
    pub own_paths: Vec<String>,
    _attackers_balancer: LoadBalancer,
}

impl World {
    pub async fn new(arena: &Arena, plot: &Plot) -> Result<Self> {
        let cluster = &arena.cluster;
        let (victim, flash) = (cluster.namespace("m-victim").await?, plot.flash);
        let site = Site::on(cluster).operators(arena.operators.clone()).everywhere();
        let mut site = site.namespace(&victim).start(move |pod| script(pod, flash)).await?;
        let attacker =
            cluster.namespace(if plot.sorts_first { "a-tenant" } else { "z-tenant" }).await?;
        let discover = async |home: &str, from: usize, count: usize| {
            let akri = Akri::new(site.client.clone(), home, CONFIGURATION);
            let mut all = Vec::new();
            for n in from..from + count {
                let endpoint = format!("192.0.2.{n}");
                all.push((akri.discover(&endpoint, "esp32", "thermo", "0.1.0").await?, endpoint));
            }
            anyhow::Ok(all)
        };
        let boards = discover(&victim, 11, plot.boards).await?;
        let own = discover(&attacker, 201, ATTACKERS_BOARDS).await?;
        let path = |home: &str, name: &str| format!("{home}/{name}");
        let written = |instance: &flashjob_api::flashjob::instance::Instance| match plot.written {
            Written::Path => path(&victim, &instance.name_any()),
            Written::Name => instance.name_any(),
            Written::Uid => instance.uid().unwrap_or_default(),
        };
        let bench = Bench {
            victim: victim.clone(),
            boards: boards.iter().map(|(i, endpoint)| (written(i), endpoint.clone())).collect(),
            own: plot.own,
            addresses: "198.51.100.".to_owned(),
        };
        let pool =
            |net: &str| AddressPool::Addresses((1..=POOL).map(|n| format!("{net}{n}")).collect());
        site.balancer = site.load_balancer(Some(&victim), pool(&bench.addresses))?;
        let attackers_balancer = site.load_balancer(Some(&attacker), pool("203.0.113."))?;
        let problems: Arc<Mutex<Vec<Problem>>> = Arc::default();
        let held: Arc<AtomicBool> = Arc::default();
        let (judge, found) = (bench.clone(), problems.clone());
        let (named, stranger) = (held.clone(), attacker.clone());
        let judge = move |job: &FlashJob, _: Option<&FlashJob>, sessions: &[Started]| {
            if job.status.as_ref().is_some_and(|status| names_holder(status, &stranger)) {
                named.store(true, Ordering::Release);
            }
            lock(&found).extend(judged(&judge, job, sessions));
            Vec::new()
        };
        let kubelet = site.kubelet.clone();
        let record = Record::start(site.jobs(), kubelet.clone(), judge);
        let paths =
            |home: &str, boards: &[(flashjob_api::flashjob::instance::Instance, String)]| {
                boards.iter().map(|(instance, _)| path(home, &instance.name_any())).collect()
            };
        Ok(Self {
            devices: boards.iter().map(|(instance, _)| written(instance)).collect(),
            paths: paths(&victim, &boards),
            own_paths: paths(&attacker, &own),
            site,
            kubelet,
            record,
            held,
            bench,
            problems,
            victim,
            attacker,
            _attackers_balancer: attackers_balancer,
        })
    }

    pub fn was_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    pub fn problems(&self) -> Vec<Problem> {
        lock(&self.problems).clone()
    }

    pub fn jobs(&self) -> Api<FlashJob> {
        self.site.jobs()
    }

    /// How many flashes the victim has begun for this version.
    pub fn begun(&self, starts: &[Started], version: &str) -> usize {
        let mine = |s: &&Started| {
            s.namespace == self.victim && s.env.get("VERSION").is_some_and(|v| v == version)
        };
        starts.iter().filter(mine).count()
    }

    /// The victim creates a job for all of its boards.
    pub async fn flash(&self, name: &str, version: &str, plot: &Plot) -> Result<FlashJob> {
        let more = json!({
            "uuid": self.devices,
            "flashjobPodImage": FLASHER,
            "rollout": { "batchSize": plot.batch },
        });
        jobs::create(&self.jobs(), name, jobs::with(jobs::sample(version), more)).await
    }

    /// The victim's ledger, once it is there: what a well-informed attacker knows.
    pub async fn ledger(&self, uid: &str) -> Result<BTreeMap<String, String>> {
        let maps = self.site.api::<ConfigMap>();
        let labels = format!("{}={uid}", flashjob_plan::flashjob::names::JOB_UID);
        eventually("the ledger", PATIENCE, async || {
            let all = maps.list(&ListParams::default().labels(&labels)).await?;
            Ok(all.items.into_iter().find_map(|map| map.data))
        })
        .await
    }

    /// Takes away all that has been made in a namespace, but for what goes with its jobs.
    pub async fn empty(&self, home: &str) -> Result<()> {
        // At once, whatever their containers think of it.
        self.delete_all::<Pod>(home, &DeleteParams::background().grace_period(0)).await?;
        let services: Api<Service> = Api::namespaced(self.site.client.clone(), home);
        for service in services.list_metadata(&ListParams::default()).await? {
            let _ = services.delete(&service.name_any(), &DeleteParams::default()).await;
        }
        self.delete_all::<FlashJob>(home, &DeleteParams::background()).await?;
        self.delete_all::<ResourceQuota>(home, &DeleteParams::background()).await
    }

    /// Everything goes, the attacker's forgeries first.
    pub async fn clean_up(&self) -> Result<()> {
        for home in [&self.attacker, &self.victim] {
            self.empty(home).await?;
        }
        for home in [&self.attacker, &self.victim] {
            let jobs = self.site.jobs_in(home);
            eventually("the jobs to be gone", PATIENCE, async || {
                Ok(jobs.list_metadata(&ListParams::default()).await?.items.is_empty().then_some(()))
            })
            .await?;
            // In place of the garbage collector.
            self.delete_all::<ConfigMap>(home, &DeleteParams::background()).await?;
        }
        Ok(())
    }

    async fn delete_all<K>(&self, home: &str, params: &DeleteParams) -> Result<()>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let all: Api<K> = Api::namespaced(self.site.client.clone(), home);
        let deleted = all.delete_collection(params, &ListParams::default()).await;
        deleted.map(drop).with_context(|| format!("{} of {home} cannot be deleted", K::kind(&())))
    }
}

fn judged(bench: &Bench, job: &FlashJob, sessions: &[Started]) -> Vec<Problem> {
    let Some(status) = &job.status else { return Vec::new() };
    let ill = ill_said(status).into_iter().map(|words| Problem::new(Kind::IllSaid, words));
    let mut problems: Vec<Problem> = ill.collect();
    problems.extend(bench.status(status, &job.spec.version, sessions));
    let name = job.name_any();
    problems.iter_mut().for_each(|problem| problem.words.insert_str(0, &format!("{name}: ")));
    problems
}

/// What an image does.
fn script(pod: &Pod, flash: Duration) -> Script {
    let spec = pod.spec.as_ref();
    match spec.and_then(|spec| spec.containers.first()?.image.as_deref()) {
        Some(TRUE) => Script::success(""),
        Some(SLEEP) => Script::ending(ScriptEnd::Never),
        Some(STUBBORN) => Script::ending(ScriptEnd::Never).on_sigterm(PATIENCE, 143, ""),
        _ => Script::success("").run_for(flash),
    }
}
