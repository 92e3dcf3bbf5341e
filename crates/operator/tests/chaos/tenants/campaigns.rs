//! What the attacker does. Every campaign goes on until it is dropped, at a rate that a cluster allows its users: about
//! twenty writes a second each, and bursts of a hundred jobs.

mod jobs;
mod objects;

use std::net::SocketAddrV4;
use std::time::Duration;

use anyhow::Result;
use flashjob_api::flashjob::FlashJob;
use flashjob_sim::SeededRng;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use serde_json::Value;
use tokio::sync::watch;

use super::attacker::Attacker;
use super::forgery::Target;
use super::plot::{Campaign, Plot};
use super::world::World;

/// Between two writes of one campaign.
const PACE: Duration = Duration::from_millis(50);
/// How many objects of a kind a campaign leaves standing; older ones make room.
const STANDING: usize = 60;

pub struct Attack<'a> {
    pub world: &'a World,
    pub plot: &'a Plot,
    pub attacker: &'a Attacker,
    /// The operator's port for health, which Pods reach where no policy keeps them from it.
    pub health: SocketAddrV4,
    /// The victim's job, once it is there.
    pub target: watch::Receiver<Option<Target>>,
}

impl Attack<'_> {
    /// All campaigns of the plot. Ends only with an error.
    pub async fn run(&self) -> Result<()> {
        let mut rng = self.plot.rng.clone();
        let all = self.plot.campaigns.iter().map(|c| self.one(*c, SeededRng::new(rng.next())));
        try_join_all(all.collect::<Vec<_>>()).await?;
        std::future::pending().await
    }

    async fn one(&self, campaign: Campaign, rng: SeededRng) -> Result<()> {
        match campaign {
            Campaign::ForgedLedgers => self.forge::<ConfigMap>(rng, Target::ledger).await,
            Campaign::ForgedPods => self.forge::<Pod>(rng, Target::pod).await,
            Campaign::ForgedServices => {
                tokio::try_join!(
                    self.forge::<Service>(rng.clone(), Target::service),
                    self.replace_services()
                )?;
                Ok(())
            }
            Campaign::Squatters => self.squat(rng).await,
            Campaign::BrokenLedgers => self.break_ledgers(rng).await,
            Campaign::Unserved => self.ask_nobody().await,
            Campaign::RefusedLedgers | Campaign::Flood => self.flood(rng).await,
            Campaign::Usurpers => self.usurp(rng).await,
            Campaign::LargeJobs => self.large_jobs().await,
            Campaign::AnySpec => self.any_specs(rng).await,
            Campaign::Churn => self.churn(rng).await,
            Campaign::IdleConnections => self.connect().await,
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

    async fn create(&self, job: Value) -> Result<Option<FlashJob>> {
        self.attacker.create::<FlashJob>(job).await
    }
}
