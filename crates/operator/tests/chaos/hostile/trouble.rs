//! Makes the trouble that a world has, one step at a time: each begins when enough boards are flashed.

use std::time::Instant;

use anyhow::Result;
use flashjob_sim::flashjob::site::{NAMESPACE, Stage};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::world::{Outage, World};
use super::{ALONE, now};

/// More Pods than anybody makes.
const PLENTY: u32 = 1_000_000;

/// How far an outage has come.
enum Stand {
    Before(Outage),
    In { outage: Outage, since: Instant, killed: bool },
    Over,
}

/// What is done next in an outage.
enum Next {
    Nothing,
    Begin,
    Kill,
    End,
}

impl Stand {
    fn new(outage: Option<Outage>) -> Self {
        outage.map_or(Self::Over, Self::Before)
    }

    fn step(&mut self, flashed: usize) -> Next {
        match self {
            Self::Before(outage) if flashed >= outage.at => {
                *self = Self::In { outage: *outage, since: Instant::now(), killed: false };
                Next::Begin
            }
            Self::In { outage, since, .. } if since.elapsed() >= outage.lasts => {
                *self = Self::Over;
                Next::End
            }
            Self::In { outage, since, killed } => {
                let kill = !*killed && since.elapsed() >= outage.kill_after;
                *killed |= kill;
                if kill { Next::Kill } else { Next::Nothing }
            }
            _ => Next::Nothing,
        }
    }

    fn is_over(&self) -> bool {
        matches!(self, Self::Over)
    }
}

/// What is still to come.
pub struct Trouble {
    kills: std::vec::IntoIter<usize>,
    next_kill: Option<usize>,
    registry: Stand,
    quota: Stand,
    /// When the registry was there again.
    pub registry_back: Option<Timestamp>,
    /// How often the operator was killed.
    pub killed: usize,
    quota_was_set: bool,
}

impl Trouble {
    pub fn new(world: &World) -> Self {
        let mut kills = world.kills.clone().into_iter();
        Self {
            next_kill: kills.next(),
            kills,
            registry: Stand::new(world.registry),
            quota: Stand::new(world.quota),
            registry_back: None,
            killed: 0,
            quota_was_set: false,
        }
    }

    /// Does what is due now that so many boards are flashed. Of kills one at a time, so that one operator at least starts.
    pub async fn step(
        &mut self,
        stage: &mut Stage,
        flashed: usize,
        tell: &dyn Fn(&str),
    ) -> Result<()> {
        match self.registry.step(flashed) {
            Next::Begin => {
                tell(&format!("{flashed} flashed: the registry goes down"));
                stage.registry.stop();
            }
            Next::End => {
                stage.registry.start_again().await?;
                self.registry_back = Some(now());
                tell("the registry is back");
            }
            Next::Kill => return self.kill(stage).await,
            Next::Nothing => {}
        }
        match self.quota.step(flashed) {
            Next::Begin => {
                tell(&format!("{flashed} flashed: no more Pods in {NAMESPACE}"));
                self.quota_was_set = true;
                allow(stage, 0).await?;
            }
            Next::End => {
                allow(stage, PLENTY).await?;
                tell("Pods are allowed again");
            }
            Next::Kill => return self.kill(stage).await,
            Next::Nothing => {}
        }
        if self.next_kill.is_some_and(|at| flashed >= at) {
            self.next_kill = self.kills.next();
            return self.kill(stage).await;
        }
        Ok(())
    }

    async fn kill(&mut self, stage: &mut Stage) -> Result<()> {
        self.killed += 1;
        stage.start_operator_with(&ALONE).await
    }

    /// What of it did not come about, or had no effect: then the run says nothing.
    pub fn missed(&self, stage: &Stage) -> Result<Vec<String>> {
        let mut missed = Vec::new();
        if !self.registry.is_over() || !self.quota.is_over() || self.next_kill.is_some() {
            missed.push("the jobs were finished before all trouble was made".to_owned());
        }
        if self.quota_was_set && refusals(stage)? == 0 {
            missed.push("the quota was never hit".to_owned());
        }
        Ok(missed)
    }

    pub fn words(&self) -> Vec<String> {
        match self.killed {
            0 => Vec::new(),
            killed => vec![format!("operator killed {killed} times")],
        }
    }
}

/// Lets no more than so many Pods be made. No controller works out what is used, so this says it: nothing.
async fn allow(stage: &Stage, count: u32) -> Result<()> {
    let quotas: Api<ResourceQuota> = Api::namespaced(stage.client.clone(), NAMESPACE);
    let hard = json!({ "pods": count.to_string() });
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": { "name": "tight" }, "spec": { "hard": hard },
    });
    quotas.patch("tight", &PatchParams::apply("chaos").force(), &Patch::Apply(quota)).await?;
    let used = json!({ "status": { "hard": hard, "used": { "pods": "0" } } });
    quotas.patch_status("tight", &PatchParams::default(), &Patch::Merge(used)).await?;
    Ok(())
}

/// How often the quota refused the operator a Pod.
pub fn refusals(stage: &Stage) -> Result<usize> {
    let writes = stage.cluster.writes(NAMESPACE)?;
    let refused = |write: &&flashjob_sim::cluster::AuditEntry| {
        write.resource == "pods" && write.verb == "create" && write.code == 403
    };
    Ok(writes.iter().filter(refused).count())
}
