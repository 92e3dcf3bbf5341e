//! A small world: boards in two namespaces, a kubelet whose flash containers are scripts, a load balancer, Akri.
//!
//! What the kubelet started is the boards' own ledger: a session is a flash container that ran, with the board, the
//! firmware, when it began and ended, and how.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Result;
use flashjob_api::flashjob::FlashJob;
use flashjob_api::flashjob::instance::Instance;
use flashjob_sim::flashjob::site::CONFIGURATION;
use flashjob_sim::flashjob::{Akri, Site, jobs};
use flashjob_sim::node::{AddressPool, Kubelet, Script, Started};
use flashjob_sim::{PATIENCE, eventually};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt};
use serde_json::Value;

use crate::arena::Arena;
use crate::record::{Record, problems_of};

/// Where boards and jobs live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Home {
    North,
    South,
}

pub struct Board {
    pub home: Home,
    pub endpoint: String,
    pub instance: Instance,
}

pub struct World {
    /// In the north; its kubelet and load balancer are for both.
    site: Site,
    pub kubelet: Arc<Kubelet>,
    pub record: Record,
    pub boards: Vec<Board>,
    south: String,
    akri: [Akri; 2],
}

impl World {
    /// So many boards in the north and in the south.
    pub async fn new(
        arena: &Arena,
        boards: [usize; 2],
        addresses: usize,
        script: impl Fn(&Pod) -> Script + Send + Sync + 'static,
    ) -> Result<Self> {
        let site = Site::on(&arena.cluster).operators(arena.operators.clone()).everywhere();
        let site = site.pool(AddressPool::of(addresses)).start(script).await?;
        let (client, north) = (site.client.clone(), site.namespace.clone());
        let south = arena.cluster.namespace("south").await?;
        let akri = [&north, &south].map(|home| Akri::new(client.clone(), home, CONFIGURATION));
        let mut all = Vec::new();
        for (akri, (home, count)) in
            akri.iter().zip([(Home::North, boards[0]), (Home::South, boards[1])])
        {
            for _ in 0..count {
                let endpoint = format!("192.0.2.{}", 101 + all.len());
                let instance = akri.discover(&endpoint, "esp32", "thermo", "0.1.0").await?;
                all.push(Board { home, endpoint, instance });
            }
        }
        // However a job may name a board.
        let mut endpoints = HashMap::new();
        for board in &all {
            let name = board.instance.name_any();
            let home = if board.home == Home::North { &north } else { &south };
            endpoints.insert(format!("{home}/{name}"), board.endpoint.clone());
            endpoints.insert(name, board.endpoint.clone());
        }
        let judge = move |job: &FlashJob, before: Option<&FlashJob>, sessions: &[Started]| {
            problems_of(job, before, sessions, &endpoints)
        };
        let kubelet = site.kubelet.clone();
        let record = Record::start(Api::all(client), kubelet.clone(), judge);
        Ok(Self { site, kubelet, record, boards: all, south, akri })
    }

    pub fn namespace(&self, home: Home) -> &str {
        match home {
            Home::North => &self.site.namespace,
            Home::South => &self.south,
        }
    }

    /// `namespace/name` of boards, as a job of any namespace may name them.
    pub fn paths(&self, boards: impl IntoIterator<Item = usize>) -> Vec<String> {
        let path = |n: usize| {
            let board = &self.boards[n];
            format!("{}/{}", self.namespace(board.home), board.instance.name_any())
        };
        boards.into_iter().map(path).collect()
    }

    pub fn jobs(&self, home: Home) -> Api<FlashJob> {
        self.site.jobs_in(self.namespace(home))
    }

    pub async fn flash(&self, home: Home, name: &str, version: &str, more: Value) -> Result<()> {
        let spec = jobs::with(jobs::sample(version), more);
        jobs::create(&self.jobs(home), name, spec).await.map(drop)
    }

    /// Changes a job's spec. What the API server says against it, if it does.
    pub async fn edit(&self, home: Home, name: &str, change: &Value) -> Result<Option<String>> {
        match jobs::edit(&self.jobs(home), name, change).await {
            Ok(()) => Ok(None),
            Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => {
                Ok(Some(status.message.clone()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The board restarts into its new firmware: Akri loses it, and finds it again under a new uid.
    pub async fn rediscover(&self, n: usize, version: &str) -> Result<()> {
        let board = &self.boards[n];
        let akri = &self.akri[usize::from(board.home == Home::South)];
        akri.lose(&board.instance).await?;
        akri.discover(&board.endpoint, "esp32", "thermo", version).await?;
        Ok(())
    }

    /// Waits until there is no Pod and no Service left.
    pub async fn cleaned_up(&self) -> Result<()> {
        self.site.cleaned_up_in(&[&self.site.namespace, &self.south], PATIENCE).await
    }

    /// Deletes all jobs and waits until they are gone. What is left of them must belong to them, so that the garbage
    /// collector takes it; it is taken here in its place, as none runs in this world.
    pub async fn delete_jobs(&self) -> Result<()> {
        for home in [Home::North, Home::South] {
            let jobs = self.jobs(home);
            let params = DeleteParams::background();
            jobs.delete_collection(&params, &ListParams::default()).await?;
            eventually("the jobs to be gone", PATIENCE, async || {
                Ok(jobs.list(&ListParams::default()).await?.items.is_empty().then_some(()))
            })
            .await?;
        }
        self.cleaned_up().await?;
        for home in [Home::North, Home::South] {
            let maps: Api<ConfigMap> =
                Api::namespaced(self.site.client.clone(), self.namespace(home));
            for map in maps.list(&ListParams::default()).await? {
                let owned = map.owner_references().iter().any(|o| o.kind == "FlashJob");
                let name = map.name_any();
                anyhow::ensure!(
                    owned || name == "kube-root-ca.crt",
                    "the ConfigMap {name} is left and belongs to nobody"
                );
                maps.delete(&name, &DeleteParams::default()).await?;
            }
        }
        Ok(())
    }
}
