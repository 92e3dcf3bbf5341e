//! Makes the trouble that a world has, one step at a time: each begins when enough boards are flashed.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use flashjob_sim::Operator;
use flashjob_sim::clock::now;
use flashjob_sim::flashjob::Site;
use flashjob_sim::flashjob::field::Field;
use flashjob_sim::flashjob::site::NAMESPACE;
use jiff::Timestamp;

use super::ALONE;
use super::world::{Outage, World};

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
    /// All operators so far; the last one runs.
    pub operators: Vec<Operator>,
    quota_was_set: bool,
}

impl Trouble {
    /// With the first operator at work.
    pub fn new(world: &World, site: &Site<Field>) -> Result<Self> {
        let mut kills = world.kills.clone().into_iter();
        Ok(Self {
            next_kill: kills.next(),
            kills,
            registry: Stand::new(world.registry),
            quota: Stand::new(world.quota),
            registry_back: None,
            operators: vec![site.operator_with(&ALONE, None)?],
            quota_was_set: false,
        })
    }

    /// Does what is due now that so many boards are flashed. Of kills one at a time, so that one operator at least starts.
    pub async fn step(
        &mut self,
        site: &Site<Field>,
        flashed: usize,
        tell: &dyn Fn(&str),
    ) -> Result<()> {
        match self.registry.step(flashed) {
            Next::Begin => {
                tell(&format!("{flashed} flashed: the registry goes down"));
                site.field.registry.stop();
            }
            Next::End => {
                site.field.registry.start_again().await?;
                self.registry_back = Some(now());
                tell("the registry is back");
            }
            Next::Kill => return self.kill(site),
            Next::Nothing => {}
        }
        match self.quota.step(flashed) {
            Next::Begin => {
                tell(&format!("{flashed} flashed: no more Pods in {NAMESPACE}"));
                self.quota_was_set = true;
                site.cluster.allow(NAMESPACE, "pods", 0).await?;
            }
            Next::End => {
                site.cluster.allow(NAMESPACE, "pods", PLENTY).await?;
                tell("Pods are allowed again");
            }
            Next::Kill => return self.kill(site),
            Next::Nothing => {}
        }
        if self.next_kill.is_some_and(|at| flashed >= at) {
            self.next_kill = self.kills.next();
            return self.kill(site);
        }
        Ok(())
    }

    fn kill(&mut self, site: &Site<Field>) -> Result<()> {
        self.operators.iter_mut().for_each(Operator::kill);
        self.operators.push(site.operator_with(&ALONE, None)?);
        Ok(())
    }

    /// None ends by itself.
    pub fn operator_runs(&mut self) -> Result<()> {
        let operator = self.operators.last_mut().context("no operator")?;
        ensure!(
            !operator.has_ended(),
            "the operator has ended by itself: {}",
            operator.log_end(4096)
        );
        Ok(())
    }

    /// What of it did not come about, or had no effect: then the run says nothing.
    pub fn missed(&self, site: &Site<Field>) -> Result<Vec<String>> {
        let mut missed = Vec::new();
        if !self.registry.is_over() || !self.quota.is_over() || self.next_kill.is_some() {
            missed.push("the jobs were finished before all trouble was made".to_owned());
        }
        if self.quota_was_set && site.operators.refusals(NAMESPACE, "pods")? == 0 {
            missed.push("the quota was never hit".to_owned());
        }
        Ok(missed)
    }

    pub fn words(&self) -> Vec<String> {
        match self.operators.len() - 1 {
            0 => Vec::new(),
            killed => vec![format!("operator killed {killed} times")],
        }
    }
}
